"""How long a trial waits, at a report where it is judged, for what is decided of it.

So no unit is trained beyond a decision. The wait is a round trip to the driver and a sync of its journal. It has a
bound, for a driver may be away: what comes later is obeyed at the next report.
"""

from __future__ import annotations

import time

from asyncsearch.runner.link import Link

_SHARE = 0.5
"""The most that it waits, as a part of the time of a unit."""
_LEAST_S = 1.0
_MOST_S = 5.0
_ROUND_TRIPS = 3
"""A unit that takes less than so many waits is not worth one where each report is judged."""
_IN_A_ROW = 2
"""After so many reports one after another at which the trial was judged, each one counts as such."""


class VerdictWaits:
    """Measures the units and the waits of one training."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        """When the last unit began, by the monotonic clock. None before the first report."""
        self._unit_s = 0.0
        """Seconds of a unit, as of the last report. 0 if none was measured."""
        self._waited_s = 0.0
        """Seconds of the last wait that was answered."""
        self._reported = self._judged = 0
        self._row = 0
        """How many reports one after another were such, up to the last one."""

    def is_worth_it(self, resource: int) -> bool:
        """Note a report, and return whether what is decided by it is to be waited for.

        Args:
            resource: of the report, at which the trial is judged.
        """
        units, now = resource - self._reported, time.monotonic()
        if self._since_s is not None and units > 0:
            self._unit_s = (now - self._since_s) / units
        self._row = self._row + 1 if self._judged == resource - 1 else 1
        self._since_s, self._reported, self._judged = now, resource, resource
        return self._row <= _IN_A_ROW or self._unit_s >= _ROUND_TRIPS * self._waited_s

    def wait(self, link: Link, resource: int, *, is_end: bool) -> int | None:
        """Wait for the decision on a report; return where the trial is judged next. None means nowhere.

        Args:
            link: to the driver.
            resource: of the report.
            is_end: whether no unit is left, so that nothing else is to be done than to save.
        """
        began_s = time.monotonic()
        limit_s = _MOST_S if is_end else min(_MOST_S, max(_LEAST_S, _SHARE * self._unit_s))
        found = link.await_verdict(resource, limit_s)
        self._since_s = time.monotonic()
        self._waited_s = self._since_s - began_s
        return found

"""The best value so far over the time of a search; intermediate values of trials count (ASHA paper, section 3.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from asyncsearch.ids import TrialId, trial_name
from asyncsearch.journal.format import Record
from asyncsearch.journal.projection import Projection
from asyncsearch.nonfinite import finite
from asyncsearch.report.dataframe import dataframe

if TYPE_CHECKING:
    import pandas


class Incumbent(msgspec.Struct, frozen=True):
    """A value that was the best one when it was reported, whatever its trial did afterwards."""

    trial: TrialId
    value: float
    """Of the metric, with the user's sign."""
    resource: int
    """Units of training after which the trial reported it."""
    t: float
    """When it was reported: driver's clock, seconds since 1970."""
    elapsed_s: float
    """Seconds from the study's first record to the report, pauses between runs included."""
    trained: int
    """Units of training of all trials up to then, repeated ones included."""

    @property
    def name(self) -> str:
        """The name of the trial that people see."""
        return trial_name(self.trial)


def incumbents(records: Iterable[Record], *, metric: str, mode: str) -> list[Incumbent]:
    """Return every value that was the best one when it was reported, in that order; the last one is the incumbent.

    Of equal values that of the older trial is the better one.
    """
    sign = 1.0 if mode == "min" else -1.0
    projection, found = Projection(), list[Incumbent]()
    best: tuple[float, TrialId] | None = None
    began_s: float | None = None
    for record in records:
        began_s = record.t if began_s is None else began_s
        for report in projection.add(record):
            value = finite(report.metrics.get(metric))
            if value is not None and (best is None or (sign * value, report.trial) < best):
                best = (sign * value, report.trial)
                elapsed_s = report.t - began_s
                found.append(Incumbent(report.trial, value, report.resource, report.t, elapsed_s, projection.trained))
    return found


def incumbents_dataframe(found: Sequence[Incumbent]) -> pandas.DataFrame:
    """Return one row for each incumbent; ``reported`` is in UTC.

    Raises:
        UsageError: pandas is not installed.
    """
    rows = [(one.name, one.value, one.resource, one.t, one.elapsed_s, one.trained) for one in found]
    names = ["trial", "value", "resource", "reported", "elapsed_s", "trained"]
    without = "incumbents() works without."
    return dataframe("incumbents_dataframe", rows, names, times=("reported",), without=without)

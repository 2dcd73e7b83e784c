"""An earlier study as the workload of a simulated one: its configurations, values and times. Pure."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.simulate.options import Delays
from asyncsearch.space import Space
from asyncsearch.trial import Params

_LEAST_S = 1e-9
"""Seconds of a unit whose time was too short for the clock."""


class RecordedWorkload:
    """The reports and times of the trials of an earlier study.

    Beyond the last unit of a trial nobody knows its values: its last one is repeated there, and ``guessed`` counts
    the reports for which that was done. A trial that failed for good fails here too, each time that it is tried, where
    it did.

    Args:
        params: of the trials, in the order in which they began.
        values: of each trial, (resource, value) by resource; trials that reported nothing may be missing.
        unit_s: seconds of a unit of each trial, if it trains alone; those that are missing take the mean of
            the others.
        delays: measured times besides training.
        ended: trials whose function returned. The others were stopped, paused or failed: where there is no
            ``max_resource`` they are taken to be as long as the longest of all.
        failed: of trials that failed for good, after how many units and how many seconds more: see ``fails_after``.
        pack_speedup: how much packs gained, by structure, as measured. Empty if nothing was.
        most_lanes: how many trials trained together at most.
        gang_speedup: workers of a trial -> speed as a multiple of that of the fewest. Empty if nothing was seen.

    Raises:
        UsageError: no trial reported anything, or no time was measured.
    """

    def __init__(
        self,
        params: Sequence[Params],
        values: Mapping[TrialId, Sequence[tuple[int, float]]],
        unit_s: Mapping[TrialId, float],
        delays: Delays,
        ended: Iterable[TrialId] = (),
        failed: Mapping[TrialId, tuple[int, float]] | None = None,
        pack_speedup: Mapping[str, Mapping[int, float]] | None = None,
        most_lanes: int = 1,
        gang_speedup: Mapping[int, float] | None = None,
    ) -> None:
        if not any(values.values()) or not unit_s:
            raise UsageError("The study has no trial with a report and a measured time: there is nothing to simulate.")
        self.params = tuple(params)
        self.delays = delays
        self.pack_speedup = dict(pack_speedup or {})
        self.most_lanes = most_lanes
        self.gang_speedup = dict(gang_speedup or {})
        self.mean_s = statistics.fmean(unit_s.values())
        """Seconds of a unit, on average over the trials."""
        self.reports = 0
        """How many values were asked for."""
        self.guessed = 0
        self._resources = {trial: [resource for resource, _ in curve] for trial, curve in values.items()}
        self._values = {trial: [value for _, value in curve] for trial, curve in values.items()}
        self._unit_s = dict(unit_s)
        self._ended = frozenset(ended)
        self._failed = dict(failed or {})
        self._longest = max((resources[-1] for resources in self._resources.values() if resources), default=1)

    @property
    def searcher(self) -> Proposals:
        """Proposes the configurations of the study again, in their order, and no others."""
        return Proposals(self.params)

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        """Return the value that was last reported at or before ``resource``; NaN: none was."""
        self.reports += 1
        resources = self._resources.get(trial)
        if not resources:
            self.guessed += 1
            return float("nan")
        self.guessed += resource > resources[-1]
        at = bisect_right(resources, resource)
        return self._values[trial][at - 1] if at else float("nan")

    def units(self, trial: TrialId) -> int:
        """Return after how many units the function of a trial returns, where nothing else ends it."""
        if trial in self._failed:
            return max(self._longest, self._failed[trial][0] + 1)  # else it would return where it failed
        resources = self._resources.get(trial)
        return resources[-1] if resources and trial in self._ended else self._longest

    def fails_after(self, trial: TrialId) -> tuple[int, float] | None:
        """Return after how many units, and how many seconds of the next one, a trial fails. None if it does not.

        0 seconds: it failed where it was to be paused, or was complete.
        """
        return self._failed.get(trial)

    def seconds(self, trial: TrialId, params: Params) -> float:
        """Return the measured cost of a unit of this trial."""
        return max(self._unit_s.get(trial, self.mean_s), _LEAST_S)


@dataclass(frozen=True)
class Proposals(Searcher):
    """Proposes given configurations, one after the other."""

    params: tuple[Params, ...]

    def begin(self, space: Space, seed: int) -> ProposalsState:
        return ProposalsState(self.params)

    def describe(self) -> str:
        return f"Proposals({len(self.params)} configurations)"


class ProposalsState(SearcherState):
    """Keeps nothing but its configurations."""

    def __init__(self, params: tuple[Params, ...]) -> None:
        self._params = params

    def propose(self, number: int) -> Params | None:
        return self._params[number] if number < len(self._params) else None

    def length(self) -> int:
        return len(self._params)

"""The facts that stop rules read: kept by ``learning`` and ``applying``, in a run as in a replay. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from asyncsearch.ids import TrialId
from asyncsearch.stop_rules import RunningBest
from asyncsearch.trial import TrialState


class StopFacts(msgspec.Struct):
    """The facts that the stop rules of a study read."""

    study: RunningBest = msgspec.field(default_factory=RunningBest)
    trials: dict[TrialId, RunningBest] = {}
    """Of the unfinished trials that have reported."""
    paused: dict[TrialId, int] = {}
    """Unfinished trials that were paused once, and count as trials already."""

    def reported(self, trial: TrialId, value: float | None, mode: str) -> None:
        """A trial reads a report of the metric; None stands for one that is not finite."""
        self.study.report(value, mode)
        self.trials.setdefault(trial, RunningBest()).report(value, mode)

    def tick(self, trials: Iterable[TrialId], attempt: int, since_s: float, now: float) -> None:
        """Trials have trained up to now, under an attempt that began at ``since_s``."""
        for trial in trials:
            self.trials.setdefault(trial, RunningBest()).tick(attempt, since_s, now)

    def moved(self, trial: TrialId, to: TrialState) -> None:
        """A trial changed its state."""
        if to is TrialState.PAUSED:
            self._count(trial)
            self.paused[trial] = 1
        elif to.is_finished:
            if to is not TrialState.FAILED:
                self._count(trial)
            self.paused.pop(trial, None)
            self.trials.pop(trial, None)

    def _count(self, trial: TrialId) -> None:
        self.study.trials += trial not in self.paused

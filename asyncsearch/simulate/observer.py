"""Follows a simulation event by event and notes what its result needs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from asyncsearch.actions import AnyAction, Assign, CreateTrial, MoveTrial, Promote
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, Reported
from asyncsearch.ids import TrialId
from asyncsearch.simulate.options import Until
from asyncsearch.simulate.result import Arrival, SimulatedIncumbent, SizedTraining
from asyncsearch.trial import TrialState
from asyncsearch.work import Work


class SimulationObserver:
    """What is called at every step of a simulation.

    Args:
        state: as the simulation leaves it after each step.
        until: ``halt`` is called when its target is met, or so many trials as it says are trained to the end.
        most_trials: ``halt`` is called once so many began, for nothing else may end it; None: something else does.
    """

    def __init__(self, state: StudyState, until: Until, most_trials: int | None) -> None:
        self.incumbents: list[SimulatedIncumbent] = []
        self.arrivals: list[Arrival] = []
        self.sizes: list[SizedTraining] = []
        self.promotions = 0
        self.reason = ""
        """Why the simulation was halted, in words; empty: it was not."""
        self.halt: Callable[[], None] = lambda: None
        """Ends the simulation; its owner sets it."""
        self._state, self._target = state, state.score(until.target)
        self._until_completed, self._completed = until.completed, 0
        self._most_trials = most_trials
        self._best: float | None = None

    def __call__(self, now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        if type(event) is Reported:
            self._record_report(now, event)
        for action in actions:
            if type(action) is MoveTrial:
                if action.to is TrialState.PAUSED or action.to is TrialState.COMPLETED:
                    self._record_arrival(now, action.trial)
            elif type(action) is Assign:
                self._record_size(now, action.work)
            elif type(action) is Promote:
                self.promotions += 1
            elif type(action) is CreateTrial and action.trial + 1 == self._most_trials:
                self._stop(f"{self._most_trials:,} trials began before it was met; num_trials= lets more begin")

    def _record_size(self, now: float, work: Work) -> None:
        if isinstance(work.sized, str) and work.followers:
            trial = work.lanes[0].stages[0].trials[0]
            self.sizes.append(SizedTraining(now, trial, 1 + len(work.followers), work.sized))

    def _record_arrival(self, now: float, trial: TrialId) -> None:
        resource = self._state.trials[trial].resource
        self.arrivals.append(Arrival(now, trial, resource))
        if resource == self._state.max_resource:
            self._completed += 1
            if self._completed == self._until_completed:
                self._stop(f"{self._completed:,} trained to the end")

    def _record_report(self, now: float, event: Reported) -> None:
        attempt = self._state.attempts.get(event.lease.number + event.lane)
        value: Any = event.metrics[self._state.config.metric]
        score = self._state.score(value)
        if attempt is None or score is None or (self._best is not None and score >= self._best):
            return
        self._best = score
        trial = attempt.stage_at(event.resource).trials[0]
        self.incumbents.append(SimulatedIncumbent(now, trial, event.resource, value))
        if self._target is not None and score <= self._target:
            self._stop("the target was met")

    def _stop(self, reason: str) -> None:
        self.reason = reason
        self.halt()

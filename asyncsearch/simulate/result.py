"""The result of a simulated search, and the observer that notes it event by event. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from asyncsearch.actions import AnyAction, Assign, CreateTrial, MoveTrial, Promote
from asyncsearch.arguments import finite_number
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, Reported
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.simulate.options import Until
from asyncsearch.trial import Trial, TrialState
from asyncsearch.work import Work


class SimulatedIncumbent(msgspec.Struct, frozen=True):
    """A value that was better than all before it; values on the way of a trial count (ASHA paper, section 3.3)."""

    at_s: float
    trial: TrialId
    """The trial that trained it; others may have read it too."""
    resource: int
    value: float


class Arrival(msgspec.Struct, frozen=True):
    """A trial stood at its target: it paused there, or was trained to the end."""

    at_s: float
    trial: TrialId
    resource: int


class SizedTraining(msgspec.Struct, frozen=True):
    """A trial began to train, or went on, with more workers than others have."""

    at_s: float
    trial: TrialId
    workers: int
    reason: str
    """By which rule of ``autoscale=``, in words."""


class SimulationResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a simulated search went; ``print`` it. Times are virtual seconds from its beginning."""

    workers: int
    wall_s: float
    """When the run ended, or when the simulation was over before it."""
    busy_s: float
    """Seconds for which workers had work, all together; work that was lost included."""
    held_s: float = 0.0
    """Seconds for which slots were held, all together, from the launches of their workers on."""
    trained: int
    """Units of training that were reported, repeated ones included."""
    is_complete: bool
    """Whether all that was asked for is trained. False if time was up, the target was met, or the run broke."""
    reason: str
    """Why it ended, in words."""
    incumbents: tuple[SimulatedIncumbent, ...]
    """The best value so far, each time it changed, in the order of time."""
    arrivals: tuple[Arrival, ...]
    sizes: tuple[SizedTraining, ...] = ()
    """Which trials got more workers than others, by ``autoscale=``, in the order of time."""
    promotions: int
    max_resource: int | None
    state: StudyState
    """The engine's state at the end: trials, scheduler, searcher."""

    @property
    def busy_share(self) -> float:
        """Which share of the workers' time was training, from 0 to 1."""
        return self.busy_s / (self.workers * self.wall_s) if self.wall_s else 0.0

    @property
    def trials(self) -> list[Trial]:
        """All trials in the order in which they began."""
        return self.state.trials

    @property
    def best(self) -> SimulatedIncumbent | None:
        """The best value that was reported. None if none was finite."""
        return self.incumbents[-1] if self.incumbents else None

    @property
    def completed(self) -> list[Arrival]:
        """The trials that were trained to ``max_resource``, in the order of time."""
        return [arrival for arrival in self.arrivals if arrival.resource == self.max_resource]

    def value_at(self, at_s: float) -> float | None:
        """Return the best value that was known at a time. None if none was."""
        at_s = at_s if at_s == math.inf else finite_number("at_s", at_s)
        known = [incumbent.value for incumbent in self.incumbents if incumbent.at_s <= at_s]
        return known[-1] if known else None

    def time_to(self, value: float) -> float | None:
        """Return when a value at least as good as this was first reported, or None if never."""
        score = self.state.score
        wanted = score(finite_number("value", value))
        assert wanted is not None
        for incumbent in self.incumbents:
            found = score(incumbent.value)
            if found is not None and found <= wanted:
                return incumbent.at_s
        return None

    def __str__(self) -> str:
        best = self.best
        found = "nothing was reported"
        if best is not None:
            found = f"best {best.value:.6g}: {trial_name(best.trial)} at {best.resource:,}, after {best.at_s:,.6g} s"
        lines = [
            f"{len(self.trials):,} trials on {self.workers:,} workers in {self.wall_s:,.6g} s: {self.reason}",
            f"workers were busy for {self.busy_share:.0%} of that; {self.trained:,} units were trained",
            f"{self.promotions:,} promotions; {len(self.completed):,} trials were trained to the end",
            found,
        ]
        return "\n".join(lines)

    __repr__ = __str__


class SimulationObserver:
    """An observer that is called at every step of a simulation.

    Args:
        state: as the simulation leaves it after each step.
        until: ``halt`` is called when its target is met, or so many trials as it says are trained to the end.
        most_trials: ``halt`` is called once so many began, for nothing else may end it. None if something else does.
    """

    def __init__(self, state: StudyState, until: Until, most_trials: int | None) -> None:
        self.incumbents: list[SimulatedIncumbent] = []
        self.arrivals: list[Arrival] = []
        self.sizes: list[SizedTraining] = []
        self.promotions = 0
        self.reason = ""
        """Why the simulation was halted, in words. Empty if it was not."""
        self.halt: Callable[[], None] = lambda: None
        """Ends the simulation; its owner sets it."""
        self._state, self._target = state, state.score(until.target)
        self._until_completed, self._completed = until.completed, 0
        self._most_trials = most_trials
        self._best: float | None = None
        self._arrived: dict[TrialId, int] = {}
        """Where each trial arrived last."""

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
                if self._arrived.get(action.trial) != action.from_resource:  # it goes on where it is
                    self._record_arrival(now, action.trial)
            elif type(action) is CreateTrial and action.trial + 1 == self._most_trials:
                self._stop(f"{self._most_trials:,} trials began before it was met; num_trials= lets more begin")

    def _record_size(self, now: float, work: Work) -> None:
        if isinstance(work.sized, str) and work.followers:
            trial = work.lanes[0].stages[0].trials[0]
            self.sizes.append(SizedTraining(now, trial, 1 + len(work.followers), work.sized))

    def _record_arrival(self, now: float, trial: TrialId) -> None:
        resource = self._state.trials[trial].resource
        self.arrivals.append(Arrival(now, trial, resource))
        self._arrived[trial] = resource
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

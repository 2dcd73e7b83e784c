"""The scripted player of the engine: a test hands it events and gets the actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asyncsearch.actions import AnyAction, Assign, ExtendWork
from asyncsearch.engine.handling import handle
from asyncsearch.engine.invariants import check
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    DriverStarted,
    Outcome,
    Reported,
    RunRequested,
    TrainingEnded,
    WorkerAttached,
)
from asyncsearch.ids import CheckpointRef, Lease, WorkerId
from asyncsearch.trial import TrialState
from asyncsearch.work import Work


class Player:
    """Hands events to a state, returns its actions, and checks its invariants after each event."""

    def __init__(self, state: StudyState) -> None:
        self.state = state
        self.now = 0.0
        self.last: list[AnyAction] = []

    def tell(self, event: AnyEvent) -> list[AnyAction]:
        self.now += 1.0
        self.last = handle(self.state, event, self.now)
        check(self.state)
        return self.last

    def assigned(self, *events: AnyEvent) -> list[Work]:
        """Tell events, and return the work that is assigned upon them."""
        return [action.work for event in events for action in only(self.tell(event), Assign)]

    def begin(self, num_trials: int | None, workers: int) -> None:
        self.tell(DriverStarted("test"))
        self.tell(RunRequested(num_trials, workers))
        for number in range(workers):
            self.tell(WorkerAttached(WorkerId(number), 1))

    def states(self) -> list[TrialState]:
        return [trial.state for trial in self.state.trials]

    def report(self, lease: Lease, resource: int, loss: float | str = 1.0) -> list[AnyAction]:
        return self.tell(Reported(lease, resource, {"loss": loss}))

    def reach(self, lease: Lease, resource: int, loss: float | str = 1.0) -> list[AnyAction]:
        """Report, and end at the target and commit the checkpoint there, unless the trial goes on where it is."""
        trial = self.state.trials[self.state.attempts[lease.number].trial]
        decided = self.report(lease, resource, loss)
        if any(action.stages for action in only(decided, ExtendWork)):
            return decided
        is_saved = not only(decided, ExtendWork)
        end = Outcome.RETURNED if resource == self.state.max_resource else Outcome.REACHED
        first = self.tell(TrainingEnded(lease, end, resource, resource if is_saved else None))
        if not is_saved:
            return decided + first
        return decided + first + self.tell(CheckpointCommitted(lease, CheckpointRef(trial.node, resource)))


def lease_of(actions: list[AnyAction]) -> Lease:
    """Return the lease of the first work that is assigned or goes on."""
    given = (a for a in actions if isinstance(a, Assign) or (isinstance(a, ExtendWork) and a.stages))
    return next(action.work.lease if isinstance(action, Assign) else action.lease for action in given)


def only(actions: Sequence[AnyAction], kind: type[Any]) -> list[Any]:
    """Return the actions of one kind."""
    return [action for action in actions if isinstance(action, kind)]

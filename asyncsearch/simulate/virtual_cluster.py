"""A cluster that only exists as events and actions: it hands facts to the engine and carries out its actions. Pure.

``Simulation`` plays it on a virtual clock, where messages and units take their time; the suites of ``testing`` play it
in a random order of events, where anything is lost, late or sent twice.
"""

from __future__ import annotations

import abc
import heapq
from collections.abc import Callable, Sequence
from typing import assert_never

from asyncsearch.actions import (
    AddLane,
    AnyAction,
    Assign,
    Branch,
    CreateTrial,
    CutWork,
    DeleteCheckpoint,
    DismissWorker,
    EndProposals,
    EndRun,
    Inherit,
    LaunchWorker,
    MoveTrial,
    Promote,
    SaveAt,
    StopRun,
    StopTraining,
)
from asyncsearch.engine.handling import handle
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent

Happening = Callable[[], None]


class VirtualClock:
    """Runs happenings in order of time; equal times in the order in which they were asked for."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._heap: list[tuple[float, int, Happening]] = []
        self._count = 0
        self._is_halted = False

    def after(self, delay_s: float, happening: Happening) -> None:
        """Let something happen ``delay_s`` seconds from now."""
        self.at(self.now + delay_s, happening)

    def at(self, when: float, happening: Happening) -> None:
        """Let something happen at a point in time, or now if that is past."""
        self._count += 1
        heapq.heappush(self._heap, (max(when, self.now), self._count, happening))

    def halt(self) -> None:
        """Let no further time pass in the present ``run``."""
        self._is_halted = True

    def run(self, until: float = float("inf"), max_happenings: int = 100_000_000) -> None:
        """Let time pass until nothing is left to happen, the clock would pass ``until``, or it is halted."""
        self._is_halted = False
        heap = self._heap
        for _ in range(max_happenings):
            if not heap or self._is_halted:
                return
            if heap[0][0] > until:
                self.now = max(self.now, until)
                return
            self.now, _, happening = heapq.heappop(heap)
            happening()
        raise RuntimeError(f"the simulation did not end after {max_happenings} happenings, at {self.now} s")


class VirtualCluster(abc.ABC):
    """Workers of one study; a subclass says when they get their messages, and how they train."""

    def __init__(self, state: StudyState) -> None:
        self.state = state
        self.end: EndRun | None = None
        """How the last run ended. None while a run is in progress, and before the first."""

    @property
    @abc.abstractmethod
    def now(self) -> float:
        """The time of the event that is handled."""

    def tell(self, event: AnyEvent) -> None:
        """Let the engine handle an event, and carry out its actions."""
        actions = handle(self.state, event, self.now)
        self._watch(event, actions)
        for action in actions:
            self._carry_out(action)

    def _watch(self, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        """See each event with its actions before they are carried out."""

    def _carry_out(self, action: AnyAction) -> None:
        match action:
            case MoveTrial() | CreateTrial():  # the most frequent ones: no other kind is tried for them
                pass
            case Assign():
                self._assign(action)
            case LaunchWorker():
                self._launch(action)
            case AddLane():
                self._add_lane(action)
            case StopTraining():
                self._stop(action)
            case SaveAt() | CutWork():
                self._amend(action)
            case DismissWorker():
                self._dismiss(action)
            case DeleteCheckpoint():
                self._delete(action)
            case EndRun():
                self._end_run(action)
            case Inherit() | Promote() | Branch() | EndProposals() | StopRun():
                pass
            case _:
                assert_never(action)

    @abc.abstractmethod
    def _launch(self, action: LaunchWorker) -> None:
        """Start a worker."""

    @abc.abstractmethod
    def _assign(self, action: Assign) -> None:
        """Let a worker train the lanes of a lease."""

    @abc.abstractmethod
    def _add_lane(self, action: AddLane) -> None:
        """Let a lane join those that train."""

    @abc.abstractmethod
    def _stop(self, action: StopTraining) -> None:
        """Stop a lane."""

    @abc.abstractmethod
    def _amend(self, action: SaveAt | CutWork) -> None:
        """Let a lane save before its end, or end earlier."""

    def _dismiss(self, action: DismissWorker) -> None:
        """Let a worker go."""

    def _delete(self, action: DeleteCheckpoint) -> None:
        """Delete a checkpoint from the store, if there is one."""

    def _end_run(self, action: EndRun) -> None:
        """Note how the run ended."""
        self.end = action

"""A cluster that only exists as events and actions, its workers and their lanes: it hands facts to the engine. Pure.

``Simulation`` plays it on a virtual clock, where messages and units take their time; the suites of ``testing`` play it
in a random order of events, where anything is lost, late or sent twice.
"""

from __future__ import annotations

import abc
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import assert_never

import msgspec

from asyncsearch.actions import (
    AddLane,
    AnyAction,
    Assign,
    Branch,
    Compare,
    CreateTrial,
    CutWork,
    DeleteCheckpoint,
    DismissWorker,
    EndProposals,
    EndRun,
    ExtendWork,
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
from asyncsearch.events import AnyEvent, PackSeconds, Spent
from asyncsearch.ids import NodeKey
from asyncsearch.simulate.options import TrainingModel
from asyncsearch.simulate.workloads import CheckedWorkload, Failure
from asyncsearch.sizing.pack_probe import GroupSizes, most_worth, speedup_at
from asyncsearch.work import Stage, Work


class VirtualLane(msgspec.Struct):
    """One training of a lease."""

    number: int
    stages: tuple[Stage, ...]
    resource: int
    """Units of training done, as of the last time that it stopped for something."""
    stop: int | None = None
    """Where it was told to end."""
    saves: dict[int, NodeKey] = {}
    """Where it was told to save besides the ends of stages."""
    judged: int | None = None
    """The next resource at whose report it waits for what is decided, besides a pause. None if there is none."""
    is_joining: bool = False
    """Whether it waits until the others have done their unit."""
    is_saving: bool = False
    """Whether it saves, so that messages about its units come too late, or wait."""

    @property
    def stage(self) -> Stage:
        """The stage in which its next unit lies, or the last one."""
        stages = self.stages
        return next((stage for stage in stages if stage.stop is None or self.resource < stage.stop), stages[-1])

    @property
    def last_stage(self) -> Stage:
        """The stage in which its last unit lies, or the first one."""
        stages = reversed(self.stages)
        return next((stage for stage in stages if stage.start < self.resource), self.stages[0])

    def ends(self, stage: Stage, stop: int) -> bool:
        """Return whether it ends here, in a stage that ends at ``stop``."""
        is_last = stage is self.stages[-1]
        return self.resource >= (self.stop or stop) and (is_last or self.stop is not None)

    def saved_node(self, stage: Stage, stop: int) -> NodeKey | None:
        """Return the node of the checkpoint that it saves here and goes on. None if it saves none."""
        is_periodic = stage.save_every is not None and self.resource % stage.save_every == 0
        is_due = is_periodic or (self.resource == stop and stage.save)
        return stage.node if is_due else self.saves.get(self.resource)


class VirtualWorker(msgspec.Struct):
    """A worker that is attached, and how far its work is."""

    epoch: int
    work: Work | None = None
    lanes: dict[int, VirtualLane] = {}
    """The lanes that have not ended, those that wait to join included."""
    pack: VirtualPack | None = None
    """Its packed work. None if its one lane leaps from goal to goal, as below."""
    goal: int = 0
    """Where it stops to report or to do something."""
    turn: int = 0
    """Number of the goal: a goal that was moved is not reached."""
    began_s: float = 0.0
    """When it got its work."""
    since_s: float = 0.0
    """When its lane was at its ``resource``."""
    stage: Stage | None = None
    unit_s: float = 1.0
    """Seconds of a unit of the stage."""
    failure: Failure | None = None
    """Where the stage fails."""
    slowness: float = 1.0
    size: int = 1
    """How many workers train its work together, itself included."""
    setup_s: float = 0.0
    """Seconds of its work that were for entering the function."""
    load_s: float = 0.0
    """Seconds that were for loading a checkpoint."""
    saved_s: float = 0.0
    """Seconds in which its lanes have saved."""
    waited_s: float = 0.0
    """Seconds in which they have waited for verdicts."""

    def spent(self, now: float) -> Spent:
        """Return the times that it has told up to now: the time for nothing else was training."""
        left = round(1000 * (now - self.began_s))
        found = []
        for seconds in (self.setup_s, self.load_s, self.saved_s, self.waited_s):
            found.append(min(left, round(1000 * seconds)))
            left -= found[-1]
        entering, loading, saving, verdict = found
        return Spent(0, entering, loading, left, saving, verdict)


class VirtualPack:
    """How long the lanes of a pack, which it shares with their worker, take for a unit."""

    def __init__(
        self,
        lanes: dict[int, VirtualLane],
        work: Work,
        workload: CheckedWorkload,
        training: TrainingModel,
        group: Callable[[Stage], str],
    ) -> None:
        self.findings: tuple[PackSeconds, ...] = ()
        """Times that its first unit has measured, to be told at its end."""
        self.judged: list[VirtualLane] = []
        """The lanes that are to wait for their verdicts after this round."""
        self.saving_s = 0.0
        """Seconds for which its next round waits, as lanes save."""
        self.lasted_s = 0.0
        """Seconds of its last round."""
        self._trained = 0
        """How many lanes have trained in it."""
        self._lanes, self._workload, self._training, self._group = lanes, workload, training, group
        self._measured = work.measured if isinstance(work.measured, tuple) else ()
        self._sizes = GroupSizes()

    @property
    def training(self) -> list[VirtualLane]:
        """The lanes that train a unit now."""
        return [lane for lane in self._lanes.values() if not lane.is_joining]

    @property
    def has_lost_some(self) -> bool:
        """Whether some have left that trained in the last round."""
        return len(self.training) < self._trained

    @property
    def is_too_large(self) -> bool:
        """Whether its lanes have too little memory together."""
        most, lanes = self._training.pack_memory, len(self.training)
        return most is not None and 1 < most < self._sizes.of(lanes)

    def again_s(self, units: int) -> float:
        """Return the seconds in which each lane trains some units again, which measures nothing."""
        return units * self._group_s(list(self._lanes.values()))

    def round_s(self) -> float:
        """Return the seconds in which each lane trains its next unit, also those that waited to join."""
        for lane in self._lanes.values():
            lane.is_joining = False
        self._trained = len(self.training)
        self.lasted_s = self._round_s(self.training)
        return self.lasted_s

    def _round_s(self, lanes: list[VirtualLane]) -> float:
        measured, self._measured = self._measured, ()
        if not measured:
            return self._grown_s(lanes)
        found: dict[int, float] = {}
        begin = 0
        for wanted in measured:
            count = most_worth(found, wanted) if measured[0] == 1 else wanted
            if not count:
                break
            found[count] = self._group_s(lanes[begin : begin + count])
            begin += count
        for one in found.items():
            self._sizes.note(*one)
        self.findings = tuple(PackSeconds(*one) for one in found.items())
        return sum(found.values()) + self._groups_s(lanes[begin:])

    def _grown_s(self, lanes: list[VirtualLane]) -> float:
        """Return the seconds of a unit; those of as many lanes as were never timed together are to be told."""
        count = self._sizes.to_time(len(lanes))
        if not count:
            return self._groups_s(lanes)
        seconds = self._group_s(lanes[:count])
        self._sizes.note(count, seconds)
        self.findings = (PackSeconds(count, seconds),)
        return seconds + self._groups_s(lanes[count:])

    def _groups_s(self, lanes: Sequence[VirtualLane]) -> float:
        """Return the seconds in which lanes train a unit, in groups of as many as train together at most."""
        together = max(1, self._sizes.of(len(lanes)))
        return sum(self._group_s(lanes[at : at + together]) for at in range(0, len(lanes), together))

    def _group_s(self, lanes: Sequence[VirtualLane]) -> float:
        """Return the seconds in which some lanes train a unit together; those of one structure as one computation."""
        if not self._training.is_by_structure:
            return self._alike_s(lanes, self._training.curve)
        alike: dict[str, list[VirtualLane]] = {}
        for lane in lanes:
            alike.setdefault(self._group(lane.stage), []).append(lane)
        return sum(self._alike_s(group, self._training.curve_of(name)) for name, group in alike.items())

    def _alike_s(self, lanes: Iterable[VirtualLane], curve: Mapping[int, float]) -> float:
        units_s = [self._workload.seconds(lane.stage) for lane in lanes]
        return sum(units_s) / speedup_at(curve, len(units_s)) if units_s else 0.0


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
            case SaveAt() | CutWork() | ExtendWork():
                self._amend(action)
            case DismissWorker():
                self._dismiss(action)
            case DeleteCheckpoint():
                self._delete(action)
            case EndRun():
                self._end_run(action)
            case Inherit() | Compare() | Promote() | Branch() | EndProposals() | StopRun():
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
    def _amend(self, action: SaveAt | CutWork | ExtendWork) -> None:
        """Let a lane save before its end, or end earlier or later."""

    def _dismiss(self, action: DismissWorker) -> None:
        """Let a worker go."""

    def _delete(self, action: DeleteCheckpoint) -> None:
        """Delete a checkpoint from the store, if there is one."""

    def _end_run(self, action: EndRun) -> None:
        """Note how the run ended."""
        self.end = action

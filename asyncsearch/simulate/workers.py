"""Virtual workers and their lanes, and how long a pack trains a unit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from asyncsearch.events import PackSeconds
from asyncsearch.ids import NodeKey
from asyncsearch.simulate.options import TrainingModel
from asyncsearch.simulate.workloads import CheckedWorkload, Failure
from asyncsearch.sizing.pack_probe import fastest, is_worth_timing, speedup_at
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
    is_joining: bool = False
    """Whether it waits until the others have done their unit."""

    @property
    def stage(self) -> Stage:
        """The stage in which its next unit lies, or the last one."""
        stages = self.stages
        return next((stage for stage in stages if stage.stop is None or self.resource < stage.stop), stages[-1])

    def ends(self, stage: Stage, stop: int) -> bool:
        """Return whether it ends here, in a stage that ends at ``stop``."""
        is_last = stage is self.stages[-1]
        return self.resource >= (self.stop or stop) and (is_last or self.stop is not None)

    def saved_node(self, stage: Stage, stop: int) -> NodeKey | None:
        """Return the node of the checkpoint that it saves here and goes on. None if it saves none."""
        return stage.node if self.resource == stop and stage.save else self.saves.get(self.resource)


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
        self._lanes, self._workload, self._training, self._group = lanes, workload, training, group
        self._measured = work.measured if isinstance(work.measured, tuple) else ()
        self._together: int | None = None
        """How many lanes train together at most. None if all do."""

    @property
    def training(self) -> list[VirtualLane]:
        """The lanes that train a unit now."""
        return [lane for lane in self._lanes.values() if not lane.is_joining]

    @property
    def is_too_large(self) -> bool:
        """Whether its lanes have too little memory together."""
        most, lanes = self._training.pack_memory, len(self.training)
        return most is not None and 1 < most < min(lanes, self._together or lanes)

    def again_s(self, units: int) -> float:
        """Return the seconds in which each lane trains some units again, which measures nothing."""
        return units * self._group_s(list(self._lanes.values()))

    def round_s(self) -> float:
        """Return the seconds in which each lane trains its next unit, also those that waited to join."""
        for lane in self._lanes.values():
            lane.is_joining = False
        lanes, measured = list(self._lanes.values()), self._measured
        if not measured:
            return self._groups_s(lanes)
        found: dict[int, float] = {}
        self._measured, begin = (), 0
        for count in measured:
            if measured[0] == 1 and not is_worth_timing(found, count):
                break
            found[count] = self._group_s(lanes[begin : begin + count])
            begin += count
        self.findings = tuple(PackSeconds(*one) for one in found.items())
        self._together = fastest(found)
        return sum(found.values()) + self._groups_s(lanes[begin:])

    def _groups_s(self, lanes: Sequence[VirtualLane]) -> float:
        """Return the seconds in which lanes train a unit, in groups of as many as train together at most."""
        together = self._together or max(1, len(lanes))
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

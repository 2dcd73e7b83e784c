"""A pack on a virtual worker: all lanes train a unit, report, and save or end there; then the next unit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from asyncsearch.events import PackSeconds
from asyncsearch.ids import NodeKey
from asyncsearch.simulate.options import TrainingModel
from asyncsearch.simulate.workloads import CheckedWorkload, Failure
from asyncsearch.sizing.pack_curves import speedup_at
from asyncsearch.sizing.pack_probe import fastest, is_worth_timing
from asyncsearch.work import Lane, Stage, Work


class PackedLane(msgspec.Struct):
    """One training of a pack."""

    number: int
    lane: Lane
    resource: int
    stop: int | None = None
    """Where it was told to end."""
    saves: dict[int, NodeKey] = {}
    """Where it was told to save besides the ends of stages."""
    is_joining: bool = False
    """Whether it waits until the others have done their unit."""

    @property
    def stage(self) -> Stage:
        """The stage in which its next unit lies, or the last one."""
        stages = self.lane.stages
        return next((stage for stage in stages if stage.stop is None or self.resource < stage.stop), stages[-1])


class PackedTraining:
    """The lanes of one lease that have not ended."""

    def __init__(
        self, work: Work, workload: CheckedWorkload, training: TrainingModel, group: Callable[[Stage], str]
    ) -> None:
        self.lanes: dict[int, PackedLane] = {}
        """Those that join included."""
        for number, lane in enumerate(work.lanes):
            self.add(number, lane, is_joining=False)
        self.findings: tuple[PackSeconds, ...] = ()
        """What its first unit has measured, which is told at its end."""
        self._workload, self._training, self._group = workload, training, group
        self._measured = work.measured if isinstance(work.measured, tuple) else ()
        self._together: int | None = None
        """How many lanes train together at most; None: all."""

    def add(self, number: int, lane: Lane, *, is_joining: bool = True) -> PackedLane:
        """Add a lane, and return it; one that joins waits for ``round_s``."""
        added = self.lanes[number] = PackedLane(number, lane, lane.stages[0].start, is_joining=is_joining)
        return added

    @property
    def training(self) -> list[PackedLane]:
        """The lanes that train a unit now."""
        return [lane for lane in self.lanes.values() if not lane.is_joining]

    @property
    def is_too_large(self) -> bool:
        """Whether its lanes have too little memory together."""
        most, lanes = self._training.pack_memory, len(self.training)
        return most is not None and 1 < most < min(lanes, self._together or lanes)

    def again_s(self, units: int) -> float:
        """Return the seconds in which each lane trains some units again, which measures nothing."""
        return units * self._group_s(list(self.lanes.values()))

    def round_s(self) -> float:
        """Return the seconds in which each lane trains its next unit, also those that waited to join."""
        for lane in self.lanes.values():
            lane.is_joining = False
        lanes, measured = list(self.lanes.values()), self._measured
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

    def _groups_s(self, lanes: Sequence[PackedLane]) -> float:
        """Return the seconds in which lanes train a unit, in groups of as many as train together at most."""
        together = self._together or max(1, len(lanes))
        return sum(self._group_s(lanes[at : at + together]) for at in range(0, len(lanes), together))

    def _group_s(self, lanes: Sequence[PackedLane]) -> float:
        """Return the seconds in which some lanes train a unit together; those of one structure as one computation."""
        if not lanes:
            return 0.0
        if not self._training.is_by_structure:
            units_s = [self._workload.seconds(lane.stage) for lane in lanes]
            return sum(units_s) / speedup_at(self._training.curve, len(units_s))
        alike: dict[str, list[float]] = {}
        for lane in lanes:
            alike.setdefault(self._group(lane.stage), []).append(self._workload.seconds(lane.stage))
        return sum(
            sum(units_s) / speedup_at(self._training.curve_of(name), len(units_s)) for name, units_s in alike.items()
        )

    def longest_s(self, lanes: Iterable[PackedLane]) -> float:
        """Return how long lanes take if nothing happens, at most."""
        return sum((self._stop_of(s) - s.start) * self._workload.seconds(s) for lane in lanes for s in lane.lane.stages)

    def failure(self, lane: PackedLane) -> Failure | None:
        """Return where the workload lets a lane fail; None: it does not."""
        return self._workload.failure(lane.stage.trials[0])

    def ends(self, lane: PackedLane, stage: Stage) -> bool:
        """Return whether a lane that has trained a unit of a stage ends with it."""
        stop, is_last = self._stop_of(stage), stage is lane.lane.stages[-1]
        return lane.resource >= (lane.stop or stop) and (is_last or lane.stop is not None)

    def saved_node(self, lane: PackedLane, stage: Stage) -> NodeKey | None:
        """Return the node of the checkpoint that a lane saves at the end of a unit of a stage; None: it saves none."""
        if lane.resource == self._stop_of(stage) and stage.save:
            return stage.node
        return lane.saves.get(lane.resource)

    def _stop_of(self, stage: Stage) -> int:
        return max(self._workload.units(stage.trials[0]), stage.start + 1) if stage.stop is None else stage.stop

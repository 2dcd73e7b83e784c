"""The time of a unit of each trial alone, by the times in a journal. Pure.

The lanes of a pack report one after another when all have trained a unit, so the time between two such rounds is that
of all lanes. What one of them takes alone follows from how much a pack gains, which is given, or was measured: by the
first units of packs (``pack="auto"``), or by rounds of packs of several sizes, one training alone among them.

Where trials had different numbers of workers, their times are those on the fewest that any had.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UnsetType

from asyncsearch.actions import Assign
from asyncsearch.events import PackMeasured, PackSeconds, PacksTimed, Reported, Spent, TrainingEnded
from asyncsearch.ids import TrialId
from asyncsearch.journal.format import Record
from asyncsearch.journal.projection import LeaseProgress, Projection
from asyncsearch.simulate.options import TrainingModel
from asyncsearch.sizing.pack_probe import GroupSizes, curve_of, group_size, joiner_wait_s, speedup_at, units_alone
from asyncsearch.sizing.packing import Grouping, KnownPacks, group_of

Speedups = Mapping[int, float] | Mapping[str, Mapping[int, float]]
"""As ``TrainingModel.pack_speedup``."""
_TOGETHER = 0.1
"""Part of a round within which all of its lanes report."""
_LEAST_S = 1e-6
"""Of a unit: workers tell whole milliseconds, and short units have none."""


class _Lane(msgspec.Struct, frozen=True):
    trial: TrialId
    units: int
    """That its report is about."""
    structure: str
    is_first: bool
    """Whether it is the first report of the lane."""


class _Round(msgspec.Struct):
    """The reports of the lanes of a lease after units that they trained together."""

    began_s: float
    ended_s: float = 0.0
    has_setup: bool = False
    """Whether what is set up before its units is part of its time."""
    measured_ms: float | None = None
    """Milliseconds of training and evaluation in it, as its worker has measured. None if it has not."""
    lanes: dict[int, _Lane] = {}
    timed: tuple[int, ...] = ()
    """How many lanes were timed together in it, group after group; empty if none were."""
    known: Mapping[int, float] = {}
    """Lanes together -> seconds of a unit, as timed in this lease by then; empty means all train together."""

    @property
    def units(self) -> int:
        return max(lane.units for lane in self.lanes.values())

    @property
    def seconds(self) -> float:
        """Its time; as measured, without saves and waits."""
        return self.ended_s - self.began_s if self.measured_ms is None else self.measured_ms / 1000

    @property
    def is_pure(self) -> bool:
        """Whether nothing but units is part of its time: lanes that join load first."""
        return self.measured_ms is not None or not any(lane.is_first for lane in self.lanes.values())

    def structures(self) -> dict[str, int]:
        """Return how many lanes have each structure."""
        found: dict[str, int] = {}
        for lane in self.lanes.values():
            found[lane.structure] = found.get(lane.structure, 0) + 1
        return found


class _Lease(msgspec.Struct):
    """The training of a worker under one lease."""

    began_s: float
    size: int = 1
    """How many workers trained it together."""
    sizes: GroupSizes = msgspec.field(default_factory=GroupSizes)
    """What was timed in it."""
    timed: tuple[int, ...] = ()
    """Groups that were timed in the round whose reports come next."""
    rounds: list[_Round] = []
    known: int = 0
    """How many rounds, from the first on, are part of the time that was measured before."""
    known_ms: int = 0
    """That time."""

    def measure(self, seconds: Sequence[PackSeconds]) -> None:
        """Take in the times of groups; the reports of their round follow."""
        self.timed = tuple(one.lanes for one in seconds)
        for one in seconds:
            self.sizes.note(one.lanes, one.seconds)

    def report(self, lane: int, seen: _Lane, assigned_s: float, now: float, spent: Spent | UnsetType) -> None:
        """Add a report to the round to which it belongs, which may be a new one."""
        if not self.rounds:
            self._begin(_Round(self.began_s, has_setup=True))
        elif lane in self.rounds[-1].lanes or self.timed or self._joined_since(seen, assigned_s, now):
            ended_s = self.rounds[-1].ended_s
            has_setup = seen.is_first and assigned_s >= ended_s  # all others had ended
            if self.rounds[-1].measured_ms is not None:
                self.known_ms += round(sum(one.measured_ms or 0.0 for one in self.rounds[self.known :]))
                self.known = len(self.rounds)
            self._begin(_Round(max(ended_s, assigned_s) if has_setup else ended_s, has_setup=has_setup))
        self.rounds[-1].lanes[lane] = seen
        self.rounds[-1].ended_s = now
        self.tell(spent)

    def _begin(self, begun: _Round) -> None:
        begun.timed, begun.known = self.timed, dict(self.sizes.seconds)
        self.timed = ()
        self.rounds.append(begun)

    def tell(self, spent: Spent | UnsetType) -> None:
        """Give each round since those that were told its part: reports that come fast do not all tell their time."""
        if isinstance(spent, UnsetType) or (passed_ms := spent.training + spent.evaluating - self.known_ms) < 0:
            return
        rounds = self.rounds[self.known :]
        units = sum(one.units for one in rounds)
        for one in rounds:
            one.measured_ms = passed_ms * one.units / units

    def end(self, spent: Spent | UnsetType) -> None:
        """Take in what the end of a lane tells, if its last report told nothing."""
        if self.rounds and self.rounds[-1].measured_ms is None:
            self.tell(spent)

    def _joined_since(self, seen: _Lane, assigned_s: float, now: float) -> bool:
        """Return whether a lane that has not reported yet came too late for the last round."""
        if not seen.is_first:
            return False
        last, earlier = self.rounds[-1], self.rounds[-2] if len(self.rounds) > 1 else None
        began_s = self.began_s if earlier is None else earlier.ended_s
        if assigned_s < began_s or (assigned_s == began_s and earlier is None):
            return False
        # A round takes in who comes while its first lanes are set up, or in place of lanes that have just left.
        wait_s = last.ended_s - began_s if earlier is None else 2 * joiner_wait_s(earlier.ended_s - earlier.began_s)
        is_in_time = assigned_s - began_s <= wait_s
        return not is_in_time or now - last.ended_s > _TOGETHER * (last.ended_s - began_s)


class RecordedUnits(msgspec.Struct, frozen=True):
    """Times of training in a journal."""

    unit_s: dict[TrialId, float]
    """Seconds of a unit of each trial that reported, if it trains alone."""
    setup_s: float
    """Seconds from an assignment to the beginning of its first unit."""
    pack_speedup: dict[str, dict[int, float]]
    """How much packs gain, by structure, as measured; empty if nothing was."""
    most_lanes: int
    """How many trained together at most."""
    gang_speedup: dict[int, float]
    """Workers of a trial -> how many times as fast as the fewest they trained it; empty if all had as many."""


def recorded_units(
    records: Sequence[Record], given: Speedups | None = None, group: Grouping = group_of
) -> RecordedUnits:
    """Return the times of units; ``given``: how much packs gain, None means as measured, else nothing."""
    leases, measured = _leases(records, group)
    known, gangs = measured or _observed(leases), _gang_curve(leases)
    training = TrainingModel(pack_speedup=known if given is None else given)
    between: dict[TrialId, list[float]] = defaultdict(lambda: [0.0, 0.0])
    others: list[_Others] = []
    for lease in leases:
        for one in lease.rounds:
            factor = one.units * _units_alone(training, one)
            factor /= speedup_at(gangs, lease.size) if gangs else 1.0  # one worker would train fewer in that time
            trials = [lane.trial for lane in one.lanes.values()]
            if not one.is_pure:
                others.append(_Others(trials, one.seconds, factor, one.has_setup))
                continue
            for lane in one.lanes.values():
                between[lane.trial][0] += one.seconds / factor * lane.units
                between[lane.trial][1] += lane.units
    unit_s = {trial: seconds / units for trial, (seconds, units) in between.items()}
    for other in others:
        if not other.has_setup:
            unit_s |= {trial: other.seconds / other.units_alone for trial in other.trials if trial not in unit_s}
    setup_s = _setup_s(others, unit_s)
    for other in others:
        # With one report of each lease nothing tells starting from training, but that of trials with more.
        for trial in other.trials:
            unit_s.setdefault(trial, max(0.0, other.seconds - setup_s) / other.units_alone)
    most = max((len(one.lanes) for lease in leases for one in lease.rounds), default=1)
    unit_s = {trial: max(seconds, _LEAST_S) for trial, seconds in unit_s.items()}
    return RecordedUnits(unit_s, setup_s, known, most, gangs)


class _Others(NamedTuple):
    """Units in whose time lanes also began, and perhaps were set up."""

    trials: list[TrialId]
    seconds: float
    units_alone: float
    """How many units one training trains alone in the time of these."""
    has_setup: bool


def _setup_s(others: Sequence[_Others], unit_s: Mapping[TrialId, float]) -> float:
    """Return the median of what first units took longer than units of the same trials do."""
    longer = []
    for other in others:
        known = [unit_s[trial] for trial in other.trials if trial in unit_s]
        if other.has_setup and known:
            longer.append(max(0.0, other.seconds - other.units_alone * statistics.fmean(known)))
    return statistics.median(longer) if longer else 0.0


def _units_alone(training: TrainingModel, one: _Round) -> float:
    """Return how many units one training trains alone in the time in which these lanes train one each."""
    lanes, structures, groups = len(one.lanes), one.structures(), list(one.timed)
    if one.known:
        left = max(0, lanes - sum(groups))
        together = max(1, group_size(one.known, left))
        whole, rest = divmod(left, together)
        groups += [together] * whole + [rest]
    elif training.is_by_structure:
        return sum(units_alone(training.curve_of(name), count) for name, count in structures.items())
    else:
        groups = [lanes]
    curve = training.curve_of(next(iter(structures))) if training.is_by_structure else training.curve
    return sum(units_alone(curve, group) for group in groups if group)


def _leases(records: Iterable[Record], group: Grouping) -> tuple[list[_Lease], dict[str, dict[int, float]]]:
    """Return the trainings of workers, and the curves that first units of packs have shown, by structure."""
    projection = Projection()
    leases: dict[int, _Lease] = {}
    packs: dict[str, KnownPacks] = defaultdict(KnownPacks)
    for record in records:
        event = record.event
        if isinstance(event, Reported):
            progress = projection.leases.get(event.lease.number + event.lane)
            if progress is not None:
                _note_report(event, record.t, progress, leases, group(progress.stages[0].params))
        elif isinstance(event, TrainingEnded) and event.lease.number in leases:
            leases[event.lease.number].end(event.spent)
        elif isinstance(event, PacksTimed):
            packs[event.group].note(event.seconds)
        elif isinstance(event, PackMeasured) and event.seconds:
            progress = projection.leases.get(event.lease.number)
            if progress is not None:
                packs[group(progress.stages[0].params)].note(event.seconds)
            if event.lease.number in leases:
                leases[event.lease.number].measure(event.seconds)
        projection.add(record)
        for action in record.actions:
            if isinstance(action, Assign):
                leases[action.work.lease.number] = _Lease(record.t, 1 + len(action.work.followers))
    curves = {structure: curve_of(known.seconds) for structure, known in packs.items()}
    return list(leases.values()), {structure: curve for structure, curve in curves.items() if curve}


def _gang_curve(leases: Sequence[_Lease]) -> dict[int, float]:
    """Return how many times as fast as the fewest workers more of them trained: by the median of the trials.

    A trial is compared with itself: which trials get more workers depends on what they are, and so does a unit's cost.
    """
    taken: dict[TrialId, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for lease in leases:
        for one in lease.rounds:
            if one.is_pure and len(one.lanes) == 1 and one.seconds > 0:
                trial = next(iter(one.lanes.values())).trial
                taken[trial][lease.size].append(one.seconds / one.units)
    base = min((size for sizes in taken.values() for size in sizes), default=1)
    own = [{size: statistics.median(seconds) for size, seconds in sizes.items()} for sizes in taken.values()]
    curve = {base: 1.0}
    for size in sorted({size for sizes in own for size in sizes} - {base}):
        found = [_speedup(sizes, size, curve) for sizes in own if size in sizes]
        if known := [speedup for speedup in found if speedup is not None]:
            curve[size] = statistics.median(known)
    return curve if len(curve) > 1 else {}


def _speedup(sizes: Mapping[int, float], size: int, curve: Mapping[int, float]) -> float | None:
    """Return how many times as fast a trial trained as on the fewest; None if it trained on no others that show it."""
    fewer = min((other for other in sizes if other in curve), default=None)
    return None if fewer is None else curve[fewer] * sizes[fewer] / sizes[size]


def _note_report(
    event: Reported, now: float, progress: LeaseProgress, leases: Mapping[int, _Lease], structure: str
) -> None:
    lease = leases.get(event.lease.number)
    if lease is None or event.resource <= progress.reported:
        return
    units, is_first = event.resource - progress.reported, progress.reported_s is None
    seen = _Lane(progress.stages[0].trials[0], units, structure, is_first)
    lease.report(event.lane, seen, progress.assigned_s, now, event.spent)


def _observed(leases: Iterable[_Lease]) -> dict[str, dict[int, float]]:
    """Return the curves, by structure, that rounds of packs of several sizes show, if any trained alone."""
    taken: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for lease in leases:
        for one in lease.rounds:
            structures = one.structures()
            if len(structures) == 1 and not one.known and not (one.has_setup and not one.is_pure):
                seconds = one.seconds / one.units
                taken[next(iter(structures))][len(one.lanes)].append(seconds)
    curves = {
        structure: curve_of({lanes: statistics.median(seconds) for lanes, seconds in sizes.items()})
        for structure, sizes in taken.items()
    }
    return {structure: curve for structure, curve in curves.items() if curve}

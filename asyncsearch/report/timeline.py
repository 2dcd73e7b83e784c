"""The trainings of each worker, with their times by the driver's clock. Pure.

A lane of a lease is a span. It ends with its training, with the loss of its worker, or with its driver.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from asyncsearch.actions import (
    Assign,
    Branch,
    DismissWorker,
    EndRun,
    ExtendWork,
    GivenLane,
    MoveTrial,
    Promote,
    lanes_given,
)
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    DriverStarted,
    Outcome,
    Reported,
    TrainingEnded,
    WorkerAttached,
    WorkerLost,
    WorkRefused,
)
from asyncsearch.ids import Lease, TrialId, WorkerId, worker_name
from asyncsearch.journal.format import Record
from asyncsearch.trial import TrialState


class SpanEnd(enum.Enum):
    """How a span ended, in words."""

    TRAINED = "trained"
    STOPPED = "stopped early"
    INTERRUPTED = "interrupted"
    """Told to stop though its trial goes on, later or elsewhere: its run ended, or it is to have other workers."""
    FAILED = "failed"
    LOST = "worker or driver lost"
    RUNNING = "running"


_ENDS = {
    Outcome.REACHED: SpanEnd.TRAINED,
    Outcome.RETURNED: SpanEnd.TRAINED,
    Outcome.STOPPED: SpanEnd.INTERRUPTED,
    Outcome.FAILED: SpanEnd.FAILED,
}
"""The name of an outcome; a training that was told to stop is ``STOPPED`` only if that was for its trials' good."""


class WorkerSpan(msgspec.Struct):
    """One training of one worker. Times are seconds since 1970, in a simulation virtual seconds."""

    lease: Lease
    workers: tuple[WorkerId, ...]
    """Those that trained it together; one, but for a gang."""
    trials: tuple[TrialId, ...]
    """Those that read it, or the first of many; its log is that of the first one."""
    start_s: float
    end_s: float
    """As long as it has not ended, the time of the last record."""
    start: int
    """Resource at which it began."""
    resource: int
    """Resource that it is known to have reached."""
    end: SpanEnd = SpanEnd.RUNNING
    reason: str = ""
    """Why it ended, or what became of its first trial, in words; empty if unknown."""
    position: int = 0
    """Its place among the lanes of its lease that trained at the same time, from 0."""
    positions: int = 1
    """How many such places its lease has."""
    in_place: tuple[int, ...] = ()
    """Resources at which its trial was promoted and went on in place."""


class Presence(msgspec.Struct):
    """The time in which a worker could get work."""

    worker: WorkerId
    epoch: int
    start_s: float
    end_s: float
    loss: str = ""
    """Why it was lost, in words; empty if it was not."""


class Pause(msgspec.Struct, frozen=True):
    """The time between two drivers, in which nothing could happen."""

    start_s: float
    end_s: float


class WorkerTimeline(msgspec.Struct):
    """All that happened, in the order in which it began."""

    spans: list[WorkerSpan]
    presences: list[Presence]
    pauses: list[Pause]
    start_s: float = 0.0
    end_s: float = 0.0

    @property
    def workers(self) -> list[WorkerId]:
        """The workers that attached, or trained, in order."""
        return sorted({one.worker for one in self.presences} | {one for span in self.spans for one in span.workers})

    @property
    def most_at_once(self) -> int:
        """The most workers that could get work at the same time."""
        steps = sorted(step for one in self.presences for step in ((one.start_s, 1), (one.end_s, -1)))
        return max(itertools.accumulate(change for _, change in steps), default=0)

    def elapsed(self, t: float) -> float:
        """Return the seconds from the first record to a time, without pauses."""
        return t - self.start_s - sum(min(t, one.end_s) - one.start_s for one in self.pauses if one.start_s < t)

    @property
    def busy_share(self) -> float:
        """The share of the workers' time in which they had work, from 0 to 1."""
        present_s = sum(one.end_s - one.start_s for one in self.presences)
        return min(1.0, self._busy_s() / present_s) if present_s else 0.0

    def _busy_s(self) -> float:
        """Return the seconds in which workers had work, those of the lanes of one lease counted once."""
        leases: dict[Lease, tuple[float, float, int]] = {}
        for span in self.spans:
            start_s, end_s, _ = leases.get(span.lease, (span.start_s, span.end_s, 0))
            leases[span.lease] = min(start_s, span.start_s), max(end_s, span.end_s), len(span.workers)
        return sum(workers * (end_s - start_s) for start_s, end_s, workers in leases.values())


def joint_timeline(found: Mapping[str, WorkerTimeline]) -> tuple[WorkerTimeline, dict[WorkerId, str]]:
    """Return the timelines of several studies as one, without their pauses, and the names of its workers.

    Each worker of a study becomes another one: "coarse: worker-0". All times are those of one clock.
    """
    spans: list[WorkerSpan] = []
    presences: list[Presence] = []
    names: dict[WorkerId, str] = {}
    for study, one in found.items():
        moved = {worker: WorkerId(len(names) + place) for place, worker in enumerate(one.workers)}
        names |= {moved[worker]: f"{study}: {worker_name(worker)}" for worker in moved}
        presences += [msgspec.structs.replace(each, worker=moved[each.worker]) for each in one.presences]
        for span in one.spans:
            workers = tuple([moved[worker] for worker in span.workers])
            lease = msgspec.structs.replace(span.lease, worker=workers[0])
            spans.append(msgspec.structs.replace(span, workers=workers, lease=lease))
    start_s, end_s = min(one.start_s for one in found.values()), max(one.end_s for one in found.values())
    return WorkerTimeline(spans, presences, [], start_s, end_s), names


def worker_timeline(records: Iterable[Record], *, is_over: bool = False) -> WorkerTimeline:
    """Return the trainings of the workers of a study; ``is_over``: whether no driver has the study open."""
    reader = _Reader()
    for record in records:
        reader.add(record)
    return reader.result(is_over)


class _Reader:
    """Follows a journal."""

    def __init__(self) -> None:
        self._found = WorkerTimeline([], [], [])
        self._training: dict[int, WorkerSpan] = {}
        """By the number of their attempt."""
        self._present: dict[tuple[WorkerId, int], Presence] = {}
        self._last_s: float | None = None
        self._states: dict[TrialId, TrialState] = {}
        """The state to which each trial was last moved; of those that were moved."""

    def add(self, record: Record) -> None:
        event, t = record.event, record.t
        if self._last_s is None:
            self._found.start_s = self._last_s = t
        if isinstance(event, DriverStarted):
            self._pass_to(t, self._last_s)
        moved = {action.trial: action.reason for action in record.actions if isinstance(action, MoveTrial)}
        for action in record.actions:
            if isinstance(action, MoveTrial):
                self._states[action.trial] = action.to
            elif isinstance(action, Promote | Branch):
                self._states[action.trial] = TrialState.WAITING
            elif isinstance(action, ExtendWork) and action.stages:
                self._extend(action.lease.number + action.lane, action.stages[0].start)
        self._follow(event, t, moved)
        for action in record.actions:
            followers = action.work.followers if isinstance(action, Assign) else ()
            for given in lanes_given(action):
                self._begin(given, t, [member.worker for member in followers])
            if isinstance(action, DismissWorker):
                self._leave(action.worker, action.epoch, t)
            elif isinstance(action, EndRun):
                self._leave_all(t)
        self._last_s = t

    def result(self, is_over: bool) -> WorkerTimeline:
        end_s = self._found.end_s = self._last_s or 0.0
        if is_over:
            self._leave_behind(end_s)
        for span in self._training.values():
            span.end_s = end_s
        for presence in self._present.values():
            presence.end_s = end_s
        _place(self._found.spans)
        return self._found

    def _follow(self, event: AnyEvent, t: float, moved: dict[TrialId, str]) -> None:
        match event:
            case WorkerAttached(worker=worker, epoch=epoch) if (worker, epoch) not in self._present:
                self._present[worker, epoch] = Presence(worker, epoch, t, t)
                self._found.presences.append(self._present[worker, epoch])
            case Reported():
                self._reach(event.lease.number + event.lane, event.resource)
            case CheckpointCommitted():
                self._reach(event.lease.number + event.lane, event.checkpoint.resource)
            case TrainingEnded():
                self._reach(event.lease.number + event.lane, event.resource)
                number = event.lease.number + event.lane
                self._end(number, t, self._end_of(number, event.outcome), moved, event.error)
            case WorkRefused():
                self._refuse(event)
            case WorkerLost(worker=worker, epoch=epoch, reason=reason):
                for number in [n for n, one in self._training.items() if _is_of(one, worker, epoch)]:
                    self._end(number, t, SpanEnd.LOST, {}, reason)
                self._leave(worker, epoch, t, reason)
            case _:
                pass

    def _begin(self, given: GivenLane, t: float, others: Sequence[WorkerId]) -> None:
        first, lease = given.lane.stages[0], given.lease
        span = WorkerSpan(lease, (lease.worker, *others), first.trials, t, t, first.start, first.start)
        self._training[given.attempt] = span
        self._found.spans.append(span)

    def _reach(self, number: int, resource: int) -> None:
        if (span := self._training.get(number)) is not None:
            span.resource = max(span.resource, resource)

    def _extend(self, number: int, resource: int) -> None:
        if (span := self._training.get(number)) is not None:
            span.in_place += (resource,)

    def _end(self, number: int, t: float, end: SpanEnd, moved: dict[TrialId, str], error: str) -> None:
        if (span := self._training.pop(number, None)) is not None:
            words = error.strip().splitlines()[-1:] or [""]
            span.end_s, span.end, span.reason = t, end, moved.get(span.trials[0], words[0])

    def _end_of(self, number: int, outcome: Outcome) -> SpanEnd:
        trials = self._training[number].trials if number in self._training else ()
        is_early = outcome is Outcome.STOPPED and {self._states.get(trial) for trial in trials} == {TrialState.STOPPED}
        return SpanEnd.STOPPED if is_early else _ENDS[outcome]

    def _refuse(self, refused: WorkRefused) -> None:
        """Forget work that its worker has not got."""
        for number in [n for n, one in self._training.items() if one.lease == refused.lease]:
            if refused.lane in (None, number - refused.lease.number):
                self._found.spans.remove(self._training.pop(number))

    def _leave(self, worker: WorkerId, epoch: int, t: float, loss: str = "") -> None:
        if (presence := self._present.pop((worker, epoch), None)) is not None:
            presence.end_s, presence.loss = t, loss

    def _leave_all(self, t: float) -> None:
        for worker, epoch in list(self._present):
            self._leave(worker, epoch, t)

    def _leave_behind(self, last_s: float) -> None:
        """End what a driver has left that ended without a word."""
        for number in list(self._training):
            self._end(number, last_s, SpanEnd.LOST, {}, "its driver ended")
        self._leave_all(last_s)

    def _pass_to(self, t: float, last_s: float) -> None:
        self._leave_behind(last_s)
        if t > last_s:
            self._found.pauses.append(Pause(last_s, t))


def _is_of(span: WorkerSpan, worker: WorkerId, epoch: int) -> bool:
    return worker in span.workers and (worker != span.lease.worker or epoch == span.lease.epoch)


def _place(spans: list[WorkerSpan]) -> None:
    """Give each span the first free place among those of its lease."""
    free_at: dict[Lease, list[float]] = {}
    for span in spans:
        ends = free_at.setdefault(span.lease, [])
        span.position = next((place for place, end_s in enumerate(ends) if end_s <= span.start_s), len(ends))
        ends[span.position :] = [span.end_s, *ends[span.position + 1 :]]
    for span in spans:
        span.positions = len(free_at[span.lease])

"""Follows the journal of a study: launches, work and waits of its workers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import UNSET

from asyncsearch.actions import (
    AddLane,
    AnyAction,
    Assign,
    DismissWorker,
    EndRun,
    ExtendWork,
    LaunchWorker,
    MoveTrial,
    Promote,
    StopTraining,
    extended,
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
from asyncsearch.ids import Lease, TrialId, WorkerId
from asyncsearch.time_spent.account import STARTING, WAITING, Amounts, TimeSpent, account, add, nothing
from asyncsearch.time_spent.lanes import LaneTime, WorkTime
from asyncsearch.trial import TrialState


class _Presence:
    """A worker since its launch."""

    def __init__(self, epoch: int, now_ms: int) -> None:
        self.epoch, self.since_ms = epoch, now_ms
        self.kind = STARTING
        """What it does while it has no work."""
        self.work: WorkTime | None = None


class TimeReader:
    """Adds up the workers' time, record by record."""

    def __init__(self, *, by_trial: bool = True) -> None:
        """Begin; ``by_trial``: whether to keep an account of each trial, which takes memory for each."""
        self._is_by_trial = by_trial
        self._workers: dict[WorkerId, Amounts] = {}
        self._trials: dict[TrialId, Amounts] = {}
        self._present: dict[WorkerId, _Presence] = {}
        self._works: dict[int, WorkTime] = {}
        """By the number of their lease."""
        self._now_ms = 0
        self._reports = self._promotions = self._in_place = 0

    def add(self, t: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        """Take in a record: a fact, and what was decided by it."""
        if isinstance(event, DriverStarted):
            self._leave_all()  # when the former driver was heard of last
        self._now_ms = max(self._now_ms, round(1000 * t))
        for action in actions:
            if isinstance(action, MoveTrial) and action.to is TrialState.WAITING:
                self._repeat(action.trial)
        self._learn(event)
        for action in actions:
            self._follow(action)

    def result(self, *, is_over: bool = False) -> TimeSpent:
        """Return the time up to the last record, and end; ``is_over``: no driver has the study open."""
        for worker in list(self._present):
            self._leave(worker, is_lost=is_over)
        total = nothing()
        for amounts in self._workers.values():
            add(total, amounts)
        workers = {worker: account(amounts) for worker, amounts in sorted(self._workers.items())}
        trials = {trial: account(amounts) for trial, amounts in sorted(self._trials.items())}
        return TimeSpent(account(total), workers, trials, self._reports, self._promotions, self._in_place)

    # Facts

    def _learn(self, event: AnyEvent) -> None:
        match event:
            case WorkerAttached():
                self._attach(event)
            case Reported() if (work := self._work(event.lease, event.lane)) is not None:
                self._reports += 1
                work.tell(event.lane, event.spent, self._now_ms, event.resource)
            case CheckpointCommitted() if (work := self._work(event.lease, event.lane)) is not None:
                work.save(event.lane, event.checkpoint.resource, self._now_ms)
            case TrainingEnded() if (work := self._work(event.lease, event.lane)) is not None:
                self._end(work, event)
            case WorkRefused() if (refused := self._works.get(event.lease.number)) is not None:
                refused.refuse(event.lane)
                self._close_if_over(refused)
            case WorkerLost(worker=worker, epoch=epoch):
                if (presence := self._present.get(worker)) is not None and presence.epoch == epoch:
                    self._leave(worker, is_lost=True)
            case _:
                pass

    def _attach(self, event: WorkerAttached) -> None:
        presence = self._present.get(event.worker)
        if presence is not None and presence.epoch == event.epoch and presence.kind == STARTING:
            self._pass(event.worker, presence)
            presence.kind = WAITING

    def _end(self, work: WorkTime, event: TrainingEnded) -> None:
        lane = work.lanes[event.lane]
        work.tell(event.lane, event.spent, self._now_ms)
        is_in_order = event.outcome in (Outcome.REACHED, Outcome.RETURNED) and not lane.is_stopped
        is_cut_off = event.outcome is Outcome.FAILED and event.spent is UNSET
        work.end(event.lane, is_in_order=is_in_order, is_cut_off=is_cut_off)
        self._close_if_over(work)

    def _close_if_over(self, work: WorkTime) -> None:
        if not work.lanes:
            self._close(work)

    # Decisions

    def _follow(self, action: AnyAction) -> None:
        match action:
            case LaunchWorker():
                self._leave(action.worker, is_lost=True)
                self._present[action.worker] = _Presence(action.epoch, self._now_ms)
            case Assign():
                self._begin(action)
            case AddLane() if (work := self._works.get(action.lease.number)) is not None:
                work.lanes[action.lane] = LaneTime(action.added.stages)
            case ExtendWork() if (lane := self._lane(action.lease, action.lane)) is not None:
                lane.stages = extended(lane.stages, action)
                self._in_place += bool(action.stages)
            case Promote():
                self._promotions += 1
            case StopTraining() if (lane := self._lane(action.lease, action.lane)) is not None:
                lane.is_stopped = True
            case DismissWorker():
                self._leave(action.worker, is_lost=True)
            case EndRun():
                self._leave_all()
            case _:
                pass

    def _begin(self, action: Assign) -> None:
        lease, followers = action.work.lease, action.work.followers
        workers = [lease.worker, *(member.worker for member in followers)]
        work = WorkTime(lease, tuple(workers), self._now_ms)
        work.lanes = {number: LaneTime(given.lane.stages) for number, given in enumerate(lanes_given(action))}
        for worker in workers:
            presence = self._present.setdefault(worker, _Presence(lease.epoch, self._now_ms))
            if presence.work is not None:
                self._close(presence.work, is_lost=True)
            self._pass(worker, presence)
            presence.kind, presence.work = WAITING, work
        self._works[lease.number] = work

    def _repeat(self, trial: TrialId) -> None:
        for work in self._works.values():
            for lane in work.lanes.values():
                lane.is_repeated |= trial in lane.trials

    # Workers

    def _pass(self, worker: WorkerId, presence: _Presence) -> None:
        """Count the time of a worker since it was last looked at, if it had no work."""
        if presence.work is None:
            self._of(worker)[presence.kind] += self._now_ms - presence.since_ms
            presence.since_ms = self._now_ms

    def _close(self, work: WorkTime, *, is_lost: bool = False) -> None:
        """End a work, whose workers wait from now on."""
        self._works.pop(work.lease.number, None)
        total = work.close(self._now_ms, is_lost=is_lost)
        for worker in work.workers:
            add(self._of(worker), total)
            presence = self._present[worker]
            presence.work, presence.since_ms = None, self._now_ms
        if self._is_by_trial:
            for trial, amounts in work.by_trial.items():
                add(self._trials.setdefault(trial, nothing()), amounts, len(work.workers))

    def _leave(self, worker: WorkerId, *, is_lost: bool) -> None:
        presence = self._present.get(worker)
        if presence is None:
            return
        if presence.work is not None:
            self._close(presence.work, is_lost=is_lost)
        self._pass(worker, presence)
        del self._present[worker]

    def _leave_all(self) -> None:
        for worker in list(self._present):
            self._leave(worker, is_lost=True)

    def _of(self, worker: WorkerId) -> Amounts:
        return self._workers.setdefault(worker, nothing())

    def _work(self, lease: Lease, lane: int) -> WorkTime | None:
        work = self._works.get(lease.number)
        return work if work is not None and lane in work.lanes else None

    def _lane(self, lease: Lease, lane: int) -> LaneTime | None:
        work = self._work(lease, lane)
        return None if work is None else work.lanes[lane]


def time_spent(records: Iterable[tuple[float, AnyEvent, Sequence[AnyAction]]], *, is_over: bool = False) -> TimeSpent:
    """Return where the time of the workers went by the records of a study; ``is_over``: no driver has it open."""
    reader = TimeReader()
    for t, event, actions in records:
        reader.add(t, event, actions)
    return reader.result(is_over=is_over)

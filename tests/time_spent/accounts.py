"""The workers' time by the launches and ends alone, with which the accounts must agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from asyncsearch.actions import AnyAction, DismissWorker, EndRun, LaunchWorker
from asyncsearch.events import AnyEvent, DriverStarted, WorkerLost
from asyncsearch.ids import WorkerId
from asyncsearch.time_spent.account import KINDS, TimeSpent

Records = Sequence[tuple[float, AnyEvent, Sequence[AnyAction]]]


def present_ms(records: Records) -> dict[WorkerId, int]:
    """Return how long each worker was there, whatever it did; of runs that have ended."""
    found: dict[WorkerId, int] = {}
    since: dict[WorkerId, tuple[int, int]] = {}

    def leave(worker: WorkerId, now: int) -> None:
        if worker in since:
            found[worker] = found.get(worker, 0) + now - since.pop(worker)[1]

    now = 0
    for t, event, actions in records:
        if isinstance(event, DriverStarted):  # the one before has ended without a word
            for worker in list(since):
                leave(worker, now)
        now = max(now, round(1000 * t))
        if isinstance(event, WorkerLost) and since.get(event.worker, (0, 0))[0] == event.epoch:
            leave(event.worker, now)
        for action in actions:
            if isinstance(action, LaunchWorker):
                leave(action.worker, now)
                since[action.worker] = action.epoch, now
            elif isinstance(action, DismissWorker):
                leave(action.worker, now)
            elif isinstance(action, EndRun):
                for worker in list(since):
                    leave(worker, now)
    assert not since, "a run goes on"
    return found


def require_sums(found: TimeSpent, records: Records) -> None:
    """Check that each millisecond of each worker is counted once, by worker, by trial and by kind."""
    expected = {worker: ms for worker, ms in present_ms(records).items() if ms}
    assert {worker: one.total for worker, one in found.by_worker.items() if one.total} == expected
    assert all(amount >= 0 for one in found.by_worker.values() for amount in one.amounts())
    total = found.total.amounts()
    assert [sum(kind) for kind in zip(*(one.amounts() for one in found.by_worker.values()), strict=True)] == total
    trials = [sum(kind) for kind in zip(*(one.amounts() for one in found.by_trial.values()), strict=True)]
    left = {kind: all_of - of for kind, all_of, of in zip(KINDS, total, trials or [0] * len(KINDS), strict=True)}
    assert {kind for kind, amount in left.items() if amount} <= {"starting", "waiting"}, left
    assert left["starting"] >= 0 <= left["waiting"]


def records_of(store: Iterable[object]) -> Records:
    return [(record.t, record.event, record.actions) for record in store]  # type: ignore[attr-defined]

"""What a worker owes after an end: the checkpoint that it named, and work that is not given back again and again.

A worker that gives signs of life and never keeps such a promise counts as lost, so that it holds no run open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from asyncsearch.driver.settings import DriverSettings
from asyncsearch.driver.store_waits import JOURNAL, StoreWaits, Worker
from asyncsearch.driver.timeouts import STALLED_S
from asyncsearch.engine.affected import trials_awaiting
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import StoreError
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    CheckpointFailed,
    Outcome,
    StopRequested,
    TrainingEnded,
    WorkerLost,
)
from asyncsearch.ids import CheckpointRef, Lease, WorkerId
from asyncsearch.store import layout
from asyncsearch.store.base_store import Store

_IN_VAIN = 3
"""How many leases in a row a worker may give back unasked before it counts as lost."""


class _Awaited(msgspec.Struct):
    """A checkpoint that an end has named and that is not durable yet."""

    checkpoint: CheckpointRef
    since_s: float
    """When the worker last got on with it, by the loop's clock."""
    written_bytes: int | None = None
    """How much of it was in the store at the last look; None: nobody has looked."""
    excused_s: float | None = None
    """Since when it gets on with nothing and says that the store is to blame; None: it does not."""


class _Vain(msgspec.Struct):
    """Work that a worker gave back in a row."""

    count: int = 0
    lease: int = -1
    """The last lease counted: the lanes of a pack end together, and count once."""


class Promises:
    """Watches what ends name and give back. Called in the driver's thread."""

    def __init__(
        self,
        state: StudyState,
        store: Store,
        waits: StoreWaits,
        settings: DriverSettings,
        loop: asyncio.AbstractEventLoop,
        *,
        post: Callable[[AnyEvent], None],
    ) -> None:
        """Begin with no promise; ``post`` sends an event to the engine."""
        self._state, self._store, self._waits, self._loop, self._post = state, store, waits, loop, post
        self._timeout_s, self._silent_s = settings.store_timeout_s, settings.store_silent_s
        self._awaited: dict[tuple[Lease, int], _Awaited] = {}
        self._vain: dict[WorkerId, _Vain] = {}
        self._refused: set[WorkerId] = set()
        """The workers that said too often that the store takes nothing."""
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, "asyncsearch-promises")
        self._looking: asyncio.Task[None] | None = None

    def before(self, event: AnyEvent) -> None:
        """Note an event of a lane that the engine has not handled yet."""
        if not isinstance(event, TrainingEnded | CheckpointCommitted | CheckpointFailed):
            return
        attempt = self._state.attempt(event.lease, event.lane)
        if attempt is None:
            return
        if isinstance(event, TrainingEnded):
            self._note_end(event, attempt)
        elif attempt.settled is None or event.checkpoint.resource > attempt.settled:
            self._get_on(event.lease)  # its uploads follow one another
            if isinstance(event, CheckpointFailed) and event.error_kind:
                if trials_awaiting(self._state, attempt, event.checkpoint):  # others may be left out
                    self._note_vain(attempt, f"it could not store a checkpoint: {event.error}", is_store=True)
            else:
                self._vain.pop(event.lease.worker, None)

    def _note_end(self, end: TrainingEnded, attempt: Attempt) -> None:
        saved, settled = end.checkpoint_resource, attempt.settled
        if saved is not None and (settled is None or settled < saved):
            checkpoint = CheckpointRef(attempt.node_at(saved), saved)
            self._awaited[end.lease, end.lane] = _Awaited(checkpoint, self._loop.time())
            self._arm()
        elif end.outcome in (Outcome.REACHED, Outcome.RETURNED):
            self._vain.pop(end.lease.worker, None)
        if end.outcome is Outcome.STOPPED:
            self._note_vain(attempt, "it stopped a training that was to go on", is_store=False)

    def _note_vain(self, attempt: Attempt, words: str, *, is_store: bool) -> None:
        """Count work that came back though nobody asked for it; a worker that goes on so is at fault."""
        lease = attempt.lease
        vain = self._vain.setdefault(lease.worker, _Vain())
        if attempt.is_stop_sent or self._state.stopping or vain.lease == lease.number:
            return
        vain.count, vain.lease = vain.count + 1, lease.number
        if vain.count <= _IN_VAIN:
            return
        del self._vain[lease.worker]
        reason = f"{vain.count} times in a row {words.rstrip('.')}."
        if is_store:
            self._refused.add(lease.worker)
            if len(self._refused) >= min(2, self._state.voices):
                self._post(StopRequested(f"{reason[0].upper()}{reason[1:]}", "StoreError"))
                return
        self._post(WorkerLost(lease.worker, lease.epoch, reason))

    def _get_on(self, lease: Lease) -> None:
        for (other, _), awaited in self._awaited.items():
            if (other.worker, other.epoch) == (lease.worker, lease.epoch):
                awaited.since_s = self._loop.time()

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_at(self._loop.time() + self._timeout_s / 2, self._on_timer)

    def _on_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and self._loop.time() - timer.when() > STALLED_S:
            for awaited in self._awaited.values():  # what came meanwhile is not read yet
                awaited.since_s = self._loop.time()
        self._looking = self._loop.create_task(self.look())

    async def look(self) -> None:
        """Lose the workers that have not got on with a checkpoint for ``store_timeout``."""
        late: dict[Worker, str] = {}
        for (lease, lane), awaited in list(self._awaited.items()):
            attempt = self._state.attempt(lease, lane)
            if attempt is None or attempt.is_over:
                self._awaited.pop((lease, lane), None)
                continue
            if await self._is_written(awaited) or self._waits.is_waiting(JOURNAL):
                awaited.since_s, awaited.excused_s = self._loop.time(), None
            elif self._is_excused(lease, awaited):
                awaited.since_s = self._loop.time()
            elif self._loop.time() - awaited.since_s >= self._timeout_s:
                at = awaited.checkpoint.resource
                reason = f"it stored nothing of its checkpoint at {at} for {self._timeout_s:g} s"
                late[lease.worker, lease.epoch] = reason
        for (worker, epoch), reason in late.items():
            self._post(WorkerLost(worker, epoch, reason))
        self._awaited = {key: one for key, one in self._awaited.items() if (key[0].worker, key[0].epoch) not in late}
        if self._awaited:
            self._arm()

    def _is_excused(self, lease: Lease, awaited: _Awaited) -> bool:
        """Return whether the worker says that it waits for the store, now and not for ever."""
        if not self._waits.is_waiting((lease.worker, lease.epoch)):
            return False
        if awaited.excused_s is None:
            awaited.excused_s = self._loop.time()
        return self._loop.time() < awaited.excused_s + self._timeout_s

    async def _is_written(self, awaited: _Awaited) -> bool:
        """Return whether the store has got more of a checkpoint since the last look."""
        looking = self._loop.run_in_executor(self._thread, written_bytes, self._store, awaited.checkpoint)
        try:
            size = await asyncio.wait_for(looking, self._silent_s)
        except (StoreError, OSError, TimeoutError):
            return False
        before, awaited.written_bytes = awaited.written_bytes, size
        return before is not None and size != before

    def close(self) -> None:
        """Watch nothing any more, without waiting for a store that does not answer."""
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)


def written_bytes(store: Store, checkpoint: CheckpointRef) -> int:
    """Return how many bytes of a checkpoint are in a store, of all its versions, complete or not."""
    files = store.walk(layout.node_folder(checkpoint))
    versions = layout.versions_of(checkpoint.resource, {name.partition("/")[0] for name in files})
    names = {str(version) for version in versions}
    return sum(info.size_bytes for name, info in files.items() if name.partition("/")[0] in names)

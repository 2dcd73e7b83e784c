"""The messages of workers: refused, taken into the logs, or passed on to the engine.

A size that a worker names is compared with the store where a quota would act on it: else one worker could make the
engine give up the checkpoints of all finished trials by a number.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from asyncsearch.driver.dispatcher import Dispatcher
from asyncsearch.driver.logs import LogSink
from asyncsearch.driver.questions import Received, Settled
from asyncsearch.driver.timeouts import Timeouts
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import StoreError
from asyncsearch.events import (
    AnyEvent,
    CheckpointCommitted,
    CheckpointFailed,
    PackMeasured,
    Reported,
    StopRequested,
    TrainingEnded,
    VolumeMeasured,
)
from asyncsearch.ids import CheckpointRef, Lease, WorkerId, trial_name
from asyncsearch.rpc.messages import (
    GangNote,
    Heartbeat,
    Hello,
    LogLines,
    RankFailed,
    StoreOutage,
    TrialQuestion,
)
from asyncsearch.store import layout
from asyncsearch.store.base_store import Store

LaneEvent = Reported | TrainingEnded | CheckpointCommitted | CheckpointFailed


class EventInbox:
    """The events and messages that wait for the driver's loop, in their order. Used in the driver's thread."""

    def __init__(self) -> None:
        self._waiting: list[AnyEvent | Received | Settled] = []
        self._woken = asyncio.Event()

    def put(self, item: AnyEvent | Received | Settled) -> None:
        """Add what has come."""
        self._waiting.append(item)
        self.wake()

    def put_back(self, rest: Sequence[AnyEvent | Received | Settled]) -> None:
        """Put what was not handled before all that waits; nobody is woken for it."""
        self._waiting = [*rest, *self._waiting]

    def wake(self) -> None:
        """Let ``next`` return, though nothing may have come."""
        self._woken.set()

    async def next(self) -> list[AnyEvent | Received | Settled]:
        """Wait until something comes, or for ``wake``; return all that waits."""
        await self._woken.wait()
        self._woken.clear()
        return self.take()

    def take(self) -> list[AnyEvent | Received | Settled]:
        """Return all that waits, and wait for none."""
        taken, self._waiting = self._waiting, []
        return taken

    def requested_stop(self) -> str:
        """Return the reason of a stop that waits, or an empty text."""
        return next((event.reason for event in self._waiting if isinstance(event, StopRequested)), "")


class Incoming:
    """Tells which messages are events. Called in the driver's thread."""

    def __init__(self, state: StudyState, dispatcher: Dispatcher, timeouts: Timeouts, logs: LogSink) -> None:
        self._state, self._dispatcher, self._timeouts, self._logs = state, dispatcher, timeouts, logs

    def event_in(self, received: Received) -> AnyEvent | None:
        """Return the event in a message; log lines are no events, and stale leases are refused."""
        worker, message = (received.worker, received.epoch), received.message
        if isinstance(message, (Hello, Heartbeat, TrialQuestion)):  # a union of the two would be built for each message
            return None
        if isinstance(message, StoreOutage):
            if self._state.pool.is_current(*worker):
                self._timeouts.note_outage(worker, message.error)
            return None
        if isinstance(message, PackMeasured):
            return self._of_pack(received, message)
        if isinstance(message, VolumeMeasured):
            is_owner = (message.lease.worker, message.lease.epoch) == worker
            return message if is_owner and self._state.attempt(message.lease) is not None else None
        if isinstance(message, GangNote):
            self._pass_on(worker, message)
            return None
        if isinstance(message, RankFailed):
            return self._dispatcher.gangs.end_of(worker, message, self._state.attempt(message.lease))
        lease, lane = message.lease, message.lane
        attempt = self._state.attempt(lease, lane)
        is_owner = lease.worker == received.worker and lease.epoch == received.epoch
        if not is_owner and isinstance(message, LogLines) and (found := self._dispatcher.gangs.log_of(lease, worker)):
            rank, log = found
            self._logs.take(trial_name(log.trial), _of_rank(rank, message), log.start)
            return None
        # Commits and lines may follow the end of their lane.
        is_late = attempt is not None and attempt.end is not None and type(message) in (Reported, TrainingEnded)
        if attempt is None or is_late or not is_owner:
            if isinstance(message, CheckpointCommitted) and attempt is None and is_owner:
                self._dispatcher.admission.drop_late(message)
            self._refuse(worker, lease, lane, is_owner=is_owner)
            return None
        if isinstance(message, LogLines):
            self._logs.take(trial_name(attempt.trial), message, attempt.batch.stages[0].start)
            return None
        return self._of_its_work(worker, message, attempt)

    def _of_its_work(self, worker: tuple[WorkerId, int], message: LaneEvent, attempt: Attempt) -> LaneEvent | None:
        """Return the event of a lane; None if it is refused, since it names something else than the lane's work."""
        if misnamed := attempt.misnamed(message):
            lane, lease = attempt.lane, attempt.lease
            self.end_lease(worker, lease, f"{misnamed} is not of the work of lane {lane} of {lease}")
            return None
        return self._dispatcher.gangs.end_by_rank(message) if isinstance(message, TrainingEnded) else message

    def _pass_on(self, worker: tuple[WorkerId, int], note: GangNote) -> None:
        if reason := self._dispatcher.gangs.pass_on(worker, note):
            self.end_lease(worker, note.lease, reason)

    def end_lease(self, worker: tuple[WorkerId, int], lease: Lease, reason: str) -> None:
        """Refuse a lease that is current. Its worker drops the work, and counts as lost if it never says so."""
        self._dispatcher.refuse(worker, lease, reason)
        self._timeouts.begin_stop(lease, is_refused=True)

    def _is_unknown(self, opened: Attempt, lane: int) -> bool:
        """Return whether no lane of a lease has ever had this number; one that joined may have any."""
        if opened.is_open:
            return lane >= self._state.next_lease - opened.lease.number
        return lane >= opened.lanes

    def _of_pack(self, received: Received, message: PackMeasured) -> AnyEvent | None:
        """Return a worker's times of its own pack, of no more trainings than that has; None if its lease is over."""
        opened = self._state.attempts_under(message.lease)
        is_owner = (message.lease.worker, message.lease.epoch) == (received.worker, received.epoch)
        if not opened or not is_owner:
            return None
        seconds = tuple([one for one in message.seconds if one.lanes <= opened[0].lanes])
        return msgspec.structs.replace(message, seconds=seconds)

    def _refuse(self, worker: tuple[WorkerId, int], lease: Lease, lane: int, *, is_owner: bool) -> None:
        """Refuse a lease, unless other lanes of it go on: then only this message does not count."""
        opened = self._state.attempts_under(lease) if is_owner else []
        if not opened:
            self._dispatcher.refuse(worker, lease, f"{lease} is not current any more")
        elif self._is_unknown(opened[0], lane) or all(attempt.lane == lane for attempt in opened):
            self._dispatcher.refuse(worker, lease, f"lane {lane} of {lease} trains no more")


def _of_rank(rank: int, message: LogLines) -> LogLines:
    """Return the lines of a rank above 0 as they stand in the log of its trial."""
    lines = [msgspec.structs.replace(line, text=f"[rank {rank}] {line.text}") for line in message.lines]
    return msgspec.structs.replace(message, lines=tuple(lines))


_log = logging.getLogger(__name__)


class TrueSizes:
    """Looks at the store where a commit would exceed the quota. Called in the driver's thread."""

    def __init__(self, state: StudyState, store: Store, silent_s: float) -> None:
        """Begin; a store that does not answer for ``silent_s`` seconds says nothing."""
        self._state, self._store, self._silent_s = state, store, silent_s
        # Of its own: the thread of logs and snapshots may be busy for longer than a decision is to wait.
        self._thread = ThreadPoolExecutor(1, "asyncsearch-sizes")

    def is_to_be_compared(self, event: AnyEvent) -> bool:
        """Return whether an event is a commit that would make the study exceed its quota."""
        usage = self._state.usage
        if not isinstance(event, CheckpointCommitted) or usage.quota_bytes is None:
            return False
        former = usage.sizes.get(event.checkpoint, 0)
        return usage.total_bytes + event.size_bytes - former > usage.quota_bytes

    async def compared(self, event: AnyEvent) -> AnyEvent:
        """Return the event with no more bytes than the store has of its checkpoint."""
        assert isinstance(event, CheckpointCommitted)
        looking = asyncio.get_running_loop().run_in_executor(self._thread, stored_bytes, self._store, event.checkpoint)
        try:
            stored = await asyncio.wait_for(looking, self._silent_s)
        except (StoreError, OSError, TimeoutError) as error:
            _log.warning("The size of a checkpoint could not be read and counts as 0 for quota_bytes: %s", error)
            stored = 0
        return msgspec.structs.replace(event, size_bytes=min(event.size_bytes, stored))

    def close(self) -> None:
        """End the thread, without waiting for a store that does not answer."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def stored_bytes(store: Store, checkpoint: CheckpointRef) -> int:
    """Return how many bytes the files of a checkpoint's newest version take in a store; 0 if it is not there."""
    folder = layout.node_folder(checkpoint)
    files = store.walk(folder)
    versions = layout.versions_of(checkpoint.resource, {name.partition("/")[0] for name in files})
    if not versions:
        return 0
    inside = f"{versions[-1]}/{layout.FILES}/"
    return sum(info.size_bytes for name, info in files.items() if name.startswith(inside))

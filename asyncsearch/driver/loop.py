"""The driver: the one thread that owns ``StudyState``, passes events to it, and carries out its decisions.

    messages, losses, deadlines ──> inbox ──> handle ──> journal, one sync for all that is waiting
                                                                   │ durable
                                     acknowledgements, actions <───┘

Nothing polls: the thread sleeps until a message comes, somebody posts an event, or a deadline is due.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import assert_never

import msgspec

from asyncsearch.actions import (
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
from asyncsearch.driver.deletions import CheckpointDeletions
from asyncsearch.driver.logs import LogSink
from asyncsearch.driver.losses import loss_in
from asyncsearch.driver.store_waits import FOLDER, JOURNAL, StoreWaits, Worker
from asyncsearch.driver.transport import Transport
from asyncsearch.engine import snapshot
from asyncsearch.engine.handling import handle
from asyncsearch.engine.liveness import Deadlines, Liveness
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import ProtocolError, StaleLeaseError, StoreError, is_bug, may_pass
from asyncsearch.events import (
    AnyEvent,
    Outcome,
    StopRequested,
    TrainingEnded,
    TrialTimedOut,
    WorkerAttached,
    WorkerLost,
)
from asyncsearch.ids import Lease, WorkerId, trial_name, worker_name
from asyncsearch.journal.opening import save_snapshot
from asyncsearch.journal.writer import Journal
from asyncsearch.rpc.messages import Heartbeat, Hello, LogLines, Refused, StoreOutage, WorkerMessage
from asyncsearch.shared.membership import FolderMembership
from asyncsearch.shared.session import SharingSession, WorkerAction
from asyncsearch.store.base_store import Store
from asyncsearch.work import Stage

_log = logging.getLogger(__name__)

_COMMIT_DELAY_S = 0.01
"""How long records without a decision wait for others to be synced with: only their acknowledgement waits, and a sync,
with its two changes of threads, costs as much as handling several reports."""

_STOP_S = 20.0
"""How long workers may take to stop after the store was waited for in vain."""

_NAMED = 8
"""Trials that a shared stage's log names."""


class DriverSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the driver; those of the engine are in ``EngineConfig``. Times are in seconds."""

    lease_timeout_s: float = 30.0
    """Silence after which a worker loses its leases."""
    trial_timeout_s: float | None = None
    """Time after which an attempt fails; None: none."""
    snapshot_every: int = 50_000
    """Records between two snapshots."""
    store_timeout_s: float = 600.0
    """Time for which the run waits for a store that it cannot use."""


class _Received(msgspec.Struct, frozen=True):
    """A numbered message of a worker."""

    worker: WorkerId
    epoch: int
    number: int
    message: WorkerMessage


class Driver:
    """Owns a study's state while a run lasts. Any thread may call its public methods, except those of ``Handler``."""

    def __init__(
        self,
        state: StudyState,
        store: Store,
        journal: Journal,
        *,
        launch: Callable[[WorkerId, int], None],
        kill: Callable[[WorkerId, int], None],
        changed: Callable[[], None] = lambda: None,
        settings: DriverSettings | None = None,
        shared: FolderMembership | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take over a state, which no other code may change from now on.

        Args:
            launch: starts a worker; called in a thread of its own, may block.
            kill: ends a worker that counts as lost; likewise.
            shared: the folder in which the study's checkpoints are, if it shares them with others.
            changed: called in the driver's thread after each change that a display may show.
            clock: seconds since 1970.
        """
        self.settings = settings or DriverSettings()
        self.outcome: EndRun | None = None
        """How the run ended; None while it has not."""
        self.failure: BaseException | None = None
        """What broke the driver itself: a journal that cannot be written, or a bug."""
        self.ended = threading.Event()
        self._state, self._store, self._journal = state, store, journal
        self._launch, self._kill, self._changed, self._clock = launch, kill, changed, clock
        self._transport: Transport | None = None
        self._now = 0.0
        self._inbox: list[AnyEvent | _Received] = []
        self._lines: list[bytes] = []
        """Records that are not in the journal yet; their consequences wait in the next two."""
        self._unacknowledged: dict[Worker, int] = {}
        """Highest number of each worker's messages to acknowledge."""
        self._todo: list[AnyAction] = []
        self._commit_timer: asyncio.TimerHandle | None = None
        self._is_commit_due = False
        self._liveness: Liveness[Worker] = Liveness(self.settings.lease_timeout_s)
        self._deadlines: Deadlines[Lease] = Deadlines()
        self._store_waits = StoreWaits(store.shown, self.settings.store_timeout_s)
        # Both use the loop's clock: a system clock that is set, or jumps after a suspension, would make workers lost.
        self._timer: asyncio.TimerHandle | None = None
        self._attached: set[Worker] = set()
        """Launches that have attached; nothing can be sent to the others yet."""
        self._snapshot_at = journal.last + self.settings.snapshot_every
        self._disk = ThreadPoolExecutor(1, "asyncsearch-journal")
        self._files = ThreadPoolExecutor(1, "asyncsearch-files")
        self._workers = ThreadPoolExecutor(1, "asyncsearch-launch")
        self.loop = asyncio.new_event_loop()
        self._wake = asyncio.Event()
        self._is_stop_sent = False
        """Whether the run was asked to end because of its store."""
        self._is_closing = False
        self.logs = LogSink(store, self.loop, self._files)
        self._sharing: SharingSession | None = None
        if shared is not None:
            self._sharing = SharingSession(
                shared,
                state,
                self.loop,
                post=self._take,
                send=self._send,
                fail=self._fail,
                waits=lambda error: self._note_outage(FOLDER, error),
            )
        self._deletions = CheckpointDeletions(state, store, self.loop, self._send)
        self._admission = self._sharing or self._deletions
        """What deletes checkpoints, and sends work to workers as soon as its checkpoints are safe."""
        self._thread_ended = threading.Event()
        threading.Thread(target=self._run_loop, name="asyncsearch-driver", daemon=True).start()
        self._pump_task = asyncio.run_coroutine_threadsafe(self._pump(), self.loop)

    def connect(self, transport: Transport) -> None:
        """Set how messages reach the workers; call it before the first event is posted."""
        self._transport = transport

    def post(self, event: AnyEvent) -> None:
        """Pass an event to the engine."""
        self.loop.call_soon_threadsafe(self._take, event)

    @property
    def notices(self) -> deque[str]:
        """Sentences for the user, to take from the left; any thread may take them."""
        return self._store_waits.notices

    def lost(self, worker: WorkerId, epoch: int, reason: str) -> None:
        """Report that a launch of a worker has ended; ignored if the worker was dismissed."""
        self.post(WorkerLost(worker, epoch, reason))

    def receive(self, worker: WorkerId, epoch: int, number: int, message: WorkerMessage) -> None:
        """Take a message of a worker that lives in this process."""
        if isinstance(message, Hello):
            self.loop.call_soon_threadsafe(self._attached_here, message)
        else:
            self.loop.call_soon_threadsafe(self.received, worker, epoch, number, message)

    def stop_after(self, seconds: float, reason: str) -> None:
        """Ask the run to end ``seconds`` from now, if it has not by then."""
        self.loop.call_soon_threadsafe(lambda: self.loop.call_later(seconds, self._take, StopRequested(reason)))

    def give_up_after(self, seconds: float) -> None:
        """Count every worker as lost ``seconds`` from now, so that a run ends although some do not answer."""
        self.loop.call_soon_threadsafe(lambda: self.loop.call_later(seconds, self._give_up))

    def close(self) -> None:
        """Write all pending records, save a snapshot, and end the thread. The state belongs to the caller again."""
        try:
            asyncio.run_coroutine_threadsafe(self._shut_down(), self.loop).result()
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread_ended.wait()
            self.loop.close()

    # The loop's thread, from here on.

    def attached(self, hello: Hello, peer: str) -> None:
        """See ``rpc.server.Handler``."""
        if not self._state.pool.is_current(hello.worker, hello.epoch):
            raise StaleLeaseError(
                f"Launch {hello.epoch} of {worker_name(hello.worker)} is over: "
                "it was silent too long, was replaced, or the run ended."
            )
        self._attached.add((hello.worker, hello.epoch))
        self._liveness.seen((hello.worker, hello.epoch), self.loop.time())
        self._take(WorkerAttached(hello.worker, hello.epoch, hello.host, hello.pid))

    def _attached_here(self, hello: Hello) -> None:
        with contextlib.suppress(StaleLeaseError):  # the run was stopped before; ``kill`` has told it
            self.attached(hello, "this process")

    def received(self, worker: WorkerId, epoch: int, number: int, message: WorkerMessage) -> None:
        """See ``rpc.server.Handler``."""
        self._liveness.seen((worker, epoch), self.loop.time())
        if not isinstance(message, Heartbeat):
            self._inbox.append(_Received(worker, epoch, number, message))
            self._wake.set()

    def detached(self, worker: WorkerId, epoch: int) -> None:
        """A broken stream means nothing yet: the worker may attach again before its lease times out."""

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self._thread_ended.set()

    def _time(self) -> float:
        """Return the time of the journal, which a correction of the system's clock cannot turn back."""
        self._now = max(self._now, self._clock())
        return self._now

    def _take(self, event: AnyEvent) -> None:
        self._inbox.append(event)
        self._wake.set()
        if isinstance(event, StopRequested):
            self._store_waits.changed.set()

    async def _pump(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                batch, self._inbox = self._inbox, []
                await self._process(batch)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._fail(error)

    @property
    def _has_waited_in_vain(self) -> bool:
        """Whether the run has ended because its store could not be used, which its end says better than each error."""
        return self.outcome is not None and self.outcome.error_kind == "StoreError"

    def _fail(self, error: BaseException) -> None:
        if self._has_waited_in_vain and may_pass(error):
            return
        _log.error(
            "The driver of the study stops: it must not act on a decision that it cannot make durable.",
            exc_info=error if is_bug(error) else None,  # ``run`` raises it
        )
        self._pump_task.cancel()
        self.failure = self.failure or error
        if isinstance(error, StoreError):
            self._dismiss_all()
        self.ended.set()
        self._changed()

    def _dismiss_all(self) -> None:
        """Let the workers stop their trials: no decision on the study, whose journal cannot be written."""
        for worker, epoch in self._attached:  # the pool may be ahead: what it decided last is not durable
            with contextlib.suppress(Exception):
                self._require_transport().send(worker, epoch, DismissWorker(worker, epoch, "the store cannot be used"))

    async def _process(self, batch: list[AnyEvent | _Received]) -> None:
        for item in batch:
            event = self._event_of(item)
            if event is None or self._state.is_stale(event):
                continue
            self._forget(event)
            if self._sharing is not None:
                self._sharing.note(event)
            now, loss = self._time(), loss_in(self._state, event)
            actions = handle(self._state, event, now)
            self._lines.append(self._journal.encode(event, actions, now))
            self._todo.extend(actions)
            if loss is not None:
                self._store_waits.say(loss.sentence(self._state))
        is_snapshot_due = self._journal.last >= self._snapshot_at
        if self._todo or not self._lines or self._is_commit_due or is_snapshot_due:
            await self._commit()
        elif self._commit_timer is None:
            self._commit_timer = self.loop.call_later(_COMMIT_DELAY_S, self._commit_soon)
        self._arm()
        if is_snapshot_due:
            await self._snapshot()
        self._changed()

    async def _commit(self) -> None:
        """Make the records durable, and then carry out the decisions in them."""
        lines, unacknowledged, todo = self._lines, self._unacknowledged, self._todo
        self._lines, self._unacknowledged, self._todo, self._is_commit_due = [], {}, [], False
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit_timer = None
        if lines:
            await self._append(b"".join(lines))
        for (worker, epoch), number in unacknowledged.items():
            self._require_transport().acknowledge(worker, epoch, number)
        for action in todo:
            self._carry_out(action)
        if self._sharing is not None:
            self._sharing.durable()

    async def _append(self, lines: bytes) -> None:
        """Make lines durable; while the journal cannot be written, try again, as long as the run waits for its store.

        Raises:
            StoreError: the run waits no longer, or waiting is of no use.
        """
        waits, began = self._store_waits, self.loop.time()
        while True:
            try:
                await self.loop.run_in_executor(self._disk, self._journal.append, lines)
                break
            except Exception as error:
                if not may_pass(error) or self._is_closing:
                    raise
                self._note_outage(JOURNAL, str(error))
                reason = self._requested_stop()
                if waits.answer_in_vain(self.loop.time()):
                    reason = waits.vain
                elif self._is_stop_sent or (self._state.stopping and self.loop.time() > began + _STOP_S):
                    reason = self._state.stopping
                if reason:
                    raise waits.final_error(reason, error) from error
                waits.changed.clear()
                timer = self.loop.call_later(waits.next_try_s(), waits.changed.set)
                try:
                    await waits.changed.wait()
                finally:
                    timer.cancel()
        if waits.is_waiting(JOURNAL):
            self._note_outage(JOURNAL, "")

    def _requested_stop(self) -> str:
        """Return the reason of a stop that was requested while the journal cannot be written; empty: there is none."""
        return next((event.reason for event in self._inbox if isinstance(event, StopRequested)), "")

    def _note_outage(self, key: Worker, error: str) -> None:
        """Note that a worker, or the journal, waits for the store; or, without an error, that it waits no longer."""
        now = self.loop.time()
        if error:
            self._store_waits.began(key, error, now)
        elif self._store_waits.ended(key, now):
            self._renew_deadlines(key)
        self._arm()
        self._changed()

    def _renew_deadlines(self, key: Worker) -> None:
        """Give the trials that waited for the store their whole time again."""
        limit = self.settings.trial_timeout_s
        for attempt in self._state.attempts.values() if limit is not None else ():
            lease = attempt.lease
            if attempt.is_training and key in (JOURNAL, (lease.worker, lease.epoch)):
                self._deadlines.set(lease, self.loop.time() + (limit or 0.0))

    def _commit_soon(self) -> None:
        self._commit_timer = None
        self._is_commit_due = True
        self._wake.set()

    def _event_of(self, item: AnyEvent | _Received) -> AnyEvent | None:
        """Return the event in an item of the inbox; log lines are no events, and stale leases are refused."""
        if not isinstance(item, _Received):
            return item
        self._unacknowledged[item.worker, item.epoch] = item.number
        message = item.message
        if isinstance(message, Hello | Heartbeat):
            return None
        if isinstance(message, StoreOutage):
            if self._state.pool.is_current(item.worker, item.epoch):
                self._note_outage((item.worker, item.epoch), message.error)
            return None
        attempt = self._state.attempt(message.lease)
        if attempt is None or message.lease.worker != item.worker or message.lease.epoch != item.epoch:
            refusal = Refused(message.lease, f"{message.lease} is not current any more")
            self._require_transport().send(item.worker, item.epoch, refusal)
            return None
        if isinstance(message, LogLines):
            self.logs.take(trial_name(attempt.trial), message)
            return None
        return message

    def _forget(self, event: AnyEvent) -> None:
        if isinstance(event, WorkerLost):
            self._liveness.forget((event.worker, event.epoch))
            self._note_outage((event.worker, event.epoch), "")
            self._require_transport().disconnect(event.worker, event.epoch, event.reason)
            self._workers.submit(self._kill, event.worker, event.epoch)
        elif isinstance(event, TrainingEnded):
            self._deadlines.call_off(event.lease)

    def _carry_out(self, action: AnyAction) -> None:
        match action:
            case Assign():
                self._admission.admit(action)
            case StopTraining() | SaveAt() | CutWork():
                if not self._admission.delay(action.lease.number, action):
                    self._send(action)
            case DismissWorker():
                self._dismiss(action)
            case LaunchWorker():
                self._workers.submit(self._try_launch, action.worker, action.epoch)
            case DeleteCheckpoint():
                self._admission.delete(action.checkpoint)
            case EndRun():
                self.outcome = action
                self.ended.set()
            case CreateTrial() | Inherit() | Promote() | Branch() | MoveTrial() | EndProposals() | StopRun():
                pass
            case _:
                assert_never(action)

    def _send(self, action: WorkerAction) -> None:
        """Send a worker its work, or a decision about it."""
        if isinstance(action, Assign):
            self._assign(action)
        else:
            self._require_transport().send(action.lease.worker, action.lease.epoch, action)

    def _assign(self, action: Assign) -> None:
        lease = action.work.lease
        if self.settings.trial_timeout_s is not None:
            self._deadlines.set(lease, self.loop.time() + self.settings.trial_timeout_s)
            self._arm()
        for stage in (stage for lane in action.work.lanes for stage in lane.stages if len(stage.trials) > 1):
            self.logs.note(trial_name(stage.trials[0]), _for_whom(stage))
        try:
            self._require_transport().send(lease.worker, lease.epoch, action)
        except ProtocolError as error:
            # Parameters that are too large for a message fail their own trial, not the search.
            text, kind = str(error), type(error).__name__
            for number, lane in enumerate(action.work.lanes):
                start = lane.stages[0].start
                self._take(TrainingEnded(lease, Outcome.FAILED, start, error=text, error_kind=kind, lane=number))

    def _dismiss(self, action: DismissWorker) -> None:
        worker = (action.worker, action.epoch)
        self._liveness.forget(worker)
        self._note_outage(worker, "")
        if worker in self._attached:
            self._require_transport().send(*worker, action)
        else:
            self._workers.submit(self._kill, *worker)

    def _try_launch(self, worker: WorkerId, epoch: int) -> None:
        try:
            self._launch(worker, epoch)
        except Exception as error:
            if is_bug(error):
                _log.warning("%s, epoch %d, could not be launched.", worker_name(worker), epoch, exc_info=True)
            self.lost(worker, epoch, f"it could not be launched: {error}")

    def _arm(self) -> None:
        """Let the timer fire no later than the earliest deadline; one that fires too early is set again."""
        waits = None if self._is_stop_sent else self._store_waits.next_deadline()
        due = [
            when
            for when in (self._liveness.next_deadline(), self._deadlines.next_deadline(), waits)
            if when is not None
        ]
        if not due:
            return
        when = min(due)
        if self._timer is None or when < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self.loop.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        now = self.loop.time()
        self._timer = None
        for (worker, epoch), silence_s in self._liveness.overdue(now):
            self._liveness.forget((worker, epoch))
            self._take(WorkerLost(worker, epoch, f"it was silent for {silence_s:.0f} s"))
        for lease in self._deadlines.expired(now):
            if self._store_waits.is_waiting((lease.worker, lease.epoch)) or self._store_waits.is_waiting(JOURNAL):
                self._deadlines.set(lease, now + (self.settings.trial_timeout_s or 0.0))  # no trial's own time
            else:
                self._take(TrialTimedOut(lease))
        if not self._is_stop_sent and (error := self._store_waits.answer_in_vain(now)):
            self._is_stop_sent = True
            self._take(StopRequested(f"{self._store_waits.vain}: {error}", "StoreError"))
            self.loop.call_later(_STOP_S, self._give_up)
        if not self._inbox:
            self._arm()

    def _give_up(self) -> None:
        for slot in self._state.pool.alive():
            self._take(WorkerLost(slot.worker, slot.epoch, "it did not stop in time"))

    async def _snapshot(self) -> None:
        self._snapshot_at = self._journal.last + self.settings.snapshot_every
        last = self._journal.last
        data = snapshot.encode(self._state, last)
        try:
            await self.loop.run_in_executor(self._files, save_snapshot, self._store, data, last, self._journal.last_crc)
        except Exception as error:
            _log.warning("Snapshot %d could not be saved; the journal is complete without it: %s", last, error)

    async def _shut_down(self) -> None:
        self._is_closing = True
        self._pump_task.cancel()
        if self.failure is None and self._store_waits.is_waiting(JOURNAL):
            self.failure = self._store_waits.final_error("the run was broken off")
        try:
            if self.failure is None:
                self._is_commit_due = True
                await self._process(self._inbox)
            if self._timer is not None:
                self._timer.cancel()
            if self._sharing is not None:
                if self.failure is None and not self._store_waits.is_waiting(FOLDER):
                    await self._sharing.close()
                else:
                    self._sharing.abandon()
            self.logs.close()
            if self.failure is None:
                self._journal.close()  # raises if it was removed meanwhile: nothing is written beside it then
                await self._snapshot()
        finally:
            self._deletions.close()
            for executor in (self._workers, self._files, self._disk):
                executor.shutdown(wait=True)
            self._journal.close()

    def _require_transport(self) -> Transport:
        assert self._transport is not None, "connect() comes before the first event"
        return self._transport


def _for_whom(stage: Stage) -> str:
    others = [trial_name(trial) for trial in stage.trials[1 : _NAMED + 1]]
    more = len(stage.trials) - 1 - len(others) + stage.more
    names = ", ".join(others) + (f" and {more} more" if more else "")
    end = "its end" if stage.stop is None else f"{stage.stop:,}"
    return f"units {stage.start:,} to {end} are trained for {names} too"

"""The driver: the one thread that owns ``StudyState``, passes events to it, and carries out its decisions.

    messages, losses, deadlines ──> inbox ──> handle ──> journal, one sync for all that is waiting
                                                                   │ durable
                                     acknowledgements, actions <───┘

Nothing polls: the thread sleeps until a message comes, somebody posts an event, or a deadline is due. ``incoming``
tells events from other messages, ``event_handling`` has them decided, ``commits`` writes the journal, ``dispatcher``
carries out actions, and ``timeouts`` holds the deadlines.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from asyncsearch.actions import AnyAction, EndRun
from asyncsearch.driver.alarms import IdleWorkers, RuleTimes
from asyncsearch.driver.commits import Commits, Follow, Snapshots
from asyncsearch.driver.deletions import CheckpointDeletions
from asyncsearch.driver.dispatcher import Dispatcher
from asyncsearch.driver.event_handling import EventHandling
from asyncsearch.driver.incoming import EventInbox, Incoming, TrueSizes
from asyncsearch.driver.logs import LogSink
from asyncsearch.driver.node_writers import NodeWriters
from asyncsearch.driver.promises import Promises
from asyncsearch.driver.questions import Answerer, Questions, Received, Settled
from asyncsearch.driver.store_waits import FOLDER, JOURNAL, StoreWaits
from asyncsearch.driver.threads import LoopThread
from asyncsearch.driver.timeouts import DriverSettings, Timeouts
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import StaleLeaseError, StoreError, StoreLostError, is_bug, may_pass
from asyncsearch.events import (
    AnyEvent,
    StopRequested,
    WorkerAttached,
    WorkerLost,
)
from asyncsearch.ids import WorkerId, worker_name
from asyncsearch.journal.writer import Journal
from asyncsearch.rpc.messages import DriverMessage, Heartbeat, Hello, Transport, TrialQuestion, WorkerMessage
from asyncsearch.shared.membership import FolderMembership
from asyncsearch.shared.pack_times import PackExchange, PackTimes
from asyncsearch.shared.session import SharingSession
from asyncsearch.store.base_store import Store

_log = logging.getLogger(__name__)


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
        launches_at_once: int | None = None,
        changed: Callable[[], None] = lambda: None,
        settings: DriverSettings | None = None,
        shared: FolderMembership | None = None,
        pack_times: Sequence[PackTimes] = (),
        follow: Follow | None = None,
        answerer: Answerer | None = None,
        writers: NodeWriters | None = None,
        secret: bytes = b"",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Take over a state, which no other code may change from now on.

        Args:
            launch: starts a worker; called in a thread of its own, may block.
            kill: ends a worker that counts as lost; likewise.
            launches_at_once: how many workers may be starting, from 1, until one has attached; None for any number.
            shared: the folder in which the study's checkpoints are, if it shares them with others.
            pack_times: where studies of the same code keep how fast packs train.
            changed: called in the driver's thread after each change that a display may show.
            follow: called in the driver's thread with each record of this driver.
            answerer: answers the questions of trials, in a thread of its own. None means they have none to ask.
            writers: notes what trainings may leave in the store, for the end of the run.
            secret: of which the keys are made that seal these questions.
            clock: seconds since 1970.
        """
        self.outcome: EndRun | None = None
        """How the run ended; None while it has not."""
        self.failure: BaseException | None = None
        """The error that broke the driver itself: a journal that cannot be written, or a bug."""
        self.answers_failure: BaseException | None = None
        """What the answerer raised; the run ends in order then."""
        self.ended = threading.Event()
        self._thread = LoopThread("asyncsearch-driver")
        self.loop = self._thread.loop
        settings = settings or DriverSettings()
        self._state, self._journal = state, journal
        self._changed = changed
        self._inbox = EventInbox()
        self._waits = StoreWaits(store.shown, settings.store_timeout_s, lambda: state.voices)
        self._snapshots = Snapshots(state, journal, store, settings.snapshot_every, self._waits.say)
        self._files = ThreadPoolExecutor(1, "asyncsearch-files")
        self._sizes = TrueSizes(state, store, settings.store_silent_s)
        self._packs = PackExchange(state, pack_times, self._files)
        self.logs = LogSink(store, self.loop, say=self._waits.say)
        self._answerer, self._followed = answerer, follow
        self._questions = Questions(
            state,
            answerer,
            secret,
            self.loop,
            post=self._inbox.put,
            send=self._send,
            say=self._waits.say,
            fail=self._fail_by_answerer,
        )
        self._timeouts = Timeouts(state, self._waits, settings, self.loop, post=self._take, changed=changed)
        self._rules = RuleTimes(state, clock, self.loop, post=self._take)
        self._idle = IdleWorkers(state, settings.release_idle_s, self.loop, post=self._take)
        checkpoints = store if shared is None else shared.store
        self._promises = Promises(state, checkpoints, self._waits, settings, self.loop, post=self._take)
        self._commits = Commits(
            journal,
            state,
            self._waits,
            self._timeouts,
            self.loop,
            wake=self._inbox.wake,
            requested_stop=self._inbox.requested_stop,
            silent_s=settings.store_silent_s,
            follow=self._follow if answerer is not None else follow,
        )
        self._dispatcher = Dispatcher(
            self._timeouts,
            self.logs,
            launch=launch,
            kill=kill,
            post=self._take,
            lost=self.lost,
            end=self._end,
            call_later=self.loop.call_later,
            launches_at_once=launches_at_once,
        )
        self._sharing: SharingSession | None = None
        if shared is not None:
            self._sharing = SharingSession(
                shared,
                state,
                self.loop,
                post=self._take,
                send=self._dispatcher.send,
                fail=self._fail,
                waits=lambda error: self._timeouts.note_outage(FOLDER, error),
            )
        self._deletions = CheckpointDeletions(state, store, self.loop, self._dispatcher.send, writers or NodeWriters())
        self._dispatcher.admission = self._sharing or self._deletions
        self._incoming = Incoming(state, self._dispatcher, self._timeouts, self.logs)
        self._events = EventHandling(
            state,
            clock,
            self._incoming,
            self._sizes,
            self._commits,
            self._dispatcher,
            self._timeouts,
            self._promises,
            self._packs,
            self._sharing,
            self._waits.say,
        )
        self._pumping: asyncio.Task[None] | None = None
        """The loop's task for ``_pump``. None before it has begun."""
        self._thread.start()
        self._pump_task = asyncio.run_coroutine_threadsafe(self._pump(), self.loop)

    def connect(self, transport: Transport) -> None:
        """Set how messages reach the workers; call it before any of them can attach."""
        self.loop.call_soon_threadsafe(self._dispatcher.connect, transport)

    def post(self, event: AnyEvent) -> None:
        """Pass an event to the engine."""
        self.loop.call_soon_threadsafe(self._take, event)

    @property
    def notices(self) -> deque[str]:
        """Sentences for the user, to take from the left; any thread may take them."""
        return self._waits.notices

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
        self.loop.call_soon_threadsafe(lambda: self.loop.call_later(seconds, self._timeouts.give_up))

    def close(self) -> None:
        """Write all pending records, save a snapshot, and end the thread. The state belongs to the caller again."""
        self._thread.close_after(self._shut_down())

    # The loop's thread, from here on.

    def attached(self, hello: Hello, peer: str) -> None:
        """See ``rpc.server.Handler``."""
        if not self._state.pool.is_current(hello.worker, hello.epoch):
            raise StaleLeaseError(
                f"Launch {hello.epoch} of {worker_name(hello.worker)} is over: "
                "it was silent too long, was replaced, or the run ended."
            )
        self._dispatcher.attached((hello.worker, hello.epoch))
        self._timeouts.seen((hello.worker, hello.epoch))
        # Before the worker, whose first work is packed by these times.
        for timed in self._packs.known_on(hello.device):
            self._take(timed)
        self._take(WorkerAttached(hello.worker, hello.epoch, hello.host, hello.pid))

    def _attached_here(self, hello: Hello) -> None:
        with contextlib.suppress(StaleLeaseError):  # the run was stopped before; ``kill`` has told it
            self.attached(hello, "this process")

    def received(self, worker: WorkerId, epoch: int, number: int, message: WorkerMessage) -> None:
        """See ``rpc.server.Handler``."""
        self._timeouts.seen((worker, epoch))
        if isinstance(message, Heartbeat):
            return
        received = Received(worker, epoch, number, message)
        if isinstance(message, TrialQuestion):
            # Before what waits behind the journal: the trial trains on only once it is answered.
            reason = self._questions.take(received, message)
            if reason is None:
                return
            if reason:
                self._incoming.end_lease((worker, epoch), message.lease, reason)
        if not self._questions.holds(received):
            self._inbox.put(received)

    def detached(self, worker: WorkerId, epoch: int) -> None:
        """A broken stream means nothing yet: the worker may attach again before its lease times out."""

    def _take(self, event: AnyEvent) -> None:
        # What a lost worker had said counts. While the run is ended, nobody's answer is waited for.
        if isinstance(event, WorkerLost) and not self._state.stopping and self._questions.holds(event):
            return
        self._inbox.put(event)
        if isinstance(event, StopRequested):
            self._waits.changed.set()

    async def _pump(self) -> None:
        self._pumping = asyncio.current_task()
        try:
            while True:
                await self._process(await self._inbox.next())
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._fail(error)

    async def _process(self, batch: Sequence[AnyEvent | Received | Settled]) -> None:
        await self._events.handle_all(batch, self._inbox)
        is_snapshot_due = self._snapshots.is_due
        # A snapshot that is ahead of the journal could not be opened: its records would be missing.
        if self._commits.is_due or is_snapshot_due:
            await self._events.commit()
            self._questions.durable()
        else:
            self._commits.delay()
        self._timeouts.arm()
        self._idle.observe()
        self._rules.observe()
        if is_snapshot_due:
            self._snapshots.begin(self._files)
        self._changed()

    def _send(self, worker: WorkerId, epoch: int, message: DriverMessage) -> None:
        self._dispatcher.transport.send(worker, epoch, message)

    def _follow(self, now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        if self._followed is not None:
            self._followed(now, event, actions)
        self._questions.follow(event, actions)

    def _fail_by_answerer(self, error: BaseException) -> None:
        """End the run in order, since nobody answers any more, and let it raise the error."""
        self.answers_failure = self.answers_failure or error
        self._take(StopRequested(f"a question of a trial could not be answered: {type(error).__name__}: {error}"))

    def _end(self, action: EndRun) -> None:
        self.outcome = action
        self.ended.set()

    @property
    def _has_waited_in_vain(self) -> bool:
        """Whether the run has ended because its store could not be used, which its end says better than each error."""
        return self.outcome is not None and self.outcome.error_kind == "StoreError"

    def _fail(self, error: BaseException) -> None:
        if self._has_waited_in_vain and may_pass(error):
            return
        is_missed = not isinstance(error, StoreLostError) or error.is_missed
        _log.log(
            logging.ERROR if is_missed else logging.DEBUG,
            "The driver of the study stops: it must not act on a decision that it cannot make durable.",
            exc_info=error if is_bug(error) else None,  # ``run`` raises it
        )
        self._pump_task.cancel()
        self.failure = self.failure or error
        if isinstance(error, StoreError):
            self._dispatcher.dismiss_all()
        self.ended.set()
        self._changed()

    async def _shut_down(self) -> None:
        self._commits.is_closing = True
        self._pump_task.cancel()
        if self._pumping is not None:
            # What it was looking at goes back into the inbox only when the task ends, and would be lost after that.
            await asyncio.wait([self._pumping])
        if self.failure is None and self._waits.is_waiting(JOURNAL):
            self.failure = self._waits.final_error("the run was broken off")
        try:
            await asyncio.to_thread(self._questions.close)  # what it still has to say goes into the journal
            if self.failure is None:
                await self._process(self._inbox.take())
                await self._events.commit()
            self._timeouts.close()
            self._idle.close()
            self._rules.close()
            self._promises.close()
            if self._sharing is not None:
                if self.failure is None and not self._waits.is_waiting(FOLDER):
                    await self._sharing.close()
                else:
                    self._sharing.abandon()
            await self.logs.close()
            if self.failure is None:
                await self._snapshots.save(self._files)
        finally:
            await self.logs.close()
            self._deletions.close()
            self._dispatcher.close()
            self._files.shutdown(wait=True)
            self._sizes.close()
            self._commits.close()
            if not self._commits.is_silent:  # else it would hang as the write does
                self._journal.close()  # the last act on the store: it raises if the journal was removed until now

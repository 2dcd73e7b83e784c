"""Makes records durable, one sync for all that are waiting, and gives back the actions that waited for them.

Law: an event and its decisions are in the journal before its message is acknowledged or a decision is carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import NamedTuple

from asyncsearch.actions import AnyAction
from asyncsearch.driver.store_waits import JOURNAL, SILENT, StoreWaits, Worker
from asyncsearch.driver.timeouts import STOP_S, Timeouts
from asyncsearch.engine import snapshot
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import may_pass
from asyncsearch.events import AnyEvent
from asyncsearch.journal.opening import save_snapshot
from asyncsearch.journal.writer import Journal
from asyncsearch.rpc.messages import Judged, TrialAnswer
from asyncsearch.store.base_store import Store

_DELAY_S = 0.02
"""How long records without a decision wait for others to be synced with: only their acknowledgement waits, and a sync,
with its two changes of threads, costs as much as handling several reports."""


Follow = Callable[[float, AnyEvent, Sequence[AnyAction]], None]
"""Takes the time, the event and the actions of a record."""


class Durable(NamedTuple):
    """The acknowledgements and actions that are in the journal, and so may be sent."""

    acknowledged: dict[Worker, int]
    """Highest number of each worker's messages to acknowledge."""
    actions: list[AnyAction]
    answers: list[tuple[Worker, Judged | TrialAnswer]]
    """Answers to reports that trials await, to be sent after the actions."""


class Commits:
    """The records that are not in the journal yet. Called in the driver's thread; another one writes."""

    def __init__(
        self,
        journal: Journal,
        state: StudyState,
        waits: StoreWaits,
        timeouts: Timeouts,
        loop: asyncio.AbstractEventLoop,
        *,
        wake: Callable[[], None],
        requested_stop: Callable[[], str],
        silent_s: float,
        follow: Follow | None,
    ) -> None:
        """Begin without records.

        Args:
            journal: written by nobody else.
            state: the study's state, for reading only.
            waits: the state of a store that cannot be used.
            timeouts: told when the journal begins and ceases to wait.
            loop: the driver's loop.
            wake: called when records have waited long enough for others.
            requested_stop: returns the reason of a stop that waits behind the journal, or an empty text.
            silent_s: seconds after which a write counts as one that hangs.
            follow: called with each record, while it is being written.
        """
        self._journal, self._state, self._waits, self._timeouts, self._loop = journal, state, waits, timeouts, loop
        self._wake, self._requested_stop, self._silent_s = wake, requested_stop, silent_s
        self._follow = follow
        self._unfollowed: list[tuple[float, AnyEvent, Sequence[AnyAction]]] = []
        self._lines: list[bytes] = []
        """Records that are not in the journal yet; their consequences wait in the next two."""
        self._unacknowledged: dict[Worker, int] = {}
        self._actions: list[AnyAction] = []
        self._answers: list[tuple[Worker, Judged | TrialAnswer]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = False
        self._disk = ThreadPoolExecutor(1, "asyncsearch-journal")
        self.is_silent = False
        """Whether a write was given up that hangs in the thread, as on a network disk whose server is away."""
        self.is_closing = False
        """Whether the driver ends: then the journal is not waited for."""

    def receive(self, worker: Worker, number: int) -> None:
        """Note a message, to be acknowledged with the records."""
        self._unacknowledged[worker] = number

    def answer(self, worker: Worker, answer: Judged | TrialAnswer) -> None:
        """Note that a trial awaits what is decided by a report, or an answer that must not be lost."""
        self._answers.append((worker, answer))

    def add(self, event: AnyEvent, actions: Sequence[AnyAction], now: float) -> None:
        """Add the record of an event."""
        self._lines.append(self._journal.encode(event, actions, now))
        self._actions.extend(actions)
        if self._follow is not None:
            self._unfollowed.append((now, event, actions))

    @property
    def is_due(self) -> bool:
        """Whether to commit now: a decision waits for it, or records have waited long enough."""
        return bool(self._actions or self._answers) or not self._lines or self._is_due

    def delay(self) -> None:
        """Let the records wait for others; ``wake`` is called when they have waited long enough."""
        if self._timer is None:
            self._timer = self._loop.call_later(_DELAY_S, self._wait_no_longer)

    async def commit(self) -> Durable:
        """Write all records; return, once they are durable, the actions that waited for them.

        Raises:
            StoreError: the journal cannot be written.
        """
        lines, durable = self._lines, Durable(self._unacknowledged, self._actions, self._answers)
        # Before the write is awaited: records that come meanwhile belong to the next sync, with their consequences.
        self._lines, self._unacknowledged, self._actions, self._answers, self._is_due = [], {}, [], [], False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if lines:
            await self._append(b"".join(lines))
        return durable

    def close(self) -> None:
        """End the thread."""
        self._disk.shutdown(wait=not self.is_silent)  # a write that hangs would keep this process for ever

    def _wait_no_longer(self) -> None:
        self._timer = None
        self._is_due = True
        self._wake()

    async def _append(self, lines: bytes) -> None:
        """Make lines durable; while the journal cannot be written, try again, as long as the run waits for its store.

        Raises:
            StoreError: the run waits no longer, or waiting is of no use.
        """
        began = self._loop.time()
        while True:
            try:
                writing = self._loop.run_in_executor(self._disk, self._journal.append, lines)
                self._follow_on()
                await self._answer(writing, began)
                break
            except Exception as error:
                if not may_pass(error) or self.is_closing or self.is_silent:
                    raise
                self._timeouts.note_outage(JOURNAL, str(error))
                reason = self._reason_to_give_up(began)
                if reason:
                    raise self._waits.final_error(reason, error) from error
                await self._next_try()
        if self._waits.is_waiting(JOURNAL):
            self._timeouts.note_outage(JOURNAL, "")

    def _follow_on(self) -> None:
        """Pass on the records, now that this thread would only wait for the disk: no decision waits for it."""
        records, self._unfollowed = self._unfollowed, []
        if self._follow is not None:
            for record in records:
                self._follow(*record)

    async def _answer(self, writing: asyncio.Future[None], began: float) -> None:
        """Wait for a write, for a store that does not answer only as long as the run waits for its store.

        Raises:
            Exception: of the write.
            StoreError: the run waits no longer.
        """
        silent_s = self._silent_s
        while not (await asyncio.wait((writing,), timeout=silent_s))[0]:
            self._timeouts.note_outage(JOURNAL, SILENT)
            reason = self._reason_to_give_up(began) or ("the run has ended" if self.is_closing else "")
            if reason:
                self.is_silent = True
                raise self._waits.final_error(reason, SILENT)
            silent_s = self._waits.next_try_s()
        await writing

    def _reason_to_give_up(self, began: float) -> str:
        """Return why a write that began at a time is not tried again; empty if it is."""
        now = self._loop.time()
        if self._waits.answer_in_vain(now):
            return self._waits.vain
        if self._timeouts.is_stop_sent or (self._state.stopping and now > began + STOP_S):
            return self._state.stopping
        return self._requested_stop()

    async def _next_try(self) -> None:
        """Wait until the journal is to be written again, or something has changed."""
        self._waits.changed.clear()
        timer = self._loop.call_later(self._waits.next_try_s(), self._waits.changed.set)
        try:
            await self._waits.changed.wait()
        finally:
            timer.cancel()


_log = logging.getLogger(__name__)
_NOTE_AFTER_S = 2.0


class Snapshots:
    """Saves snapshots of a study's state; called in the driver's thread, between two events."""

    def __init__(
        self, state: StudyState, journal: Journal, store: Store, every: int, say: Callable[[str], None] = _log.warning
    ) -> None:
        """Begin; ``every`` is the number of records between two snapshots, and ``say`` takes sentences for the user."""
        self._say = say
        self._state, self._journal, self._store, self._every = state, journal, store, every
        self._due_at = journal.last + every
        self._saving: Future[None] | None = None
        """The snapshot that is being saved, or was saved last."""

    @property
    def is_due(self) -> bool:
        """Whether enough records were encoded since the last snapshot, and none is being saved."""
        return self._journal.last >= self._due_at and (self._saving is None or self._saving.done())

    def begin(self, files: Executor) -> None:
        """Begin to save a snapshot, by a thread of an executor. All records must be durable; nothing waits for it.

        In a store without the journal nothing is saved: it would make the folder of a store that was removed anew.
        """
        last, crc = self._journal.last, self._journal.last_crc
        self._due_at = last + self._every
        data = snapshot.encode(self._state, last)
        self._saving = files.submit(self._save, data, last, crc)

    async def save(self, files: Executor) -> None:
        """Save the last snapshot of a run and wait for it, behind one that is being saved; say so if it takes long."""
        self.begin(files)
        assert self._saving is not None
        saving = asyncio.wrap_future(self._saving)
        if not (await asyncio.wait([saving], timeout=_NOTE_AFTER_S))[0]:
            self._say(f"The run is over; a snapshot of it is being saved in {self._store.shown} ...")
            await saving

    def _save(self, data: bytes, last: int, crc: str) -> None:
        try:
            if self._journal.is_in_place():
                save_snapshot(self._store, data, last, crc)
        except Exception as error:
            _log.warning("Snapshot %d could not be saved; the journal is complete without it: %s", last, error)

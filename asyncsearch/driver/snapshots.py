"""When a snapshot of the state is due, and saving it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future

from asyncsearch.engine import snapshot
from asyncsearch.engine.state import StudyState
from asyncsearch.journal.opening import save_snapshot
from asyncsearch.journal.writer import Journal
from asyncsearch.store.base_store import Store

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

"""When a snapshot of the state is due, and saving it."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor

from asyncsearch.engine import snapshot
from asyncsearch.engine.state import StudyState
from asyncsearch.journal.opening import save_snapshot
from asyncsearch.journal.writer import Journal
from asyncsearch.store.base_store import Store

_log = logging.getLogger(__name__)


class Snapshots:
    """Saves snapshots of a study's state; called in the driver's thread, between two events."""

    def __init__(self, state: StudyState, journal: Journal, store: Store, every: int) -> None:
        """Begin; ``every`` is the number of records between two snapshots."""
        self._state, self._journal, self._store, self._every = state, journal, store, every
        self._due_at = journal.last + every

    @property
    def is_due(self) -> bool:
        """Whether enough records were encoded since the last snapshot."""
        return self._journal.last >= self._due_at

    async def save(self, files: Executor) -> None:
        """Save a snapshot, by a thread of an executor. All records must be durable; a failure is only noted.

        In a store without the journal nothing is saved: it would make the folder of a store that was removed anew.
        """
        last, crc = self._journal.last, self._journal.last_crc
        self._due_at = last + self._every
        data = snapshot.encode(self._state, last)
        try:
            await asyncio.get_running_loop().run_in_executor(files, self._save, data, last, crc)
        except Exception as error:
            _log.warning("Snapshot %d could not be saved; the journal is complete without it: %s", last, error)

    def _save(self, data: bytes, last: int, crc: str) -> None:
        if self._journal.is_in_place():
            save_snapshot(self._store, data, last, crc)

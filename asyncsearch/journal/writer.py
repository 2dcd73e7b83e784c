"""The open journal of a driver: numbers records and makes them durable in the store."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from asyncsearch._version import __version__
from asyncsearch.actions import AnyAction
from asyncsearch.errors import StoreLostError
from asyncsearch.events import AnyEvent
from asyncsearch.journal.format import FORMAT, Header, encode_header, encode_record
from asyncsearch.store.base_store import Segment, Store


class Journal:
    """Writes the records of one driver into one new segment, and into a further one after each write that failed.

    Two threads may call ``encode`` and ``append``.
    """

    def __init__(self, store: Store, study: str, last: int) -> None:
        """Begin a segment after record number ``last``."""
        self.last = last
        """Number of the last record encoded."""
        self._store, self._study = store, study
        self._durable = last
        """Number of the last durable record."""
        self._name = ""
        """Name of the last segment."""
        self._segment: Segment | None = self._begin()

    def encode(self, event: AnyEvent, actions: Sequence[AnyAction], now: float) -> bytes:
        """Return the next record's line."""
        self.last += 1
        return encode_record(self.last, now, event, actions)

    def append(self, lines: bytes) -> None:
        """Write lines, and return when they are durable: one sync for all of them.

        Raises:
            StoreError: they may be durable or not, also in part. Call it with the same lines again, and with no others.
        """
        if self._segment is None:
            self._segment = self._begin()
        try:
            self._segment.append(lines)
        except BaseException:
            self._segment = None  # its end is unknown: the next line could be appended to half a line
            raise
        self._durable += lines.count(b"\n")

    def close(self) -> None:
        """Close the segment."""
        if self._segment is not None:
            self._segment.close()

    def _begin(self) -> Segment:
        if self._name and self._name not in self._store.journal_segments():
            raise StoreLostError(
                f"The journal of the study in {self._store.shown!r} was removed while it was written: {self._name!r} "
                "is gone. Restore the folder 'journal' from a backup, or start a new study."
            )
        segment = self._store.open_segment()
        try:
            segment.append(encode_header(Header(FORMAT, self._study, self._durable + 1, __version__)))
        except BaseException:
            with contextlib.suppress(Exception):  # else each try leaves an empty segment
                self._store.remove_tree(f"journal/{segment.name}")
            raise
        self._name = segment.name
        return segment

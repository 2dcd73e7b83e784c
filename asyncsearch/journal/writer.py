"""The open journal of a driver: numbers records and makes them durable in the store."""

from __future__ import annotations

from collections.abc import Sequence

from asyncsearch._version import __version__
from asyncsearch.actions import AnyAction
from asyncsearch.events import AnyEvent
from asyncsearch.journal.format import FORMAT, Header, encode_header, encode_record
from asyncsearch.store.base_store import Segment, Store


class Journal:
    """Writes the records of one driver into one new segment. Two threads may call ``encode`` and ``append``."""

    def __init__(self, store: Store, study: str, last: int) -> None:
        """Begin a segment after record number ``last``."""
        self.last = last
        """Number of the last record encoded."""
        self._segment: Segment = store.open_segment()
        self._segment.append(encode_header(Header(FORMAT, study, last + 1, __version__)))

    def encode(self, event: AnyEvent, actions: Sequence[AnyAction], now: float) -> bytes:
        """Return the next record's line."""
        self.last += 1
        return encode_record(self.last, now, event, actions)

    def append(self, lines: bytes) -> None:
        """Write lines, and return when they are durable: one sync for all of them."""
        self._segment.append(lines)

    def close(self) -> None:
        """Close the segment."""
        self._segment.close()

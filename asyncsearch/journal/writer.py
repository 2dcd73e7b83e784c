"""The open journal of a driver: numbers records and makes them durable in the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from asyncsearch._version import __version__
from asyncsearch.actions import AnyAction
from asyncsearch.errors import StoreError
from asyncsearch.events import AnyEvent
from asyncsearch.journal.format import FORMAT, Header, encode_header, encode_record
from asyncsearch.journal.head import encode_head, head_of
from asyncsearch.journal.sealing import checksum_of
from asyncsearch.store.base_store import Segment, Store

_log = logging.getLogger(__name__)


class Journal:
    """Writes the records of one driver into one new segment. Two threads may call ``encode`` and ``append``."""

    def __init__(self, store: Store, study: str, last: int) -> None:
        """Begin a segment after record number ``last``."""
        self.last = last
        """Number of the last record encoded."""
        self.last_crc = ""
        """Its checksum; empty while none was encoded here."""
        self._segment: Segment = store.open_segment()
        self._head = store.open_head()
        self._is_head_refused = False
        self._segment.append(encode_header(Header(FORMAT, study, last + 1, __version__, cuts=True)))

    def encode(self, event: AnyEvent, actions: Sequence[AnyAction], now: float) -> bytes:
        """Return the next record's line."""
        self.last += 1
        line = encode_record(self.last, now, event, actions)
        self.last_crc = checksum_of(line)
        return line

    def append(self, lines: bytes) -> None:
        """Write lines, and return when they are durable: one sync for all of them."""
        self._segment.append(lines)
        data = encode_head(head_of(lines, self._segment.name))
        self._try_head(lambda: self._head.note(data))

    def close(self) -> None:
        """Close the segment.

        Raises:
            StoreLostError: it was removed or replaced since the last append.
        """
        try:
            self._segment.close()
        finally:
            self._try_head(self._head.close)

    def _try_head(self, action: Callable[[], None]) -> None:
        try:
            action()
        except StoreError as error:  # the records are durable without it
            if not self._is_head_refused:
                _log.warning("A missing end of the journal could not be noticed later: %s", error)
            self._is_head_refused = True

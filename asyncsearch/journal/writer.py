"""The open journal of a driver: numbers records and makes them durable in the store."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from asyncsearch._version import __version__
from asyncsearch.actions import AnyAction
from asyncsearch.errors import StoreError
from asyncsearch.events import AnyEvent
from asyncsearch.journal.format import FORMAT, Header, encode_header, encode_record
from asyncsearch.journal.head import Head, encode_head, head_of
from asyncsearch.journal.sealing import checksum_of
from asyncsearch.store.base_store import Segment, Store

_HEAD_INTERVAL_S = 10.0
"""How often the head is written to a store where that costs as much as an append."""

_log = logging.getLogger(__name__)


class Journal:
    """Writes the records of one driver into one new segment. Two threads may call ``encode`` and ``append``."""

    def __init__(self, store: Store, study: str, last: int) -> None:
        """Begin a segment after record number ``last``."""
        self.last = last
        """Number of the last record encoded."""
        self.last_crc = ""
        """Its checksum; empty while none was encoded here."""
        self._store = store
        self._segment: Segment = store.open_segment()
        self._head: Head | None = None
        """What is durable and not noted in the head yet."""
        self._head_due_s = 0.0
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
        self._head = head_of(lines, self._segment.name)
        if self._store.has_cheap_head or time.monotonic() >= self._head_due_s:
            self._note_head()

    def close(self) -> None:
        """Close the segment.

        Raises:
            StoreLostError: it was removed or replaced since the last append.
        """
        self._segment.close()
        self._note_head(is_last=True)

    def _note_head(self, is_last: bool = False) -> None:
        head, self._head = self._head, None
        if head is None:
            return
        self._head_due_s = time.monotonic() + _HEAD_INTERVAL_S
        try:
            self._store.note_head(encode_head(head), is_last=is_last)
        except StoreError as error:  # the records are durable without it
            if not self._is_head_refused:
                _log.warning("A missing end of the journal would not be noticed: %s", error)
            self._is_head_refused = True

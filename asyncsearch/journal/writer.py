"""The open journal of a driver: numbers records and makes them durable in the store."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence

from asyncsearch._version import __version__
from asyncsearch.actions import AnyAction
from asyncsearch.errors import SegmentOverError, StoreError, StoreLostError
from asyncsearch.events import AnyEvent
from asyncsearch.journal.format import FORMAT, Header, encode_header, encode_record
from asyncsearch.journal.head import checksum_of, encode_head, head_of
from asyncsearch.store.base_store import Store
from asyncsearch.store.open_files import Segment

_log = logging.getLogger(__name__)


_SHORT_SEGMENTS = 3
"""Segments that may be over before they have taken a record: a slow store needs longer for the first lines of one than
it stays open, which is no failure."""


class Journal:
    """Writes the records of one driver into one new segment, and into a further one after each that takes no more.

    Two threads may call ``encode`` and ``append``.
    """

    def __init__(self, store: Store, study: str, last: int) -> None:
        """Begin a segment after record number ``last``."""
        self.last = last
        """Number of the last record encoded."""
        self.last_crc = ""
        """Its checksum; empty while none was encoded here."""
        self._store, self._study = store, study
        self._durable = last
        """Number of the last durable record."""
        self._segment: Segment = store.open_segment()
        self._has_failed = False
        """Whether a write into the segment failed, so that its end is unknown."""
        self._head = store.open_head()
        self._is_head_refused = False
        self._segment.append(self._header())

    def encode(self, event: AnyEvent, actions: Sequence[AnyAction], now: float) -> bytes:
        self.last += 1
        line = encode_record(self.last, now, event, actions)
        self.last_crc = checksum_of(line)
        return line

    def append(self, lines: bytes) -> None:
        """Write lines, and return when they are durable: one sync for all of them.

        Raises:
            StoreError: they may be durable or not, also in part. Call it with the same lines again, and with no others.
        """
        if self._has_failed:
            self._begin_anew()
        try:
            self._write(lines)
        except BaseException:
            self._has_failed = True
            raise
        # Only after the sync: with a head that names a record which a crash then loses, a sound journal counts as cut.
        self._durable += lines.count(b"\n")
        data = encode_head(head_of(lines, self._segment.name))
        self._try_head(lambda: self._head.note(data))

    def is_in_place(self) -> bool:
        """Return whether the store still lists the segment; if not, its folder was removed, moved or replaced.

        Raises:
            StoreError: the store cannot be read.
        """
        return self._segment.name in self._store.journal_segments()

    def close(self) -> None:
        """Close the segment, the last file of the journal that is closed.

        Raises:
            StoreLostError: it was removed or replaced since the last append.
        """
        try:
            self._try_head(self._head.close)
        finally:
            self._segment.close()

    def _write(self, lines: bytes) -> None:
        for _ in range(_SHORT_SEGMENTS):
            with contextlib.suppress(SegmentOverError):
                self._segment.append(lines)
                return
            with contextlib.suppress(SegmentOverError):
                self._begin_anew()
        self._segment.append(lines)

    def _header(self) -> bytes:
        return encode_header(Header(FORMAT, self._study, self._durable + 1, __version__, cuts=True, head=True))

    def _begin_anew(self) -> None:
        """Go on in a new segment: the former one is over, or the next line could be appended to half a line.

        Raises:
            StoreLostError: the former segment was removed meanwhile.
        """
        segment = self._store.open_segment()
        try:
            segment.append(self._header())
            if self._has_failed:
                self._segment.close()  # not before there is another one: it can still be rescued
            if not self.is_in_place():
                raise StoreLostError(
                    f"The journal of the study in {self._store.shown!r} was removed while it was written: "
                    f"{self._segment.name!r} is gone. Restore the folder 'journal' from a backup, or start a new study."
                )
        except BaseException:
            with contextlib.suppress(Exception):  # before it is removed, which would count as a loss
                segment.close()
            with contextlib.suppress(Exception):  # else each try leaves an empty segment
                self._store.remove_tree(f"journal/{segment.name}")
            raise
        self._segment, self._has_failed = segment, False

    def _try_head(self, action: Callable[[], None]) -> None:
        try:
            action()
        except StoreError as error:  # the records are durable without it
            if not self._is_head_refused:
                _log.warning("A missing end of the journal could not be noticed later: %s", error)
            self._is_head_refused = True

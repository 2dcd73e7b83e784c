"""Writing the logs of all trials: one append an interval, whatever their number, and nothing is written twice.

Where a file system appends, blocks are appended to the open segment of the driver, which is closed with its index when
it is long, and, where only closed files can be read, every now and then. Where it cannot, each block is a segment.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence

from asyncsearch.store import layout
from asyncsearch.store.logs import segment_format as form
from asyncsearch.store.open_files import LogFile, LogStore

MOST_BYTES = 64 << 20
"""Length at which a segment is closed."""
MOST_PARTS = 50_000
"""Number of parts in its index at which it is closed: the driver holds them."""
_SHARE = 0.01
"""Share of the time since the beginning after which a segment is closed: a search of ten hours has some 500."""
_LEAST_S = 5.0
"""Least time between two segments of one block each."""


class LogWriter:
    """Appends the lines of all trials of one driver. One thread at a time calls it."""

    def __init__(self, store: LogStore, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without a segment: what nobody prints makes no file.

        Args:
            store: of the study.
            clock: seconds, which never go back.
        """
        self._store, self._clock = store, clock
        self._driver = form.new_driver()
        self._began_s = clock()
        self._number = 0
        """Of the last block."""
        self._unsure: dict[str, bytes] | None = None
        """The last block, if it is unknown whether it was written."""
        self._segment = 0
        self._file: LogFile | None = None
        self._size_bytes = 0
        self._close_s = math.inf
        self._index: dict[str, list[form.LogPart]] = {}
        self._parts = 0
        """Number of parts in the index."""
        self.stored_bytes = 0
        """Size of all segments of the study, those of earlier drivers included; known once one was begun."""

    @property
    def interval_s(self) -> float:
        """Seconds for which lines should be collected now before they are written."""
        interval_s = self._store.log_interval_s
        return interval_s if self._store.log_appends else max(interval_s, _LEAST_S, self._share_s)

    @property
    def due_in_s(self) -> float:
        """Seconds until the open segment is to be closed; infinite if there is none, or it may stay open."""
        return self._close_s - self._clock()

    @property
    def _share_s(self) -> float:
        return _SHARE * (self._clock() - self._began_s)

    def write(self, lines: Mapping[str, Sequence[str]]) -> None:
        """Write a block, and return when it is durable.

        Raises:
            StoreError: it was not written, or it is unknown whether it was. It is kept for ``write_again``.
        """
        assert self._unsure is None, "a block was not written yet: write_again()"
        if block := {name: text_of(ones) for name, ones in lines.items() if ones}:
            self._number += 1
            self._write(block)

    def write_again(self) -> None:
        """Write the block, if any, of which it is unknown whether it was written.

        Raises:
            StoreError: see ``write``.
        """
        if self._unsure is not None:
            self._write(self._unsure)

    def close_if_due(self) -> None:
        """Close the open segment if its time has come, so that others can read it.

        Raises:
            StoreError: it was not closed; its blocks are durable.
        """
        if self._clock() >= self._close_s:
            self._finish(b"")

    def close(self) -> None:
        """Close the open segment.

        Raises:
            StoreError: see ``close_if_due``.
        """
        if self._file is not None:
            self._finish(b"")

    def _write(self, block: dict[str, bytes]) -> None:
        # Until it is known to be written: a block that is written twice has one number, and is read once.
        self._unsure = block
        data, parts = form.encode_block(self._number, block)
        if not self._store.log_appends:
            self._write_whole(data, parts)
        else:
            try:
                self._append(data, parts)
            except BaseException:
                self._give_up()
                raise
        self._unsure = None

    def _append(self, data: bytes, parts: Mapping[str, form.LogPart]) -> None:
        head = b""
        if self._file is None:
            self._file = self._begun()
            head = form.encode_head(self._driver)
            self._size_bytes = 0
            self._close_s = self._clock() + max(self._store.log_open_s, self._share_s)
        start = self._size_bytes + len(head)
        self._note(parts, start)
        is_long = start + len(data) >= MOST_BYTES or self._parts >= MOST_PARTS
        if is_long or self._clock() >= self._close_s:
            self._finish(head + data)  # not synced first: to close it makes it durable
            return
        self._file.append(head + data)
        self._size_bytes = start + len(data)
        self.stored_bytes += len(head) + len(data)

    def _write_whole(self, data: bytes, parts: Mapping[str, form.LogPart]) -> None:
        head = form.encode_head(self._driver)
        self._index, self._parts = {}, 0
        self._note(parts, len(head))
        whole = head + data + form.encode_end(self._driver, self._index, len(head) + len(data))
        self._next_number()
        while not self._store.create(layout.log_segment(self._segment), whole):
            self._segment += 1
        self.stored_bytes += len(whole)

    def _begun(self) -> LogFile:
        self._index, self._parts = {}, 0
        self._next_number()
        while (file := self._store.begin_log(layout.log_segment(self._segment))) is None:
            self._segment += 1
        return file

    def _next_number(self) -> None:
        if not self._segment:
            found = self._store.walk(layout.LOG_SEGMENTS)
            self._segment = max(layout.log_segment_numbers(found), default=0)
            self.stored_bytes = sum(file.size_bytes for file in found.values())
        self._segment += 1

    def _note(self, parts: Mapping[str, form.LogPart], start: int) -> None:
        self._parts += len(parts)
        for name, part in parts.items():
            self._index.setdefault(name, []).append(part._replace(start=start + part.start))

    def _finish(self, data: bytes) -> None:
        """Write the last block, if it is not empty, and the index, and close the segment."""
        assert self._file is not None
        file, self._file, self._close_s = self._file, None, math.inf
        end = form.encode_end(self._driver, self._index, self._size_bytes + len(data)) if self._index else b""
        try:
            file.finish(data + end)
        except BaseException:
            file.give_up()
            raise
        self.stored_bytes += len(data) + len(end)

    def _give_up(self) -> None:
        file, self._file, self._close_s = self._file, None, math.inf
        if file is not None:
            file.give_up()


class AppendedLogs:
    """Stands in for a ``LogWriter`` where a store's class has an ``append_log`` of its own, which writes each log."""

    stored_bytes = 0
    due_in_s = math.inf

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._unwritten: dict[str, list[str]] = {}

    @property
    def interval_s(self) -> float:
        return self._store.log_interval_s

    def write(self, lines: Mapping[str, Sequence[str]]) -> None:
        """See ``LogWriter``."""
        self._unwritten = {name: list(ones) for name, ones in lines.items()}
        self.write_again()

    def write_again(self) -> None:
        """See ``LogWriter``."""
        for name in list(self._unwritten):
            self._store.append_log(name, self._unwritten[name])
            del self._unwritten[name]

    def close_if_due(self) -> None:
        """See ``LogWriter``."""

    def close(self) -> None:
        """See ``LogWriter``."""


def text_of(lines: Sequence[str]) -> bytes:
    """Return lines as they are written; a newline inside one would make two of it."""
    return "".join(f"{line}\n" for line in lines).encode(errors="backslashreplace")

"""Reading the log of one trial: of closed segments the index and the trial's own parts, of an open one block by block.

What was damaged is left out with a sentence in its place, and what a crash cut off is given as far as it goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from asyncsearch.errors import BeingWrittenError
from asyncsearch.store import layout
from asyncsearch.store.logs import segment_format as form
from asyncsearch.store.open_files import LogStore

_ENDS_AT_ONCE = 8
_CUT_OFF = "... what came here was cut off when its driver ended ..."


class _Open:
    """The position at which reading goes on in a segment that is not closed, or has no index that can be read."""

    def __init__(self) -> None:
        self.driver = ""
        """The driver that writes it; empty until it is known."""
        self.at = self.body = 0
        """Where the next block begins, and where the lines of the last one did."""


class LogReader:
    """The lines of one trial. Asked again, it gives those that have come since."""

    def __init__(self, store: LogStore, name: str) -> None:
        """Begin; ``name`` is that of the log, as ``trial-7``.

        Raises:
            StoreError: it is not a plain word.
        """
        layout.log_file(name)
        self._store, self._name = store, name
        self._old = 0
        """Number of lines that were read in the layout of earlier versions."""
        self._over: set[int] = set()
        """The segments of which nothing more can come."""
        self._open: dict[int, _Open] = {}
        self._last: dict[str, int] = {}
        """Driver -> number of its last block that was read: one that was written again counts once."""
        self._torn: tuple[str, list[str]] | None = None
        """A driver that had written a part half, and its whole lines."""
        self.unread = ""
        """The part that was written and cannot be read yet, in words; empty if there is none."""

    def lines(self) -> Iterator[str]:
        """Yield the lines without their newlines, or those that have come since the last call.

        Raises:
            StoreError: the store cannot be read.
        """
        self.unread = ""
        for line in self._store.read_old_log(self._name, self._old):
            self._old += 1
            yield line
        numbers = layout.log_segment_numbers(self._store.list(layout.LOG_SEGMENTS))
        new = [number for number in numbers if number not in self._over]
        ends = self._ends([number for number in new if number not in self._open])
        for number in new:
            windows = Windows(self._store, layout.log_segment(number), ends.get(number))
            try:
                index = windows.index() if number in ends else None
                yield from (
                    self._walk(number, windows, number < new[-1])
                    if index is None
                    else self._pick(number, windows, index)
                )
            except BeingWrittenError as error:
                self.unread = str(error)

    def _ends(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the last bytes of segments: there a closed one says where everything is."""

        def end_of(number: int) -> bytes | None:
            try:
                return self._store.read_part(layout.log_segment(number), -END_BYTES)
            except BeingWrittenError:
                return None

        if len(numbers) < 2 or not self._store.is_far:
            found = list(map(end_of, numbers))
        else:
            with ThreadPoolExecutor(min(len(numbers), _ENDS_AT_ONCE), "asyncsearch-logs") as pool:
                found = list(pool.map(end_of, numbers))
        return {number: end for number, end in zip(numbers, found, strict=True) if end is not None}

    def _pick(self, number: int, windows: Windows, index: form.LogIndex) -> Iterator[str]:
        """Yield the trial's lines in a closed segment."""
        yield from self._torn_of_another(index.driver)
        parts = [part for part in index.parts(self._name) if part.number > self._last.get(index.driver, 0)]
        for part, data in zip(parts, windows.parts(parts), strict=True):
            if not part.is_whole(data):
                # Bytes came or went, so the index is not right: each block says where it begins.
                yield from self._walk(number, windows, is_over=True)
                return
            yield from self._lines_of(index.driver, part, data)
        self._over.add(number)

    def _walk(self, number: int, windows: Windows, is_over: bool) -> Iterator[str]:
        """Yield the trial's lines in the blocks of a segment, from the end of the last call.

        Args:
            is_over: whether nothing more comes: a crash may have cut off its last block.
        """
        place = self._open.setdefault(number, _Open())
        if not place.driver:
            head = windows.get(0, form.HEAD_BYTES)
            if len(head) < form.HEAD_BYTES:
                return
            driver = form.decode_head(head)
            place.driver = driver or f"unknown-{number}"
            place.at = place.body = form.HEAD_BYTES if driver else 0
            yield from self._torn_of_another(place.driver)
        while True:
            line = windows.line(place.at)
            found = form.decode_line(line, place.at) if line else None
            if isinstance(found, form.LogIndex):
                self._over.add(number)
                return
            if found is None:
                behind = windows.next_line_of_ours(place.body) if windows.get(place.at, place.at + 1) else -1
                if behind < 0:
                    break
                yield "... the logs of all trials are damaged here in the store, and lines may be missing ..."
                place.at = place.body = behind
                continue
            part = found.parts.get(self._name)
            data = b"" if part is None else windows.get(part.start, part.end)
            if part is not None and len(data) < part.size_bytes:
                if not is_over:
                    return
                self._torn = (place.driver, [*_lines(data), _CUT_OFF])
            elif part is not None and part.number > self._last.get(place.driver, 0):
                yield from self._lines_of(place.driver, part, data)
            place.body, place.at = place.at + len(line), found.end
        if is_over:
            self._over.add(number)

    def _torn_of_another(self, driver: str) -> Iterator[str]:
        """Yield the lines that a driver before this one had written half; one that lived on has written them again."""
        torn, self._torn = self._torn, None
        if torn is not None and torn[0] != driver:
            yield from torn[1]

    def _lines_of(self, driver: str, part: form.LogPart, data: bytes) -> Iterator[str]:
        self._last[driver] = part.number
        if part.is_whole(data):
            yield from _lines(data)
        else:
            yield from damaged_lines(data)


def _lines(data: bytes) -> Iterator[str]:
    return (line.decode(errors="replace") for line in data.split(b"\n")[:-1])


_SHAPED = re.compile(rb"(?:\d+\.\d{3} [OE] |\.\.\. )[^\x00-\x08\x0b-\x1f\x7f]*")


def damaged_lines(data: bytes) -> Iterator[str]:
    """Yield the lines that are as lines should be, behind a sentence that says how many are not."""
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    kept = [text for line in lines if (text := _text(line)) is not None]
    gone = f"{len(lines) - len(kept):,} of them are left out, and the others may not be as they were printed"
    yield f"... the next {len(lines):,} lines were damaged in the store: {gone} ..."
    yield from kept


def _text(line: bytes) -> str | None:
    try:
        return line.decode() if _SHAPED.fullmatch(line) else None
    except UnicodeDecodeError:
        return None


END_BYTES = 64 << 10
"""Length of the end that is read first of a segment; a shorter one is read as a whole."""
_NEAR, _FAR = 64 << 10, 512 << 10
"""Length of a window on this machine and elsewhere."""
_NEAR_GAP, _FAR_GAP = 4 << 10, 256 << 10
"""Longest gap between parts that are read together: elsewhere it takes less time to read it than to ask again."""
_MOST_BYTES = 4 << 20


class Windows:
    """The bytes of one segment."""

    def __init__(self, store: LogStore, path: str, end: bytes | None = None) -> None:
        """Begin; ``end`` is what was read of its last bytes; None if nothing was."""
        self._store, self._path = store, path
        self._end = end or b""
        self._start = 0
        self._held = self._end if end is not None and len(end) < END_BYTES else b""
        self._window_bytes, self._gap_bytes = (_FAR, _FAR_GAP) if store.is_far else (_NEAR, _NEAR_GAP)

    def index(self) -> form.LogIndex | None:
        """Return the index; None if the segment is open, or damaged."""
        start = form.decode_end(self._end)
        if start is None:
            return None
        at = self._end.rfind(b"\n# ") + 1
        for text in (self._end[at : -form.END_BYTES] if at else b"", b""):
            line = text or (self._store.read_part(self._path, start) or b"")[: -form.END_BYTES]
            if isinstance(found := form.decode_line(line, start), form.LogIndex):
                return found
        return None

    def get(self, start: int, end: int, *, is_exact: bool = False) -> bytes:
        """Return the bytes from ``start`` to before ``end``, or to the end of the segment.

        ``is_exact``: what is behind them will not be asked for.
        """
        if start < self._start or end > self._start + len(self._held):
            until = end if is_exact else max(end, start + self._window_bytes)
            self._held = self._store.read_part(self._path, start, until) or b""
            self._start = start
        return self._held[start - self._start : end - self._start]

    def line(self, start: int) -> bytes:
        """Return the line that begins at a byte, with its newline; empty if it has none yet."""
        size_bytes = 256
        while True:
            found = self.get(start, start + size_bytes)
            line, newline, _ = found.partition(b"\n")
            if newline:
                return line + newline
            if len(found) < size_bytes:
                return b""
            size_bytes *= 4

    def next_line_of_ours(self, start: int) -> int:
        """Return the beginning of the next line of a block, or of the index, behind ``start``; -1 if there is none."""
        while found := self.get(start, start + self._window_bytes):
            at = form.next_mark(found)
            if at < 0 and len(found) < self._window_bytes:
                return -1
            start += at if at > 0 else len(found) - 3  # the mark may begin in these
            if at > 0:
                line = self.line(start)
                if line and form.decode_line(line, start) is not None:
                    return start
        return -1

    def parts(self, parts: Sequence[form.LogPart]) -> Iterator[bytes]:
        """Yield the bytes of parts that are in order; those near each other are read together."""
        group: list[form.LogPart] = []
        for part in parts:
            if group and (part.start - group[-1].end > self._gap_bytes or part.end - group[0].start > _MOST_BYTES):
                yield from self._together(group)
                group = []
            group.append(part)
        yield from self._together(group)

    def _together(self, group: Sequence[form.LogPart]) -> Iterator[bytes]:
        if group:
            self.get(group[0].start, group[-1].end, is_exact=True)
        for part in group:
            yield self.get(part.start, part.end, is_exact=True)

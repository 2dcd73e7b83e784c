"""Parts of one segment of the logs, read a window at a time: a far store takes as long for a byte as for many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from asyncsearch.store.logs import segment_format as form
from asyncsearch.store.logs.log_store import LogStore

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
        """Begin; ``end`` is what was read of its last bytes; None: nothing was."""
        self._store, self._path = store, path
        self._end = end or b""
        self._start = 0
        self._held = self._end if end is not None and len(end) < END_BYTES else b""
        self._window_bytes, self._gap_bytes = (_FAR, _FAR_GAP) if store.is_far else (_NEAR, _NEAR_GAP)

    def index(self) -> form.LogIndex | None:
        """Return the index; None: the segment is open, or damaged."""
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
        """Return the line that begins at a byte, with its newline; empty: it has none yet."""
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
        """Return where the next line begins, behind ``start``, that tells of a block or is the index; -1: nowhere."""
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

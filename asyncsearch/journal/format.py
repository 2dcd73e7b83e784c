"""The journal's format: lines of JSON, each with its number and checksum. Pure; the store writes and reads the bytes.

A segment begins with a header line, followed by one record per line:

    {"crc":"6b1f7c02","n":17,"t":1795244400.25,"event":{...},"actions":[{...}]}

``crc`` is the CRC-32 of the rest of the line as written after ``{``, in eight hexadecimal digits. Numbers rise by one
across all segments of a study. A crash can leave an unfinished line only at the end of a segment: it was never
acknowledged and is dropped; damage anywhere else is refused. Records whose write failed are written again in the next
segment; what was written of them counts once, and must be the same byte for byte.

Rule: fields are only added. Journals of every released version stay readable (tests/golden).
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from asyncsearch.actions import AnyAction
from asyncsearch.errors import JournalDamagedError
from asyncsearch.events import AnyEvent

MAX_REPEATED = 100_000
"""Number of records that a segment may repeat from the ones before it."""
FORMAT = 1
"""Version of the format; raised only when an older reader could not read the new one."""


class Record(msgspec.Struct, frozen=True):
    """An event and the resulting decisions: durable together or not at all."""

    n: int
    """Number of the record in the study, starting from 1."""
    t: float
    """Driver's clock, seconds since 1970."""
    event: AnyEvent
    actions: tuple[AnyAction, ...] = ()


class Header(msgspec.Struct, frozen=True):
    """First line of a segment."""

    format: int
    study: str
    first: int
    """Number of the first record of this segment."""
    version: str = ""
    """Version of asyncsearch that wrote it."""


_ENCODER = msgspec.json.Encoder()
_RECORD = msgspec.json.Decoder(Record)
_HEADER = msgspec.json.Decoder(Header)


def _seal(body: bytes) -> bytes:
    rest = body[1:]
    return b'{"crc":"%08x",%b\n' % (zlib.crc32(rest), rest)


def _unseal(line: bytes) -> bytes | None:
    """Return the body of a complete and undamaged line, else None."""
    if not line.startswith(b'{"crc":"') or not line.endswith(b"}\n") or line[16:18] != b'",':
        return None
    rest = line[18:-1]
    return b"{" + rest if line[8:16] == b"%08x" % zlib.crc32(rest) else None


def encode_header(header: Header) -> bytes:
    """Return the first line of a segment."""
    return _seal(_ENCODER.encode(header))


def encode_record(n: int, t: float, event: AnyEvent, actions: Sequence[AnyAction]) -> bytes:
    """Return a record's line."""
    return _seal(_ENCODER.encode(Record(n, t, event, tuple(actions))))


class SegmentReader:
    """Reads the segments of one study in order, and checks that no records are missing between them."""

    def __init__(self, skip: int = 0) -> None:
        """Check everything, but yield only the records after number ``skip``."""
        self.next_number = 1
        self._skip = skip
        self._recent: deque[int] = deque(maxlen=MAX_REPEATED)
        """Hashes of the last records: a segment may repeat them after a write that failed."""
        self.dropped: list[str] = []
        """Sentences about unfinished lines that were dropped at the ends of segments."""

    def read(self, name: str, lines: Iterable[bytes]) -> Iterator[Record]:
        """Yield the records of one segment.

        Raises:
            JournalDamagedError: a line other than the last is damaged, or records are missing; it names the line.
        """
        bodies = self._bodies(name, lines)
        first = next(bodies, None)
        if first is None:
            return
        here = self._check_header(name, first[1])
        for number, body in bodies:
            is_repeated = here < self.next_number
            is_right = body.startswith(b'{"n":%d,' % here)
            if not is_right or (is_repeated and hash(body) != self._recent[here - self.next_number]):
                raise JournalDamagedError(
                    f"Journal segment {name}, line {number}: {body[:20]!r} follows record {here - 1}. "
                    "Records are missing; restore the segment from a backup, or start a new study with "
                    "this one's best trials as initial points."
                )
            here += 1
            if is_repeated:
                continue
            self.next_number = here
            self._recent.append(hash(body))
            if here - 1 > self._skip:
                yield self._decode(name, number, body)

    def _bodies(self, name: str, lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        bad: tuple[int, bytes] | None = None
        for number, line in enumerate(lines, 1):
            if bad is not None:
                raise JournalDamagedError(
                    f"Journal segment {name}, line {bad[0]} is damaged and more lines follow it: {bad[1][:80]!r}. "
                    "A crash cannot cause this; restore the segment from a backup."
                )
            body = _unseal(line)
            if body is None:
                bad = (number, line)
            else:
                yield number, body
        if bad is not None:
            self._drop_tail(name, *bad)

    def _drop_tail(self, name: str, number: int, line: bytes) -> None:
        if line.endswith(b"\n"):
            raise JournalDamagedError(
                f"Journal segment {name}, line {number} (the last) is whole but its checksum is wrong: {line[:80]!r}. "
                "A crash cannot cause this; restore the segment from a backup, or remove that line if you accept to "
                "lose it."
            )
        self.dropped.append(
            f"Journal segment {name}: the last line ({len(line)} bytes) was cut off by a crash and was dropped; "
            "it was never acknowledged."
        )

    def _check_header(self, name: str, body: bytes) -> int:
        """Return the number of the first record of the segment."""
        try:
            header = _HEADER.decode(body)
        except msgspec.DecodeError as error:
            raise JournalDamagedError(f"Journal segment {name} does not begin with a header: {error}.") from error
        if header.format > FORMAT:
            raise JournalDamagedError(
                f"Journal segment {name} has format {header.format}, written by asyncsearch {header.version}; "
                f"this version reads up to format {FORMAT}. Upgrade asyncsearch."
            )
        if not self.next_number - len(self._recent) <= header.first <= self.next_number:
            raise JournalDamagedError(
                f"Journal segment {name} begins with record {header.first}, expected {self.next_number}. "
                "A segment is missing or was cut; restore it from a backup."
            )
        return header.first

    def _decode(self, name: str, number: int, body: bytes) -> Record:
        try:
            return _RECORD.decode(body)
        except msgspec.DecodeError as error:
            raise JournalDamagedError(
                f"Journal segment {name}, line {number} is whole, but this version cannot read it: {error}. "
                "It was written by a newer version or by hand."
            ) from error

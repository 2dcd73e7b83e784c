"""The journal's format: lines of JSON, each with its number and checksum. Pure; the store writes and reads the bytes.

A segment begins with a header line, followed by one record per line:

    {"crc":"6b1f7c02","n":17,"t":1795244400.25,"event":{...},"actions":[{...}]}

``crc`` is the CRC-32 of the rest of the line as written after ``{``, in eight hexadecimal digits. Numbers rise by one
across all segments of a study. A crash can leave an unfinished line only at the end of a segment: it was never
acknowledged and is dropped. A driver that failed to append, or lost its lock, can leave whole records that were never
acknowledged: the header of the next segment says where they begin. Anything else is damage and refused: see
``journal.head`` for records that are missing at the end.

Rule: fields are only added. Journals of every released version stay readable (tests/golden).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from asyncsearch.actions import AnyAction
from asyncsearch.arguments import json_bytes
from asyncsearch.errors import JournalDamagedError
from asyncsearch.events import AnyEvent
from asyncsearch.files import UNDECODABLE
from asyncsearch.journal.head import Head, checksum_of, seal, unseal, unseal_unended
from asyncsearch.store.open_files import HEAD_FILE

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
    cuts: bool = False
    """Whether records that the segment before has from ``first`` on were never acknowledged, and do not count."""
    head: bool = False
    """Whether its driver notes its last durable record in ``head.json``, too; those of earlier versions did not."""


_RECORD = msgspec.json.Decoder(Record)
_HEADER = msgspec.json.Decoder(Header)


def encode_header(header: Header) -> bytes:
    """Return the first line of a segment."""
    return seal(json_bytes(header))


def encode_record(n: int, t: float, event: AnyEvent, actions: Sequence[AnyAction]) -> bytes:
    """Return a record's line."""
    return seal(json_bytes(Record(n, t, event, tuple(actions))))


def beginning_of(line: bytes) -> int | None:
    """Return the record number from which a segment counts instead of the one before. None if it only follows it."""
    body = unseal(line)
    try:
        header = None if body is None else _HEADER.decode(body)
    except UNDECODABLE:
        return None  # it is refused when it is read
    return header.first if header is not None and header.cuts else None


_WITHOUT_THE_END = (
    f"Restore the journal from a backup, or from the rescue file if a run wrote one; or remove {HEAD_FILE} if you"
    " accept to lose what is missing."
)


class SegmentReader:
    """Reads the segments of one study in order, and checks that no records are missing between them or at the end."""

    def __init__(self, skip: int = 0, head: Head | None = None, *, is_head_missing: bool = False) -> None:
        """Check everything, but yield only the records after number ``skip``.

        Args:
            skip: a number up to which records are known.
            head: the last record known to have been durable.
            is_head_missing: whether there is no file that says so, not even a damaged one.
        """
        self.next_number = 1
        self._skip, self._head, self._is_head_missing = skip, head, is_head_missing
        self._headed_from: int | None = None
        """The first record that was noted in a head, too. None if no driver has noted any."""
        self.skipped_crc = ""
        """Checksum of record number ``skip``; empty until it was read."""
        self.unread = ""
        """Name of the last segment whose end could not be read, since a driver has it open."""
        self.dropped: list[str] = []
        """Sentences about unfinished lines that were dropped at the ends of segments, and other repairs."""
        self.doubts: list[str] = []
        """Sentences about the parts of the journal that are in doubt."""

    def read(self, name: str, lines: Iterable[bytes], until: int | None = None) -> Iterator[Record]:
        """Yield the records of one segment.

        Args:
            name: of the segment, for messages.
            lines: its lines.
            until: ``beginning_of`` the next segment: records from there on do not count.

        Raises:
            JournalDamagedError: a line other than the last is damaged, or records are missing; it names the line.
        """
        bodies = self._bodies(name, lines)
        first = next(bodies, None)
        if first is None or not self._follows(name, first[1]):
            return
        if until is not None and until < self.next_number:
            until = None  # it would take the place of more than this segment: it is refused when it is read
        for number, body, crc in bodies:
            if self.next_number == until:
                self.dropped.append(
                    f"Journal segment {name}: from record {until} on the next segment counts, since a driver could not"
                    " finish a write in this one; nothing acknowledged was dropped."
                )
                return
            if not body.startswith(b'{"n":%d,' % self.next_number):
                raise JournalDamagedError(
                    f"Journal segment {name}, line {number}: {body[:20]!r} follows record {self.next_number - 1}. "
                    "Records are missing; restore the segment from a backup, or start a new study with "
                    "this one's best trials as initial points."
                )
            self._note(name, number, crc)
            if self.next_number - 1 > self._skip:
                yield self._decode(name, number, body)

    def leave_unread(self, name: str) -> None:
        """Note that a segment goes on behind the part that was read."""
        self.unread = name

    def finish(self) -> None:
        """Check, after the last segment, that the journal goes as far as its head, or note that it has lost its head.

        Raises:
            JournalDamagedError: its end is missing.
        """
        head = self._head
        if head is not None and self.next_number <= head.n and not self.unread:
            raise JournalDamagedError(
                f"The journal ends with record {self.next_number - 1}, and {HEAD_FILE} says that record {head.n} was"
                f" durable in its segment {head.segment}: its end is missing. {_WITHOUT_THE_END}"
            )
        if self._is_head_missing and self._headed_from is not None and self.next_number > self._headed_from:
            self.doubts.append(
                f"{HEAD_FILE} is missing, so whether the end of the journal is missing too cannot be told: it ends with"
                f" record {self.next_number - 1}."
            )

    def _note(self, name: str, number: int, crc: str) -> None:
        """Count a record, and compare it with the head and other notes of it."""
        head = self._head
        # Equal numbers are not enough: a segment of an older copy has the same ones.
        if head is not None and self.next_number == head.n and crc != head.record:
            raise JournalDamagedError(
                f"Journal segment {name}, line {number}: record {head.n} is not the one that {HEAD_FILE} says was"
                f" durable. The segment was replaced by another one. {_WITHOUT_THE_END}"
            )
        if self.next_number == self._skip:
            self.skipped_crc = crc
        self.next_number += 1

    def _bodies(self, name: str, lines: Iterable[bytes]) -> Iterator[tuple[int, bytes, str]]:
        bad: tuple[int, bytes] | None = None
        for number, line in enumerate(lines, 1):
            if bad is not None:
                raise JournalDamagedError(
                    f"Journal segment {name}, line {bad[0]} is damaged and more lines follow it: {bad[1][:80]!r}. "
                    "A crash cannot cause this; restore the segment from a backup."
                )
            body = unseal(line)
            if body is None:
                bad = (number, line)
            else:
                yield number, body, checksum_of(line)
        if bad is None:
            return
        whole = unseal_unended(bad[1])
        if whole is None:
            self._drop_tail(name, *bad)
        else:
            self.dropped.append(f"Journal segment {name}: the last line lacked its end only, and was kept.")
            yield bad[0], whole, checksum_of(bad[1])

    def _drop_tail(self, name: str, number: int, line: bytes) -> None:
        if self._head is not None and self.next_number <= self._head.n and name == self._head.segment:
            raise JournalDamagedError(
                f"Journal segment {name}, line {number} (the last) is damaged: {line[:80]!r}; {HEAD_FILE} says that"
                f" record {self._head.n} was durable in it. A crash cannot cause this. {_WITHOUT_THE_END}"
            )
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

    def _follows(self, name: str, body: bytes) -> bool:
        """Check a header, and return whether its segment goes on where reading stands; not after an end left unread."""
        try:
            header = _HEADER.decode(body)
        except UNDECODABLE as error:
            raise JournalDamagedError(f"Journal segment {name} does not begin with a header: {error}.") from error
        if header.format > FORMAT:
            raise JournalDamagedError(
                f"Journal segment {name} has format {header.format}, written by asyncsearch {header.version}; "
                f"this version reads up to format {FORMAT}. Upgrade asyncsearch."
            )
        if header.first > self.next_number and self.unread:
            return False
        if header.first != self.next_number:
            raise JournalDamagedError(
                f"Journal segment {name} begins with record {header.first}, expected {self.next_number}. "
                "A segment is missing or was cut; restore it from a backup."
            )
        if header.head and self._headed_from is None:
            self._headed_from = header.first
        return True

    def _decode(self, name: str, number: int, body: bytes) -> Record:
        try:
            return _RECORD.decode(body)
        except UNDECODABLE as error:
            raise JournalDamagedError(
                f"Journal segment {name}, line {number} is whole, but this version cannot read it: {error}. "
                "It was written by a newer version or by hand."
            ) from error

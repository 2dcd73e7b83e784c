"""Opening a study: its state is rebuilt from the files in its store."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from asyncsearch.arguments import json_bytes
from asyncsearch.engine import handling
from asyncsearch.engine import snapshot as snapshots
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import BeingWrittenError, JournalDamagedError, NotAFileError
from asyncsearch.files import UNDECODABLE
from asyncsearch.journal.format import Record, SegmentReader, beginning_of
from asyncsearch.journal.head import decode_head, is_file_sealed, is_file_whole, is_sealed, seal, seal_file, unseal
from asyncsearch.store.base_store import Store
from asyncsearch.store.open_files import HEAD_FILE

STUDY_FILE = "study.json"
BUNDLE_FILE = "bundle.bin"
_KEPT_SNAPSHOTS = 2
_SNAPSHOT_NAME = re.compile(r"\d{12}\.json")
_RESTORE_STUDY_FILE = (
    "Restore it from a backup; or move it away and run the script that made the study, with resume=True, which writes"
    " it anew and keeps the journal and the checkpoints"
)


class KeptFunction(msgspec.Struct, frozen=True):
    """A function of time of the user's own, kept as ``functions/<code>.bin``."""

    name: str
    code: str
    """Digest of its code, as params name it."""
    sha256: str
    """Hash of the file; one that another program changed is not unpickled."""
    python: str
    """The Python whose bytecode it is: ``"3.11"``."""


class StudyFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``study.json``: a description for people, for ``show`` and for the comparison at ``resume``."""

    format: int = 1
    name: str
    metric: str
    mode: str
    rank_by: str = "last"
    seed: int
    version: str = ""
    space: list[str]
    """One line for each parameter."""
    searcher: str
    scheduler: str
    scheduler_options: dict[str, Any] | None = None
    """Its kind and options, if they describe it completely. None if it is in the bundle only."""
    max_resource: int | None = None
    trainable: str = ""
    """Name of the function or class."""
    fingerprint: str = ""
    """Hash of the bundle; resuming with another trainable gives a warning."""
    script: str = ""
    """The file with the trainable's source, on the machine that created the study. Empty if unknown."""
    script_sha256: str = ""
    """Hash of that file when the study was created."""
    parts: dict[str, str] = {}
    """Digest of the code of the trainable and of each helper and constant that it uses. Empty if it was not noted."""
    python: str = ""
    """The Python of these digests."""
    functions: list[KeptFunction] = []
    """The functions of time in its space, also as they were before an edit; those of the last run are last."""
    bundle_sha256: str = ""
    """Hash of ``bundle.bin``; a bundle that another program changed is not unpickled."""
    shared: str = ""
    """URL of the shared folder with its checkpoints. Empty if they are in its own store."""
    defaults: dict[str, Any] = {}
    """Declared values of parameters that its space lacks."""
    keep_checkpoints: int = 1
    """Number of the best finished trials whose checkpoints are kept."""
    share: bool = False
    """Whether trials may share training."""
    can_evaluate: bool = False
    """Whether the trainable can evaluate a checkpoint without training."""
    pack_by: tuple[str, ...] | None = None
    """Names of the hyper-parameters that tell which trials are alike. None means all but floats and sequences."""
    pack_opt: str = ""
    """How the trials of a pack are chosen. Empty if each trains alone."""
    stop_rules: dict[str, str] = {}
    """Argument of ``Study`` -> its stop rule in the last run, as it was written."""
    asyncsearch: str = ""
    """Version of asyncsearch that created the study."""
    created_s: float = 0.0
    """Driver's clock, seconds since 1970."""
    sealed: bool = False
    """Whether the file begins with a checksum; one of an earlier version does not."""


_STUDY = msgspec.json.Decoder(StudyFile)


def read_study_file(store: Store) -> StudyFile | None:
    """Return the description of the study in a store, or None if there is none.

    Raises:
        JournalDamagedError: it is not as it was written.
    """
    data = store.read(STUDY_FILE)
    if data is None:
        return None
    place = f"{store.shown}/{STUDY_FILE}"
    try:
        study = _STUDY.decode(data)
    except UNDECODABLE as error:
        raise JournalDamagedError(f"{place} cannot be read: {error}. {_RESTORE_STUDY_FILE}.") from error
    has_checksum = is_file_sealed(data)
    if (has_checksum and not is_file_whole(data)) or (study.sealed and not has_checksum):
        raise JournalDamagedError(
            f"{place} is not as it was written: its checksum differs. {_RESTORE_STUDY_FILE}. If you edited it yourself,"
            ' remove its line "crc" and write "sealed": false.'
        )
    return study


_IN_BOTH = tuple(name for name in StudyFile.__struct_fields__ if name in EngineConfig.__struct_fields__)
"""The settings that ``study.json`` has under the names of the configuration."""


def config_of(study: StudyFile) -> EngineConfig:
    """Return the configuration for replaying a study's journal without the study's code."""
    settings: dict[str, Any] = {name: getattr(study, name) for name in _IN_BOTH}
    return EngineConfig(study=study.name, shared_as=study.trainable if study.shared else "", **settings)


def write_study_file(store: Store, study: StudyFile) -> None:
    """Write ``study.json``, indented for people, with a checksum."""
    sealed = msgspec.structs.replace(study, sealed=True)
    store.write(STUDY_FILE, seal_file(msgspec.json.format(json_bytes(sealed), indent=2)))


class Replayed(msgspec.Struct, frozen=True):
    """The result of a replay, apart from the state."""

    last: int
    """Number of the last record, 0 if there is none."""
    last_s: float
    """Driver's clock at the last record, 0.0 if there is none."""
    notes: tuple[str, ...] = ()
    """Sentences about the recovery."""
    doubts: tuple[str, ...] = ()
    """Sentences about the parts of the journal that are in doubt."""
    unread: str = ""
    """Name of the segment whose end was not read, since a driver has it open. Empty if all was read."""


def replay(store: Store, state: StudyState) -> Replayed:
    """Bring a new state to the end of the store's journal, starting from the newest snapshot that belongs to it.

    A snapshot that is damaged, or was taken of another journal, is left out: all records are replayed instead. So is
    one of a version that wrote no checksum, since its damage cannot be seen.

    Raises:
        JournalDamagedError: the journal is damaged, other than by an unfinished line at the end of a segment.
    """
    notes: list[str] = []
    for kept in _kept_snapshots(store, notes, sizes=state.config.quota_bytes is not None):
        if state.stop_facts is not None and kept.snapshot.stop_facts is None:
            continue  # it was taken before the study had stop rules, and all reports count for them
        reader = begin_reading(store, skip=kept.snapshot.record)
        records = read_records(store, reader=reader)
        rest = list(islice(records, 1))  # now the record that the snapshot stands for has been read
        _require_reached(reader, kept.snapshot.record)
        is_unreached = bool(reader.unread) and kept.snapshot.record >= reader.next_number
        if reader.skipped_crc == kept.record_crc or is_unreached:
            snapshots.restore(state, kept.snapshot)
            return _replay_rest(state, reader, chain(rest, records), notes)
        notes.append(f"Snapshot {kept.snapshot.record} was taken of another journal, and was left out.")
    reader = begin_reading(store)
    return _replay_rest(state, reader, read_records(store, reader=reader), notes)


def _replay_rest(state: StudyState, reader: SegmentReader, records: Iterable[Record], notes: Iterable[str]) -> Replayed:
    last_s = 0.0
    for record in records:
        handling.replay(state, record.event, record.actions, record.t)
        last_s = record.t
    return Replayed(
        reader.next_number - 1, last_s, (*reader.dropped, *notes), tuple(reader.doubts), unread=reader.unread
    )


def _require_reached(reader: SegmentReader, record: int) -> None:
    if record >= reader.next_number and not reader.unread:
        raise JournalDamagedError(
            f"The journal ends with record {reader.next_number - 1}, and a snapshot was taken after record {record}: "
            "the journal's end is missing. Restore it from a backup, or remove the folder snapshots if you accept to "
            "lose what was in it."
        )


def read_records(store: Store, skip: int = 0, reader: SegmentReader | None = None) -> Iterator[Record]:
    """Yield every record of the journal after number ``skip``; for reading only.

    Args:
        store: the journal's.
        skip: a number up to which records are known.
        reader: made by ``begin_reading`` before. By default one is made now.

    Raises:
        JournalDamagedError: the journal is damaged, other than by an unfinished line at the end of a segment.
    """
    reader = reader or begin_reading(store, skip)
    due: list[tuple[str, Iterator[bytes]]] = []
    for name in store.journal_segments():
        lines = _lines(store, name, reader)
        begun = next(lines, b"")  # read on from here when its turn comes
        if unseal(begun) is not None:  # else its driver could not begin it, and the one after it says where it goes on
            for former, former_lines in due:
                yield from reader.read(former, former_lines, beginning_of(begun))
            due.clear()
        due.append((name, chain([begun], lines) if begun else lines))
    for name, lines in due:
        yield from reader.read(name, lines)
    reader.finish()


def begin_reading(store: Store, skip: int = 0) -> SegmentReader:
    """Return a reader that knows how far the journal goes at the least; the segments are read after this."""
    # Before the segments: a driver that writes meanwhile moves both on, and an older head claims less.
    data = _read(store, HEAD_FILE)
    reader = SegmentReader(skip, None if data is None else decode_head(data), is_head_missing=data is None)
    if data is not None and decode_head(data) is None:
        reader.doubts.append(f"{HEAD_FILE} is damaged, so whether the end of the journal is missing cannot be told.")
    return reader


def _lines(store: Store, segment: str, reader: SegmentReader) -> Iterator[bytes]:
    try:
        yield from store.read_segment(segment)
    except BeingWrittenError:
        reader.leave_unread(segment)


def save_snapshot(store: Store, data: bytes, record: int, record_crc: str) -> None:
    """Write a snapshot with its checksum and that of the record which it stands for; remove all except the newest few.

    Nothing is written if the checksum of the record is unknown: no record was written since the study was opened.
    """
    if not record_crc:
        return
    store.write(f"snapshots/{record:012d}.json", seal(b'{"record_crc":"%b",%b' % (record_crc.encode(), data[1:])))
    for name in _snapshot_names(store)[:-_KEPT_SNAPSHOTS]:
        store.remove_tree(f"snapshots/{name}")  # a folder may lie in its place


def _snapshot_names(store: Store) -> list[str]:
    return [name for name in store.list("snapshots") if _SNAPSHOT_NAME.fullmatch(name)]


def _read(store: Store, name: str) -> bytes | None:
    """Return a file that is not needed. Empty if something else lies in its place, None if nothing does."""
    try:
        return store.read(name)
    except NotAFileError:
        return b""


class _Kept(NamedTuple):
    """A snapshot that is as it was written."""

    snapshot: snapshots.Snapshot
    record_crc: str
    """Checksum of the record that it stands for."""


def _kept_snapshots(store: Store, notes: list[str], *, sizes: bool) -> Iterator[_Kept]:
    """Yield the snapshots that are whole, the newest first; with ``sizes``, only those with sizes of checkpoints."""
    for name in reversed(_snapshot_names(store)):
        data = _read(store, f"snapshots/{name}")
        if data is None:
            continue
        body = unseal(data)
        snapshot = None if body is None else snapshots.decode(body)
        if (is_sealed(data) or not data) and body is None:
            notes.append(f"Snapshot {name} is damaged and was left out: the journal was replayed instead.")
        if snapshot is not None and body is not None and not (sizes and snapshot.sizes is None):
            yield _Kept(snapshot, _record_crc(body))


def _record_crc(body: bytes) -> str:
    start = b'{"record_crc":"'
    return body[len(start) : len(start) + 8].decode() if body.startswith(start) else ""

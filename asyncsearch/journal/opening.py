"""Opening a study: its state is rebuilt from the files in its store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from asyncsearch.engine import handling
from asyncsearch.engine import snapshot as snapshots
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import JournalDamagedError
from asyncsearch.journal.format import Record, SegmentReader
from asyncsearch.store.base_store import Store

STUDY_FILE = "study.json"
BUNDLE_FILE = "bundle.bin"
_KEPT_SNAPSHOTS = 2


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
    seed: int
    version: str = ""
    space: list[str]
    """One line for each parameter."""
    searcher: str
    scheduler: str
    scheduler_options: dict[str, Any] | None = None
    """Its kind and options, if they describe it completely; None: it is in the bundle only."""
    max_resource: int | None = None
    trainable: str = ""
    """Name of the function or class."""
    fingerprint: str = ""
    """Hash of the bundle; resuming with another trainable gives a warning."""
    parts: dict[str, str] = {}
    """Digest of the code of the trainable and of each helper and constant that it uses; empty: not noted."""
    python: str = ""
    """The Python of these digests."""
    functions: list[KeptFunction] = []
    """The functions of time in its space, also as they were before an edit; those of the last run are last."""
    bundle_sha256: str = ""
    """Hash of ``bundle.bin``; a bundle that another program changed is not unpickled."""
    shared: str = ""
    """URL of the shared folder with its checkpoints; empty: they are in its own store."""
    defaults: dict[str, Any] = {}
    """Declared values of parameters that its space lacks."""
    keep_checkpoints: int = 1
    """Number of the best finished trials whose checkpoints are kept."""
    share: bool = False
    """Whether trials may share training."""
    can_evaluate: bool = False
    """Whether the trainable can evaluate a checkpoint without training."""
    asyncsearch: str = ""
    """Version of asyncsearch that created the study."""
    created_s: float = 0.0
    """Driver's clock, seconds since 1970."""


_STUDY = msgspec.json.Decoder(StudyFile)


def read_study_file(store: Store) -> StudyFile | None:
    """Return the description of the study in a store, or None if there is none."""
    data = store.read(STUDY_FILE)
    return None if data is None else _STUDY.decode(data)


def config_of(study: StudyFile) -> EngineConfig:
    """Return the configuration for replaying a study's journal without the study's code."""
    return EngineConfig(
        study=study.name,
        metric=study.metric,
        mode=study.mode,
        seed=study.seed,
        version=study.version,
        keep_checkpoints=study.keep_checkpoints,
        share=study.share,
        can_evaluate=study.can_evaluate,
        shared_as=study.trainable if study.shared else "",
        defaults=study.defaults,
    )


def write_study_file(store: Store, study: StudyFile) -> None:
    """Write ``study.json``, indented for people."""
    store.write(STUDY_FILE, msgspec.json.format(msgspec.json.encode(study), indent=2) + b"\n")


class Replayed(msgspec.Struct, frozen=True):
    """The result of a replay, apart from the state."""

    last: int
    """Number of the last record, 0 if there is none."""
    last_s: float
    """Driver's clock at the last record, 0.0 if there is none."""
    notes: tuple[str, ...] = ()
    """Sentences about the recovery."""


def replay(store: Store, state: StudyState) -> Replayed:
    """Bring a new state to the end of the store's journal, starting from the newest valid snapshot.

    Raises:
        JournalDamagedError: the journal is damaged, other than by an unfinished line at the end of a segment.
    """
    snapshot = _newest_snapshot(store, sizes=state.config.quota_bytes is not None)
    reader = SegmentReader(skip=snapshot.record if snapshot is not None else 0)
    if snapshot is not None:
        snapshots.restore(state, snapshot)
    last_s = 0.0
    for record in read_records(store, reader):
        handling.replay(state, record.event, record.actions, record.t)
        last_s = record.t
    if snapshot is not None and snapshot.record >= reader.next_number:
        raise JournalDamagedError(
            f"The journal ends with record {reader.next_number - 1}, and a snapshot was taken after record "
            f"{snapshot.record}: the journal's end is missing. Restore it from a backup, or remove the folder "
            "snapshots if you accept to lose what was in it."
        )
    return Replayed(reader.next_number - 1, last_s, tuple(reader.dropped))


def read_records(store: Store, reader: SegmentReader | None = None) -> Iterator[Record]:
    """Yield every record of the journal that the reader does not skip; for reading only."""
    reader = reader or SegmentReader()
    for name in store.journal_segments():
        yield from reader.read(name, store.read_segment(name))


def save_snapshot(store: Store, data: bytes, record: int) -> None:
    """Write a snapshot, and remove all except the newest few."""
    store.write(f"snapshots/{record:012d}.json", data)
    for name in store.list("snapshots")[:-_KEPT_SNAPSHOTS]:
        store.remove(f"snapshots/{name}")


def _newest_snapshot(store: Store, *, sizes: bool) -> snapshots.Snapshot | None:
    """Return the newest valid snapshot; with ``sizes``, only one that has the sizes of checkpoints."""
    for name in reversed(store.list("snapshots")):
        data = store.read(f"snapshots/{name}")
        snapshot = snapshots.decode(data) if data is not None else None
        if snapshot is not None and not (sizes and snapshot.sizes is None):
            return snapshot
    return None

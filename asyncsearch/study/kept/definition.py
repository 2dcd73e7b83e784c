"""The definition of a study: written into its store when it is created, compared when it is resumed."""

from __future__ import annotations

import hashlib
import inspect
import logging
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from asyncsearch.driver.timeouts import DriverSettings
from asyncsearch.engine.config import EngineConfig
from asyncsearch.errors import StoreError, UsageError
from asyncsearch.files.plain import read_file
from asyncsearch.journal.opening import BUNDLE_FILE, StudyFile
from asyncsearch.launch.own_modules import sent_as_registered
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.old_pickles import loads
from asyncsearch.report.formatting import moment
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.sizing.gangs import Gang
from asyncsearch.sizing.packing import Packing
from asyncsearch.space import Space
from asyncsearch.store.base_store import Store
from asyncsearch.store.passwords import without_password
from asyncsearch.values.function_code import parts_digests

_log = logging.getLogger(__name__)
_SHOWN = 3
_PYTHON = b"Python "
_THIS_PYTHON = b"Python %d.%d" % sys.version_info[:2]


class StudyDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that makes a study what it is; pickled into its store, so that ``resume`` needs nothing else."""

    trainable: bytes
    space: Space
    searcher: Searcher
    scheduler: Scheduler
    config: EngineConfig
    settings: DriverSettings
    worker: dict[str, Any]
    backend: str
    shared: Store | None = None
    quota_bytes: int | None = None
    is_trusted: bool = False
    """Whether the user trusts all who may write in ``shared``."""
    packing: Packing | None = None
    """How workers get several trials together; None if each trains alone."""
    is_tolerant: bool = False
    """Whether it takes over what other studies trained in packs, though it does not pack."""
    gang: Gang | None = None
    """How many workers train a trial together; None means one."""
    keep_dirs: int | None = None
    """Of how many of the best finished trials the folders stay; None means of all."""
    devices: float | None = None
    """How many devices a worker sees, below 1: its share of one; None means those that its machine shows."""

    @property
    def takes_packed(self) -> bool:
        """Whether it takes over what other studies trained in packs."""
        return self.is_tolerant or self.packing is not None


class Code(msgspec.Struct, frozen=True):
    """Of which code a trainable is, for people and to notice that it was edited; each part is empty if unknown."""

    name: str
    """Of the trainable."""
    fingerprint: str
    """Hash of the trainable's source."""
    script: str
    """The file with that source."""
    script_sha256: str
    parts: dict[str, str]
    """Name -> digest of the functions and classes that the trainable consists of."""

    @classmethod
    def of(cls, trainable: object) -> Code:
        """Return the code of a trainable."""
        name = getattr(trainable, "__qualname__", repr(trainable))
        return cls(name, _source_hash(trainable), *_script_of(trainable), _parts_of(trainable))

    @classmethod
    def in_file(cls, study: StudyFile) -> Code:
        """Return the code that a study was created with, as its file says."""
        return cls(study.trainable, study.fingerprint, study.script, study.script_sha256, study.parts)


def _source_hash(trainable: object) -> str:
    try:
        return hashlib.sha256(inspect.getsource(trainable).encode()).hexdigest()  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


def _script_of(trainable: object) -> tuple[str, str]:
    try:
        what = trainable if inspect.isroutine(trainable) or inspect.isclass(trainable) else type(trainable)
        path = Path(inspect.getsourcefile(what) or "").resolve()
        return str(path), hashlib.sha256(read_file(path)).hexdigest()
    except (OSError, TypeError):
        return "", ""


def edit_words(study: StudyFile) -> str:
    """Return a sentence on the code that ``resume`` runs of a study, and on how to run the script as it is now."""
    words = "The code runs as it was stored"
    words += f" on {moment(study.created_s)}" if study.created_s else ""
    if not study.script:
        return f"{words}, when the study was created."
    try:
        is_edited = hashlib.sha256(read_file(study.script)).hexdigest() != study.script_sha256
    except (OSError, ValueError):  # it is on another machine, or gone, or no path
        is_edited = False
    if not is_edited:
        return f"{words}, from {study.script}."
    return (
        f"{words}. {study.script} has been edited since then: to run it as it is now, write resume=True in its "
        f"Study(...) and run python {shlex.quote(study.script)}. Tracebacks show lines of the edited file."
    )


def _parts_of(trainable: object) -> dict[str, str]:
    try:
        return parts_digests(trainable)
    except Exception as error:  # of an attribute of the user's own: the digests are for a note only
        _log.debug("The code of %r cannot be compared: %s", trainable, error)
        return {}


def read_plan(store: Store, study: StudyFile) -> StudyDefinition:
    """Unpickle what a study was created with; the store is trusted as far as the checksum in ``study.json`` goes.

    Raises:
        StoreError: the file is missing, or not the one that the study was created with, or cannot be unpickled here.
    """
    place = f"{store.shown}/{BUNDLE_FILE}"
    script = "resume from the script that made the study, with resume=True"
    data = store.read(BUNDLE_FILE) or b""
    if hashlib.sha256(data).hexdigest() != study.bundle_sha256:
        raise StoreError(
            f"{place} is not the file that the study was created with; it is not unpickled. Restore it, or {script}."
        )
    python, _, pickled = data.partition(b"\n") if data.startswith(_PYTHON) else (_THIS_PYTHON, b"", data)
    if python != _THIS_PYTHON:
        raise StoreError(
            f"{place} holds bytecode of {python.decode()}, and this is {_THIS_PYTHON.decode()}: use that Python, or "
            f"{script}."
        )
    try:
        definition = loads(pickled)
    except Exception as error:
        raise StoreError(
            f"{place} cannot be unpickled here ({type(error).__name__}: {error}). Make importable what it names, or "
            f"{script}."
        ) from error
    if not isinstance(definition, StudyDefinition):
        raise StoreError(f"{place} holds a {type(definition).__name__} instead of a study: {script}.")
    return definition


def pickled(definition: StudyDefinition) -> bytes:
    """Return a definition for its store, without keys, after a line that says which Python can read its bytecode."""
    shared = None if definition.shared is None else definition.shared.without_keys()
    with sent_as_registered():
        return _THIS_PYTHON + b"\n" + dumps(msgspec.structs.replace(definition, shared=shared))


_STAYS = "what is trained stays trained"
_SAME: Sequence[str] = (
    "name",
    "metric",
    "mode",
    "rank_by",
    "seed",
    "version",
    "space",
    "searcher",
    "scheduler",
    "defaults",
)


def require_same(old: StudyFile, new: StudyFile) -> list[str]:
    """Check that a study may be resumed as described now, and return warnings.

    Raises:
        UsageError: it is another study; names each difference.
    """
    differences = [
        f"{field}: {getattr(old, field)!r} in the store, {getattr(new, field)!r} now"
        for field in _SAME
        if getattr(old, field) != getattr(new, field)
    ]
    if bool(old.shared) != bool(new.shared):
        differences.append(
            f"shared: {without_password(old.shared)!r} in the store, {without_password(new.shared)!r} now"
        )
    if differences:
        raise UsageError(
            f"The study {old.name!r} cannot be resumed as another one. " + "; ".join(differences) + ". "
            "Use what it was created with (Study.resume(store) does), or a new store=."
        )
    return _changes(old, new)


def _changes(old: StudyFile, new: StudyFile) -> list[str]:
    """Return sentences that say what of the trainable's code, and of how it is packed, has changed."""
    notes = []
    if old.pack_opt and new.pack_opt and old.pack_opt != new.pack_opt:
        notes.append(f"Trials were packed by pack_opt={old.pack_opt}, and are by {new.pack_opt} now; {_STAYS}.")
    if old.fingerprint and new.fingerprint and old.fingerprint != new.fingerprint:
        notes.append(f"The source of {new.trainable} has changed since the study was created; {_STAYS}.")
    if old.python == new.python and old.parts and new.parts:
        names = sorted(name for name in {*old.parts, *new.parts} if old.parts.get(name) != new.parts.get(name))
        # What the source of the trainable says is said above.
        helpers = [name for name in names if not (old.fingerprint and f"{name}.".startswith(f"{new.trainable}."))]
        if helpers:
            shown = ", ".join(helpers[:_SHOWN]) + (f" and {len(helpers) - _SHOWN} more" * (len(helpers) > _SHOWN))
            verb = "has" if len(helpers) == 1 else "have"
            notes.append(f"{shown}, used by {new.trainable}, {verb} changed since the study was created; {_STAYS}.")
    return notes

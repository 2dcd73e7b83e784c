"""What a study is: written into its store when it is created, compared when it is resumed."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Sequence
from typing import Any

import cloudpickle
import msgspec

from asyncsearch.driver.loop import DriverSettings
from asyncsearch.engine.config import EngineConfig
from asyncsearch.errors import StoreError, UsageError
from asyncsearch.journal.opening import BUNDLE_FILE, StudyFile
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.space import Space
from asyncsearch.store.base_store import Store
from asyncsearch.store.passwords import without_password


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


def source_hash(trainable: object) -> str:
    """Return a hash of the trainable's source, empty where the source cannot be had."""
    try:
        return hashlib.sha256(inspect.getsource(trainable).encode()).hexdigest()  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


def read_plan(store: Store, study: StudyFile) -> StudyDefinition:
    """Unpickle what a study was created with; the store is trusted as far as the checksum in ``study.json`` goes.

    Raises:
        StoreError: the file is missing, or another one than the study was created with.
    """
    data = store.read(BUNDLE_FILE) or b""
    if hashlib.sha256(data).hexdigest() != study.bundle_sha256:
        raise StoreError(
            f"{store.shown}/{BUNDLE_FILE} is not the file that the study was created with; it is not unpickled. "
            "Restore it, or resume from the script that made the study, with resume=True."
        )
    plan = cloudpickle.loads(data)
    assert isinstance(plan, StudyDefinition)
    return plan


_SAME: Sequence[str] = ("name", "metric", "mode", "seed", "version", "space", "searcher", "scheduler", "defaults")


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
    if old.fingerprint and new.fingerprint and old.fingerprint != new.fingerprint:
        return [
            f"The source of {new.trainable} has changed since the study was created; what is trained stays trained."
        ]
    return []

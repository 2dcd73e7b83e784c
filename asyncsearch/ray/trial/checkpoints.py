"""Checkpoints as programs of Ray Tune have them: a folder that a trial reports, and finds again.

They are kept in the study's store below ``reported``, each under the trial's name and the number of its report, with
that report beside it, so that the best of them can be found by any metric, by whoever opens the store.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from asyncsearch.errors import UsageError
from asyncsearch.files.plain import read_file, read_text
from asyncsearch.files.trees import copy_tree, remove_tree
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.plan.keys import digest
from asyncsearch.store.base_store import Store

FOLDER = "reported"
NAMED_FILE = ".path"
"""In a checkpoint of a class: the path that its ``save_checkpoint`` returned, inside the folder."""
_FILES, _REPORT = "checkpoint", "report.json"
_DICTIONARY, _METADATA = "dict_checkpoint.pkl", ".metadata.json"


class DirCheckpoint:
    """A folder with the state of a model; in programs it is ``Checkpoint``."""

    def __init__(self, path: str | Path, filesystem: Any = None) -> None:
        if filesystem is not None:
            raise UsageError("Checkpoint(filesystem=...) is not known here: give the path of a folder of this machine.")
        self.path = str(path)
        self._stored: tuple[Store, CheckpointRef] | None = None
        """Where it is, if that is a store that is not on this machine."""

    @classmethod
    def from_directory(cls, path: str | Path) -> DirCheckpoint:
        """Return the checkpoint of a folder."""
        return cls(path)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DirCheckpoint:
        """Return a checkpoint of a dictionary."""
        made = cls.temporary()
        (Path(made.path) / _DICTIONARY).write_bytes(pickle.dumps(dict(data)))
        return made

    @classmethod
    def temporary(cls) -> DirCheckpoint:
        """Return one in an empty folder, which is removed with it."""
        made = cls(tempfile.mkdtemp(prefix="asyncsearch-checkpoint-"))
        weakref.finalize(made, _remove, made.path, os.getpid())
        return made

    def to_dict(self) -> dict[str, Any]:
        """Return the dictionary that it was made of."""
        with self.as_directory() as folder:
            file = Path(folder) / _DICTIONARY
            if not file.exists():
                names = ", ".join(sorted(os.listdir(folder)))
                raise UsageError(f"This checkpoint was not made by from_dict: it has {names}; read as_directory().")
            return dict(unpickled(file))

    def to_directory(self, path: str | Path | None = None) -> str:
        """Copy the checkpoint to a folder, and return its path. None means a new one."""
        target = Path(tempfile.mkdtemp(prefix="asyncsearch-checkpoint-") if path is None else path)
        with self.as_directory() as folder:
            copy_tree(folder, target)
        return str(target)

    @contextlib.contextmanager
    def as_directory(self) -> Iterator[str]:
        """Provide a folder of this machine with its files, to be read inside the ``with``."""
        if self._stored is None:
            yield self.path
            return
        store, reference = self._stored
        with store.fetch(reference) as folder:
            yield str(folder / _FILES)

    def get_metadata(self) -> dict[str, Any]:
        """Return the metadata that ``set_metadata`` has written."""
        with self.as_directory() as folder:
            file = Path(folder) / _METADATA
            return dict(json.loads(read_text(file))) if file.exists() else {}

    def set_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Write a dictionary of plain values beside the files."""
        (Path(self.path) / _METADATA).write_text(json.dumps(dict(metadata)))

    def update_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Add to what ``set_metadata`` has written."""
        self.set_metadata({**self.get_metadata(), **metadata})

    def __fspath__(self) -> str:
        """Return the path as former programs open it: the file that ``save_checkpoint`` has named, else the folder."""
        named = Path(self.path) / NAMED_FILE
        return str(Path(self.path) / read_text(named)) if named.exists() else self.path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DirCheckpoint) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"Checkpoint(path={self.path})"


def unpickled(file: Path) -> Any:
    """Return the state in a file that a trial of this program has written."""
    return pickle.loads(read_file(file))  # noqa: S301  # the program's own, as its model is


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:  # else a forked child ends, and the folder is its parent's
        with contextlib.suppress(OSError):
            remove_tree(folder)


class KeptCheckpoint(NamedTuple):
    """A checkpoint in the store."""

    iteration: int
    """Number of its report."""
    metrics: dict[str, Any]
    checkpoint: DirCheckpoint


class TrialCheckpoints:
    """The checkpoints of one trial."""

    def __init__(self, store: Store, trial: str) -> None:
        self._store, self._node = store.child(FOLDER), NodeKey(digest("ray", trial))

    def keep(self, checkpoint: DirCheckpoint, iteration: int, metrics: Mapping[str, Any]) -> None:
        """Copy a checkpoint to the store; return when it is durable: a program may write over its folder then."""
        reference = CheckpointRef(self._node, iteration)
        staged = self._store.stage(reference)
        with checkpoint.as_directory() as folder:
            if not Path(folder).is_dir():
                raise UsageError(f"The reported checkpoint {folder!r} is no folder: give the path of one.")
            copy_tree(folder, staged / _FILES)
        (staged / _REPORT).write_text(json.dumps(dict(metrics)))
        self._store.commit(reference, staged)

    def all(self) -> list[KeptCheckpoint]:
        """Return the checkpoints that are there, the oldest first."""
        return [self._kept(reference) for reference in self._store.checkpoints(self._node)]

    def newest(self) -> KeptCheckpoint | None:
        """Return the last one that was reported. None if there is none."""
        found = self._store.checkpoints(self._node)
        return self._kept(max(found, key=lambda one: one.resource)) if found else None

    def at(self, iteration: int) -> KeptCheckpoint:
        """Return that of a report."""
        return self._kept(CheckpointRef(self._node, iteration))

    def delete(self, iteration: int) -> None:
        """Remove one."""
        self._store.delete(CheckpointRef(self._node, iteration))

    def _kept(self, reference: CheckpointRef) -> KeptCheckpoint:
        with self._store.fetch(reference) as folder:
            metrics = json.loads(read_text(folder / _REPORT))
            found = DirCheckpoint(folder / _FILES)
        if self._store.is_far:
            found = DirCheckpoint(f"{self._store.shown}/{reference.node}/{reference.resource}/{_FILES}")
            found._stored = self._store, reference
        return KeptCheckpoint(reference.resource, metrics, found)


def worst_first(kept: list[KeptCheckpoint], attribute: str | None, order: str) -> list[KeptCheckpoint]:
    """Return checkpoints in the order in which they are given up: by a metric, else the oldest first."""
    if attribute is None:
        return sorted(kept, key=lambda one: one.iteration)
    sign = 1 if order == "max" else -1

    def rank(one: KeptCheckpoint) -> tuple[bool, float, int]:
        value = one.metrics.get(attribute)
        is_there = isinstance(value, int | float) and value == value
        return is_there, sign * value if is_there and value is not None else 0.0, one.iteration

    return sorted(kept, key=rank)

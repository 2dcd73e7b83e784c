"""The folders of trials on this worker: where each is made, and its way to the study's store once its training is over.

What a trial goes on from is in its checkpoint. This is what people read, and lasts as long as the study.
"""

from __future__ import annotations

import itertools
import logging
import os
from pathlib import Path

from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.files.trees import remove_tree
from asyncsearch.runner import trial_folder
from asyncsearch.runner.trial_folder import FolderPlace
from asyncsearch.store.base_store import Store
from asyncsearch.store.scratch import make_folder, remove_folder

_log = logging.getLogger(__name__)


class TrialFolders:
    """Gives each training a place, and stores the files that it has put there.

    Args:
        store: takes them. None if only those in checkpoints are kept.
        most_bytes: the most that one folder may hold.
    """

    def __init__(self, store: Store | None, most_bytes: int) -> None:
        self._store, self._most_bytes = store, most_bytes
        self._numbers = itertools.count()
        self._root: Path | None = None

    def place(self) -> FolderPlace:
        """Return a place of its own for a training; nothing is made there."""
        if self._root is None:
            self._root = make_folder("trials")
        return FolderPlace(str(self._root / f"trial-{next(self._numbers)}"), self._most_bytes)

    def is_used(self, run: LaneRun) -> bool:
        """Return whether the training has made its folder."""
        return bool(run.place.path) and os.path.lexists(run.place.path)

    def publish(self, run: LaneRun) -> None:
        """Store the folder of a training that is over.

        Raises:
            StoreError: the store could not make it durable.
            UsageError: it holds too much, or what cannot be read.
            OSError: it cannot be read now.
        """
        if self._store is not None and not run.is_follower:
            trial_folder.require_small(Path(run.place.path), run.place.most_bytes, run.trial)
            _store(run, self._store)

    def remove(self, run: LaneRun) -> None:
        """Remove the folder of a training from this machine."""
        if self.is_used(run):
            remove_tree(run.place.path)

    def close(self) -> None:
        """Remove all folders."""
        if self._root is not None:
            remove_folder(self._root)


def _store(run: LaneRun, store: Store) -> None:
    staged = store.stage(run.reached)
    try:
        trial_folder.copy(Path(run.place.path), staged, run.trial)
        store.commit(run.reached, staged)
    except BaseException:
        store.discard(staged)
        raise


def warn(run: LaneRun, error: Exception) -> None:
    """Say that a folder could not be stored."""
    _log.warning("The folder of %s at %s could not be stored: %s", run.trial, run.reached, error)

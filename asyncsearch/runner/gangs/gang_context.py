"""A trial that several workers train together, as one of its ranks sees it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asyncsearch.errors import StoreError
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.gangs.agreement import GangLink
from asyncsearch.runner.gangs.gang_shards import GangShards
from asyncsearch.trainable import SaveFunction
from asyncsearch.work import Stage


class GangContext(SearchContext):
    """Rank 0 reports and saves; the others train along, and pause and stop where it does."""

    def __init__(self, stages: Sequence[Stage], link: GangLink, load: Path | None, **options: Any) -> None:
        """Begin; the rest is as in ``SearchContext``."""
        super().__init__(stages, link, load, **options)
        self._gang, link.judged = link, self._timeline.judged
        self._has_volume = False
        """Whether the driver was told the volume of the ranks' messages."""
        self.has_reported = not link.is_first  # rank 0 reports for all

    @property
    def gang(self) -> GangLink:
        return self._gang

    @property
    def rank(self) -> int:
        return self._gang.seat.rank

    @property
    def world_size(self) -> int:
        return self._gang.seat.size

    def process_group(self, backend: str | None = None) -> Any:
        # Imported here: a runner whose trials train alone, or without torch, needs none of it.
        from asyncsearch.trainers.torch.gangs.connection import open_group

        self._require_training("process_group()")
        return open_group(self._gang, backend)

    def note_volume(self, steps: int, gradient_bytes: int) -> None:
        if not self._has_volume:
            self._has_volume = True
            self._gang.note_volume(steps, gradient_bytes)

    def _may_wait(self, at: int) -> bool:
        # Without epochs() a rank would not know that the first one waits, and train on.
        return self.uses_epochs and super()._may_wait(at)

    def _agree(self) -> None:
        self._timeline.judged = self._gang.agree(self._timeline.judged)

    def _save(self, save: SaveFunction) -> str | None:
        self._gang.gather()
        if self._gang.is_first:
            return super()._save(save)
        self._timeline.saved(self._done)
        if self._gang.shards is not None:
            self._save_shard(save, self._gang.shards)
        return None

    def _save_shard(self, save: SaveFunction, shards: GangShards) -> None:
        """Save this rank's shard; an error of rank 0 is told by rank 0."""

        def save_own(path: Path) -> None:
            save(path)
            shards.keep_own(path)

        index = self._timeline.index_at(self._done)
        try:
            self._write(save_own, index)
        except Exception as error:
            if self._timeline.is_save_needed(self._done) and not isinstance(error, StoreError):
                raise
            self._gang.save_failed(index, self._done, error)

    def _write(self, save: SaveFunction, index: int) -> None:
        write, shards = super()._write, self._gang.shards
        if shards is None:
            write(save, index)
        else:
            self._gang.written = shards.write(lambda: write(save, index), index, self._done)

    def _add_folder(self, checkpoint: Path) -> None:
        if self._gang.is_first:
            super()._add_folder(checkpoint)

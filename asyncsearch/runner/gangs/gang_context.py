"""A trial that several workers train together, as one of its ranks sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncsearch.errors import StoreError
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.gangs.gang_link import GangLink
from asyncsearch.runner.gangs.gang_shards import GangShards
from asyncsearch.trainable import SaveFunction
from asyncsearch.work import Stage

if TYPE_CHECKING:
    from asyncsearch.trainers.keras.gangs.rings import Ring


class GangContext(SearchContext):
    """Rank 0 reports and saves; the others train along, and pause and stop where it does."""

    def __init__(self, stages: Sequence[Stage], link: GangLink, load: Path | None, **options: Any) -> None:
        """Begin; the rest is as in ``SearchContext``."""
        super().__init__(stages, link, load, **options)
        self._gang = link
        self._has_volume = False
        """Whether the driver was told what the ranks tell each other."""
        self.has_reported = not link.is_first  # rank 0 reports for all
        self._gather: Callable[[], None] = lambda: None
        self._shards: GangShards | None = None
        """None: rank 0 saves alone."""

    @property
    def rank(self) -> int:
        return self._gang.seat.rank

    @property
    def world_size(self) -> int:
        return self._gang.seat.size

    def process_group(self, backend: str | None = None) -> Any:
        # Imported here: a runner whose trials train alone, or without torch, needs none of it.
        from asyncsearch.trainers.torch.gangs.process_groups import open_group

        self._require_training("process_group()")
        return open_group(self._gang, backend)

    def ring(self) -> Ring:
        """Return what sums arrays over the ranks; the first call in a training makes it, and every rank makes it."""
        from asyncsearch.trainers.keras.gangs.rings import open_ring

        self._require_training("ring()")
        return open_ring(self._gang)

    def note_volume(self, steps: int, gradient_bytes: int) -> None:
        if not self._has_volume:
            self._has_volume = True
            self._gang.note_volume(steps, gradient_bytes)

    def before_saving(self, gather: Callable[[], None]) -> None:
        """Let every rank call a function before rank 0 saves, which brings together what the ranks have in parts."""
        self._gather = gather

    def save_in_shards(self, strategy: str, file: str) -> None:
        """Let every rank save, each its shard of what ``strategy`` has divided, in a file of this name."""
        self._shards = GangShards(self._gang, strategy, file)

    def _agree(self) -> None:
        self._gang.agree()

    def _save(self, save: SaveFunction) -> str | None:
        self._gather()
        if self._gang.is_first:
            return super()._save(save)
        self._timeline.saved(self._done)
        if self._shards is not None:
            self._save_shard(save, self._shards)
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
        write = super()._write
        if self._shards is None:
            write(save, index)
        else:
            self._gang.shards = self._shards.write(lambda: write(save, index), index, self._done)

    def _add_folder(self, checkpoint: Path) -> None:
        if self._gang.is_first:
            super()._add_folder(checkpoint)

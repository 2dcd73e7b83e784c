"""A trial that several workers train together, as one of its ranks sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.gang_link import GangLink
from asyncsearch.trainable import SaveFunction
from asyncsearch.work import Stage

if TYPE_CHECKING:
    from asyncsearch.trainers.rings import Ring


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

    @property
    def rank(self) -> int:
        return self._gang.seat.rank

    @property
    def world_size(self) -> int:
        return self._gang.seat.size

    def process_group(self, backend: str | None = None) -> Any:
        # Imported here: a runner whose trials train alone, or without torch, needs none of it.
        from asyncsearch.trainers.process_groups import open_group

        return open_group(self._gang, backend)

    def ring(self) -> Ring:
        """Return what sums arrays over the ranks; the first call in a training makes it, and every rank makes it."""
        from asyncsearch.trainers.rings import open_ring

        return open_ring(self._gang)

    def note_volume(self, steps: int, gradient_bytes: int) -> None:
        if not self._has_volume:
            self._has_volume = True
            self._gang.note_volume(steps, gradient_bytes)

    def before_saving(self, gather: Callable[[], None]) -> None:
        """Let every rank call a function before rank 0 saves, which brings together what the ranks have in parts."""
        self._gather = gather

    def _agree(self) -> None:
        self._gang.agree()

    def _save(self, save: SaveFunction) -> str | None:
        self._gather()
        if self._gang.is_first:
            return super()._save(save)
        self._timeline.saved(self._done)
        return None

"""A bracket of asynchronous halving: its trials never wait for each other."""

from __future__ import annotations

from typing import Any

from asyncsearch.schedulers.base_scheduler import Promotion
from asyncsearch.schedulers.bracket import Bracket
from asyncsearch.schedulers.progress import Progress


class AsynchronousBracket(Bracket):
    """Promotes a trial as soon as it is among the best ⌊n/η⌋ of its rung."""

    __slots__ = ("_reduction_factor", "ready")

    def __init__(
        self, levels: tuple[int, ...], reduction_factor: int, progress: Progress, *, is_endless: bool = False
    ) -> None:
        super().__init__(levels, progress, reduction_factor if is_endless else None)
        self._reduction_factor = reduction_factor
        self.ready = -1
        """Index of the highest rung from which a trial may be promoted; -1: there is none."""

    def next_promotion(self) -> Promotion | None:
        """Return the promotion of the best candidate of the highest rung that has one."""
        candidate = self.rungs[self.ready].candidate if self.ready >= 0 else None
        return None if candidate is None else self.promotion(self.ready, candidate)

    def _changed(self, index: int) -> None:
        """Set the quota of the rung: the best ⌊n/η⌋ of Algorithm 2."""
        rung = self.rungs[index]
        rung.allow(rung.size // self._reduction_factor)
        self._update_ready(index)

    def _update_ready(self, index: int) -> None:
        rungs = self.rungs
        if rungs[index].candidate is not None:
            if self.ready < index < self.top:
                self.ready = index
        elif index == self.ready:
            self.ready = next((below for below in range(index - 1, -1, -1) if rungs[below].candidate is not None), -1)

    def restore_rungs(self, progress: Progress, snapshot: list[dict[str, Any]]) -> None:
        super().restore_rungs(progress, snapshot)
        self.ready = -1
        for index in range(self.top):
            self._update_ready(index)

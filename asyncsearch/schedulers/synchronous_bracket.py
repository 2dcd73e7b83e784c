"""A bracket of synchronous halving: its trials wait for each other at every rung."""

from __future__ import annotations

from typing import Any

from asyncsearch.ids import TrialId
from asyncsearch.schedulers.base_scheduler import Promotion
from asyncsearch.schedulers.bracket import Bracket
from asyncsearch.schedulers.progress import Progress


class SynchronousBracket(Bracket):
    """Decides each rung once, when all trials that train towards it have reached it or failed."""

    __slots__ = ("_reduction_factor", "_stage", "created", "size", "start")

    def __init__(
        self, levels: tuple[int, ...], reduction_factor: int, progress: Progress, start: int, size: int | None
    ) -> None:
        super().__init__(levels, progress)
        self.start = start
        """How many trials the brackets before it have."""
        self.size = size
        """How many trials it will have; None: as many as there will be."""
        self.created = 0
        self._reduction_factor = reduction_factor
        self._stage = 0  # the rung that is being filled, or from which trials are being promoted

    @property
    def is_full(self) -> bool:
        """Whether no further trial belongs to it."""
        return self.size is not None and self.created >= self.size

    def create(self, trial: TrialId) -> None:
        """A trial of the bracket began."""
        self.created += 1
        self._progress.begin(trial)

    def close(self, size: int) -> None:
        """Accept no more than this many trials."""
        self.size = size
        self.advance()

    @property
    def is_ready(self) -> bool:
        """Whether a rung is decided and not all of its best trials are promoted yet."""
        return self._stage < self.top and self.rungs[self._stage].candidate is not None

    def next_promotion(self) -> Promotion | None:
        """Return the promotion of the best trial of the decided rung that is not promoted yet."""
        candidate = self.rungs[self._stage].candidate
        return None if candidate is None or not self.is_ready else self.promotion(self._stage, candidate)

    def advance(self) -> None:
        """Decide the rung if its last trial is there; turn to the rung above when all that may are promoted."""
        while self._stage < self.top:
            rung = self.rungs[self._stage]
            if not self.is_full or rung.size < self._expected():
                return
            # Of the bracket's size and not of the rung's, which is smaller where few had a finite value.
            rung.allow(self.created // self._reduction_factor ** (self._stage + 1))
            if rung.candidate is not None:
                return
            self._stage += 1

    def _expected(self) -> int:
        return self.created if self._stage == 0 else self.rungs[self._stage - 1].promoted

    def snapshot(self) -> dict[str, Any]:
        """Return everything as JSON values; the progress belongs to the owner."""
        return {
            "start": self.start,
            "size": self.size,
            "created": self.created,
            "stage": self._stage,
            "rungs": self.rungs_snapshot(),
        }

    @classmethod
    def restored(
        cls, levels: tuple[int, ...], reduction_factor: int, progress: Progress, snapshot: dict[str, Any]
    ) -> SynchronousBracket:
        """Return the bracket that ``snapshot`` described."""
        bracket = cls(levels, reduction_factor, progress, snapshot["start"], snapshot["size"])
        bracket.created = snapshot["created"]
        bracket._stage = snapshot["stage"]
        bracket.restore_rungs(progress, snapshot["rungs"])
        return bracket

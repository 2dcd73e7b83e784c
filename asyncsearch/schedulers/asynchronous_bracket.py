"""A bracket of asynchronous halving: trials that never wait for each other."""

from __future__ import annotations

from typing import Any

from asyncsearch.ids import TrialId
from asyncsearch.schedulers.base_scheduler import Promotion
from asyncsearch.schedulers.bracket_rungs import BracketRungs
from asyncsearch.schedulers.progress import Progress


class AsynchronousBracket:
    """One ladder on which a trial goes on as soon as it is among the best ⌊n/η⌋ of its rung."""

    __slots__ = ("_reduction_factor", "ladder", "ready")

    def __init__(
        self, levels: tuple[int, ...], reduction_factor: int, progress: Progress, *, is_endless: bool = False
    ) -> None:
        self.ladder = BracketRungs(levels, progress, reduction_factor if is_endless else None)
        self._reduction_factor = reduction_factor
        self.ready = -1
        """Index of the highest rung from which a trial may go on; -1: there is none."""

    def next_promotion(self) -> Promotion | None:
        """Return the best trial that may go on, of the highest rung that has one."""
        candidate = self.ladder.rungs[self.ready].candidate if self.ready >= 0 else None
        return None if candidate is None else self.ladder.promotion(self.ready, candidate)

    def promote(self, trial: TrialId, resource: int) -> None:
        """Let a trial go on from the rung at ``resource``."""
        self._look(self.ladder.promote(trial, resource))

    def arrive(self, trial: TrialId, resource: int, score: float | None) -> None:
        """A trial pauses at a rung."""
        self._update(self.ladder.arrive(trial, resource, score))

    def end(self, trial: TrialId, score: float | None) -> None:
        """A trial ended for good; see ``BracketRungs.end``."""
        self._update(self.ladder.end(trial, score))

    def _update(self, index: int | None) -> None:
        """Set the quota of a rung that somebody reached: the top ⌊n/η⌋ of Algorithm 2."""
        if index is not None:
            rung = self.ladder.rungs[index]
            rung.allow(rung.size // self._reduction_factor)
            self._look(index)

    def _look(self, index: int) -> None:
        """See whether somebody may go on from a rung that has changed."""
        rungs = self.ladder.rungs
        if rungs[index].candidate is not None:
            if self.ready < index < self.ladder.top:
                self.ready = index
        elif index == self.ready:
            self.ready = next((below for below in range(index - 1, -1, -1) if rungs[below].candidate is not None), -1)

    def snapshot(self) -> list[dict[str, Any]]:
        """Return the rungs as JSON values; the progress belongs to the owner."""
        return self.ladder.snapshot()

    def restore(self, progress: Progress, snapshot: list[dict[str, Any]]) -> None:
        """Become the race that ``snapshot`` described, of trials that stand where ``progress`` says."""
        self.ladder.restore(progress, snapshot)
        self.ready = -1
        for index in range(self.ladder.top):
            self._look(index)

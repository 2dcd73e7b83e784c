"""The checkpoints of the best reports, where these rank trials: kept although their trials train on. Pure.

As many as finished trials keep. ``learning`` and ``applying`` change them; ``wants`` says where a training is to save.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from asyncsearch.ids import CheckpointRef, TrialId


class BestSaved(msgspec.Struct):
    """Trial -> score and checkpoint of its best report, of the best trials; empty where the last report ranks."""

    size: int
    """How many are kept at most."""
    entries: dict[TrialId, tuple[float, CheckpointRef]] = {}

    def wants(self, trial: TrialId, score: float | None) -> bool:
        """Return whether a report with this score would be one of them."""
        if score is None or not self.size:
            return False
        others = [(its, one) for one, (its, _) in self.entries.items() if one != trial]
        return len(others) < self.size or (score, trial) < max(others)

    def put(
        self,
        trial: TrialId,
        score: float,
        checkpoint: CheckpointRef,
        hold: Callable[[CheckpointRef], None],
        release: Callable[[CheckpointRef], None],
    ) -> None:
        """Keep a checkpoint, if it is one of the best, and let go of what it takes the place of."""
        if not self.wants(trial, score):
            return
        hold(checkpoint)
        self.remove(trial, release)
        self.entries[trial] = score, checkpoint
        if len(self.entries) > self.size:
            self.remove(max((its, one) for one, (its, _) in self.entries.items())[1], release)

    def remove(self, trial: TrialId, release: Callable[[CheckpointRef], None]) -> None:
        """Let go of the one of a trial, if there is one."""
        if trial in self.entries:
            release(self.entries.pop(trial)[1])

    def checkpoints(self) -> list[CheckpointRef]:
        """Return the checkpoints that are kept."""
        return [checkpoint for _, checkpoint in self.entries.values()]

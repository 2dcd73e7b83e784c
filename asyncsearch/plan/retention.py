"""Decides which trials keep their checkpoints: the best finished ones, as many as a quota of bytes allows. Pure.

Checkpoints of unfinished trials are reachable, since a trial may continue from them: they count, and stay. Under a
quota those of paused trials go first that will not continue in the present run.
"""

from __future__ import annotations

import bisect
import heapq
import math
from collections import Counter
from collections.abc import Callable, Mapping

from asyncsearch.ids import CheckpointRef, TrialId

_ASKED = 8
"""Paused trials of a resource that are asked; of Hyperband, those of several brackets wait at one."""


class BestTrials:
    """The ``size`` best finished trials that have a checkpoint."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._entries: list[tuple[float, TrialId]] = []

    def offer(self, trial: TrialId, score: float | None) -> TrialId | None:
        """Offer a finished trial (smaller scores are better); return the one to drop, perhaps the same, or None."""
        if score is None or self.size == 0:
            return trial
        bisect.insort(self._entries, (score, trial))
        return self._entries.pop()[1] if len(self._entries) > self.size else None

    def would_keep(self, trial: TrialId, score: float | None) -> bool:
        """Return whether a trial that finished with this score would be one of them."""
        if score is None or not self.size:
            return False
        return len(self._entries) < self.size or (score, trial) < self._entries[-1]

    def remove(self, trials: set[TrialId]) -> None:
        """Remove trials whose checkpoint is gone."""
        self._entries = [entry for entry in self._entries if entry[1] not in trials]

    def trials(self) -> list[TrialId]:
        """Return the trials, best first."""
        return [trial for _, trial in self._entries]

    def snapshot(self) -> list[tuple[float, TrialId]]:
        """Return the entries, best first."""
        return list(self._entries)

    def restore(self, entries: list[tuple[float, TrialId]]) -> None:
        """Restore the state of a snapshot."""
        self._entries = [(score, TrialId(trial)) for score, trial in entries]


class PausedTrials:
    """Paused trials by the resource at which they wait, so that the worst of each is found without a look at all."""

    def __init__(self) -> None:
        self._heaps: dict[int, list[tuple[float, int]]] = {}
        """Resource -> minus score and minus trial, the worst first; some wait there no more."""

    def add(self, trial: TrialId, resource: int, score: float | None) -> None:
        """Add a trial that pauses; no score is the worst."""
        worst_first = -math.inf if score is None else -score, -trial
        heapq.heappush(self._heaps.setdefault(resource, []), worst_first)

    def first(
        self, has_checkpoint: Callable[[TrialId, int], bool], may_go: Callable[[TrialId], bool]
    ) -> TrialId | None:
        """Return the worst trial of the lowest resource that may give up its checkpoint. None if none of them may.

        A few of each resource are asked. Where the worst may not, a better one hardly ever may, and thousands may wait.

        Args:
            has_checkpoint: whether a trial waits at a resource, and has a checkpoint.
            may_go: whether it may give that up.
        """
        return next(
            (found for at in sorted(self._heaps) if (found := self._first_at(at, has_checkpoint, may_go)) is not None),
            None,
        )

    def _first_at(
        self, resource: int, has_checkpoint: Callable[[TrialId, int], bool], may_go: Callable[[TrialId], bool]
    ) -> TrialId | None:
        heap, found = self._heaps[resource], None
        asked: list[tuple[float, int]] = []
        while heap and found is None and len(asked) < _ASKED:
            trial = TrialId(-heap[0][1])
            if not has_checkpoint(trial, resource):
                heapq.heappop(heap)
            elif may_go(trial):
                found = trial
            else:
                asked.append(heapq.heappop(heap))
        for entry in asked:
            heapq.heappush(heap, entry)
        return found


class CheckpointSizes:
    """The durable checkpoints of a study and their sizes, against a quota if there is one."""

    def __init__(self, quota_bytes: int | None) -> None:
        self.quota_bytes = quota_bytes
        self.sizes: dict[CheckpointRef, int] = {}
        """Bytes of each durable checkpoint."""
        self.total_bytes = 0

    @property
    def is_over(self) -> bool:
        """Whether the total size exceeds the quota."""
        return self.quota_bytes is not None and self.total_bytes > self.quota_bytes

    def put(self, checkpoint: CheckpointRef, size_bytes: int) -> None:
        """Count a checkpoint; one that was stored again counts once."""
        self.total_bytes += size_bytes - self.sizes.get(checkpoint, 0)
        self.sizes[checkpoint] = size_bytes

    def take(self, checkpoint: CheckpointRef) -> None:
        """Stop counting a checkpoint."""
        self.total_bytes -= self.sizes.pop(checkpoint, 0)

    def snapshot(self) -> list[tuple[CheckpointRef, int]]:
        """Return the sizes, in an order that does not depend on when they were added."""
        return sorted(self.sizes.items(), key=lambda entry: (entry[0].node, entry[0].resource))

    def restore(self, sizes: Mapping[CheckpointRef, int]) -> None:
        """Restore the state of a snapshot."""
        self.sizes = dict(sizes)
        self.total_bytes = sum(self.sizes.values())


def checkpoint_to_spare(
    trials: list[TrialId],
    checkpoint_of: Callable[[TrialId], CheckpointRef | None],
    references: Mapping[CheckpointRef, int],
) -> CheckpointRef | None:
    """Return the checkpoint to give up first: the worst trial's, if no other trial needs it.

    ``trials`` keep checkpoints, best first, and the first one's is never given up. ``references`` counts the trials and
    attempts that would continue from each checkpoint, or keep it.
    """
    kept = [checkpoint_of(trial) for trial in trials]
    counts = Counter(kept)
    for checkpoint in reversed(kept):
        if checkpoint is not None and checkpoint != kept[0] and references[checkpoint] == counts[checkpoint]:
            return checkpoint
    return None

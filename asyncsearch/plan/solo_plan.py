"""The search plan of a study whose trials share nothing: ``plan.plan.SearchPlan`` without its tree. Pure.

Each trial trains in a node of its own, the last one on its path, so what is left to train is one stage for each trial
that asks; everything costs O(log n) with a small constant. The nodes before that are of those from whose checkpoint it
goes on; where that is lost, it trains all of its way in its own. Where ways may meet, ``SearchPlan`` is taken.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Collection
from typing import NamedTuple

from asyncsearch.ids import CheckpointRef, NodeKey, TrialId
from asyncsearch.plan.costs import KnownCosts
from asyncsearch.plan.search_plan import Batch, PlannedStage, PlanPath


class SoloRequest(NamedTuple):
    """What a trial asks for."""

    path: PlanPath
    target: int


class SoloPlan:
    """Requests, durable checkpoints and running batches, one node a trial."""

    def __init__(self) -> None:
        self._wishes: dict[TrialId, SoloRequest] = {}
        self._nodes: dict[NodeKey, TrialId] = {}
        """Who asks for a node."""
        self._saved: dict[NodeKey, list[int]] = {}
        self._runs: dict[int, NodeKey] = {}
        self._leases: dict[NodeKey, int] = {}
        self._queue: list[tuple[bool, TrialId, NodeKey]] = []
        """Urgent trials first, then by id; entries that are outdated stay until they come up."""
        self._unmeasured: set[CheckpointRef] = set()

    def request(self, trial: TrialId, path: PlanPath, target: int, *, is_urgent: bool = False) -> None:
        """Let a trial ask for ``target``, in place of what it asked for before."""
        self.withdraw(trial)
        node = path[-1].node
        self._wishes[trial] = SoloRequest(path, target)
        self._nodes[node] = trial
        heapq.heappush(self._queue, (not is_urgent, trial, node))

    def withdraw(self, trial: TrialId) -> None:
        """Let a trial ask for nothing."""
        wish = self._wishes.pop(trial, None)
        if wish is not None:
            del self._nodes[wish.path[-1].node]

    def target_of(self, trial: TrialId) -> int | None:
        """Return what a trial asks for."""
        wish = self._wishes.get(trial)
        return None if wish is None else wish.target

    def add_checkpoint(self, ref: CheckpointRef, lease: int | None = None) -> None:
        """Count a checkpoint as durable."""
        saved = self._saved.setdefault(ref.node, [])
        if ref.resource not in saved:
            insort(saved, ref.resource)

    def advance(self, lease: int, resource: int) -> None:
        """What a lease has done decides nothing here."""

    def remove_checkpoint(self, ref: CheckpointRef) -> None:
        """Count a checkpoint as lost."""
        saved = self._saved.get(ref.node, [])
        if ref.resource in saved:
            saved.remove(ref.resource)
        if not saved:
            self._saved.pop(ref.node, None)
        self._unmeasured.discard(ref)

    def expect_metric(self, ref: CheckpointRef) -> None:
        """Know that the metric was not reported at a checkpoint: its trial stays there until it is evaluated."""
        self._unmeasured.add(ref)

    def add_metric(self, ref: CheckpointRef) -> None:
        """Know that the metric was reported."""
        self._unmeasured.discard(ref)

    def lacks_metric(self, ref: CheckpointRef) -> bool:
        """Return whether a durable checkpoint is to be evaluated, should its trial ask for it."""
        return ref in self._unmeasured

    def block(self, node: NodeKey) -> None:
        """What others train concerns nobody here."""

    def unblock(self, node: NodeKey) -> None:
        """What others have trained concerns nobody here."""

    @property
    def blocked(self) -> frozenset[NodeKey]:
        """Nothing waits for others."""
        return frozenset()

    def nearest(self, path: PlanPath, resource: int) -> CheckpointRef | None:
        """Return the last durable checkpoint at or before ``resource``."""
        for start, node in reversed(path):
            saved = self._saved.get(node)
            if saved:
                at = bisect_right(saved, resource)
                if at:
                    return CheckpointRef(node, saved[at - 1])
            resource = min(resource, start)  # beyond there another trial went on with other values
        return None

    def begin(self, lease: int, batch: Batch) -> None:
        """Let a lease train a batch that ``next_batch`` returned just now."""
        node = batch.stages[0].node
        self._runs[lease], self._leases[node] = node, lease

    def resume(self, lease: int, batch: Batch, path: PlanPath = ()) -> None:
        """Know that a lease trains a batch that was begun before this plan was made."""
        self.begin(lease, batch)

    def end(self, lease: int) -> None:
        """Let nothing run under a lease any more."""
        node = self._runs.pop(lease)
        del self._leases[node]
        trial = self._nodes.get(node)
        if trial is not None:
            heapq.heappush(self._queue, (False, trial, node))

    def cut(self, lease: int, stop: int) -> None:
        """A batch of one stage has no tail that only others want."""

    def add_save_point(self, lease: int, node: NodeKey, resource: int) -> None:
        """Nobody else needs a checkpoint on the way."""

    def readers_at(self, node: NodeKey, resource: int) -> list[TrialId]:
        """Return the trial of a node, if it waits for the unit that ends at ``resource``."""
        trial = self._nodes.get(node)
        return [trial] if trial is not None and self._wishes[trial].target >= resource else []

    def targets_at(self, node: NodeKey, resource: int) -> list[TrialId]:
        """Return the trial of a node, if it asks for just this resource."""
        trial = self._nodes.get(node)
        return [trial] if trial is not None and self._wishes[trial].target == resource else []

    def leases_on(self, path: PlanPath) -> list[int]:
        """Return the lease under which the node is trained, if it is."""
        lease = self._leases.get(path[-1].node)
        return [] if lease is None else [lease]

    def wanted_stop(self, lease: int) -> int:
        """Return what is still asked for of what a lease trains; 0: nothing."""
        trial = self._nodes.get(self._runs[lease])
        return 0 if trial is None else self._wishes[trial].target

    def splits(self, lease: int) -> list[tuple[NodeKey, int]]:
        """Return where others need a checkpoint: nowhere."""
        return []

    def set_cost(self, node: NodeKey, seconds_per_unit: float) -> None:
        """What a unit takes decides nothing here."""

    def costs(self) -> KnownCosts | None:
        """Return what is known of costs: nothing."""
        return None

    def restore_costs(self, known: KnownCosts) -> None:
        """What a unit took decides nothing here."""

    def next_batch(self, held: Collection[CheckpointRef] = ()) -> Batch | None:
        """Return what to train next, None: nothing now. Urgent trials come first, then the oldest."""
        while self._queue:
            is_other, trial, node = self._queue[0]
            if self._nodes.get(node) != trial or node in self._leases:
                heapq.heappop(self._queue)
                continue
            path, target = self._wishes[trial]
            load = self.nearest(path, target)
            start = 0 if load is None else load.resource
            return Batch(load, (PlannedStage(node, start, target, (trial,)),), not is_other)
        return None

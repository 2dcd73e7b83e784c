"""The search plan of a study whose trials share nothing: ``SearchPlan`` without its tree. Pure.

Each trial trains in its own node, the last one on its path, so the training left to do is one stage for each trial
with a request; every operation costs O(log n) with a small constant. The earlier nodes belong to the trials from whose
checkpoints it continues; if that checkpoint is lost, the trial trains its whole path in its own node. Where paths may
share nodes, ``SearchPlan`` is used.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from asyncsearch.ids import CheckpointRef, NodeKey, PathStep, TrialId
from asyncsearch.plan.base_plan import BasePlan, Batch, PlannedStage, PlanPath
from asyncsearch.plan.keys import canonical, digest, path
from asyncsearch.plan.known_reports import NoReports
from asyncsearch.plan.nodes import ascending
from asyncsearch.trial import Trial


class SoloRequest(NamedTuple):
    """The request of a trial."""

    path: PlanPath
    target: int


class SoloPlan(BasePlan):
    """Requests, durable checkpoints and running batches, one node a trial."""

    def __init__(self) -> None:
        self.reports = NoReports()
        self._requests: dict[TrialId, SoloRequest] = {}
        self._nodes: dict[NodeKey, TrialId] = {}
        """The trial that requests a node."""
        self._saved: dict[NodeKey, list[int]] = {}
        self._runs: dict[int, NodeKey] = {}
        self._leases: dict[NodeKey, int] = {}
        self._queue: list[tuple[bool, TrialId, NodeKey]] = []
        """Urgent trials first, then by id; outdated entries stay until they reach the top."""
        self._unmeasured: set[CheckpointRef] = set()

    def path(self, root: NodeKey, params: Mapping[str, Any], horizon: int, trial: TrialId) -> PlanPath:
        # One node, even if values change on the path: no other trial trains in any part of it.
        return path(root, params, horizon, str(trial))[:1]

    def branch_path(
        self, root: NodeKey, params: Mapping[str, Any], horizon: int, trial: TrialId, donor: Trial, load: CheckpointRef
    ) -> PlanPath:
        before = tuple([step for step in donor.steps if step.start < load.resource])
        if before[-1].node != load.node:  # trained again from 0, when the donor's checkpoint was lost
            before = (PathStep(0, load.node),)
        return (*before, PathStep(load.resource, digest(root, str(load.resource), canonical(params), str(trial))))

    def request(self, trial: TrialId, path: PlanPath, target: int, *, is_urgent: bool = False) -> None:
        self.withdraw(trial)
        node = path[-1].node
        self._requests[trial] = SoloRequest(path, target)
        self._nodes[node] = trial
        heapq.heappush(self._queue, (not is_urgent, trial, node))

    def withdraw(self, trial: TrialId) -> None:
        request = self._requests.pop(trial, None)
        if request is not None:
            del self._nodes[request.path[-1].node]

    def target_of(self, trial: TrialId) -> int | None:
        request = self._requests.get(trial)
        return None if request is None else request.target

    def add_checkpoint(self, ref: CheckpointRef, lease: int | None = None) -> None:
        saved = self._saved.setdefault(ref.node, [])
        if ref.resource not in saved:
            insort(saved, ref.resource)

    def remove_checkpoint(self, ref: CheckpointRef) -> None:
        saved = self._saved.get(ref.node, [])
        if ref.resource in saved:
            saved.remove(ref.resource)
        if not saved:
            self._saved.pop(ref.node, None)
        self._unmeasured.discard(ref)

    def expect_metric(self, ref: CheckpointRef) -> None:
        self._unmeasured.add(ref)

    def add_metric(self, ref: CheckpointRef) -> None:
        self._unmeasured.discard(ref)

    def lacks_metric(self, ref: CheckpointRef) -> bool:
        return ref in self._unmeasured

    def has_report(self, ref: CheckpointRef, trials: Sequence[Trial]) -> bool:
        return all(trials[n].value_resource >= ref.resource for n in self.subscribers_at(ref.node, ref.resource))

    def nearest(self, path: PlanPath, resource: int) -> CheckpointRef | None:
        for start, node in reversed(path):
            saved = self._saved.get(node)
            if saved:
                at = bisect_right(saved, resource)
                if at:
                    return CheckpointRef(node, saved[at - 1])
            resource = min(resource, start)  # beyond it another trial continued with other values
        return None

    def begin(self, lease: int, batch: Batch) -> None:
        node = batch.stages[0].node
        self._runs[lease], self._leases[node] = node, lease

    def resume(self, lease: int, batch: Batch, path: PlanPath = ()) -> None:
        self.begin(lease, batch)

    def extension(self, lease: int, trial: TrialId, path: PlanPath, start: int, stop: int) -> tuple[PlannedStage, ...]:
        return (PlannedStage(path[-1].node, start, stop, (trial,)),)

    def end(self, lease: int) -> None:
        node = self._runs.pop(lease)
        del self._leases[node]
        if (trial := self._nodes.get(node)) is not None:
            heapq.heappush(self._queue, (False, trial, node))

    def subscribers_at(self, node: NodeKey, resource: int) -> list[TrialId]:
        trial = self._nodes.get(node)
        return [trial] if trial is not None and self._requests[trial].target >= resource else []

    def requesters_at(self, node: NodeKey, resource: int) -> list[TrialId]:
        trial = self._nodes.get(node)
        return [trial] if trial is not None and self._requests[trial].target == resource else []

    def leases_on(self, path: PlanPath) -> list[int]:
        lease = self._leases.get(path[-1].node)
        return [] if lease is None else [lease]

    def wanted_stop(self, lease: int) -> int:
        trial = self._nodes.get(self._runs[lease])
        return 0 if trial is None else self._requests[trial].target

    def next_batch(self, held: Collection[CheckpointRef] = ()) -> Batch | None:
        """Return the batch to train next, or None if there is none now. Urgent trials come first, then the oldest."""
        while self._queue:
            is_other, trial, node = self._queue[0]
            if self._nodes.get(node) != trial or node in self._leases:
                heapq.heappop(self._queue)
                continue
            return self._batch(trial, node, is_urgent=not is_other)
        return None

    def ready_batches(self, most: int, held: Collection[CheckpointRef] = ()) -> list[Batch]:
        found: dict[NodeKey, Batch] = {}
        for is_other, trial, node in ascending(self._queue):
            if self._nodes.get(node) != trial or node in self._leases or node in found:
                continue
            found[node] = self._batch(trial, node, is_urgent=not is_other)
            if len(found) >= most:
                break
        return list(found.values())

    def _batch(self, trial: TrialId, node: NodeKey, *, is_urgent: bool) -> Batch:
        path, target = self._requests[trial]
        load = self.nearest(path, target)
        start = 0 if load is None else load.resource
        return Batch(load, (PlannedStage(node, start, target, (trial,)),), is_urgent)

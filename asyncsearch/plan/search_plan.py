"""The search plan: from requests, durable checkpoints and running batches it derives the next batch. Pure.

A trial requests a resource on its path. Trials whose paths have common nodes share the training there; the training
left to do is the stage tree (``plan.stage_tree``), and a worker gets one of its paths from the root to a leaf, a batch.
Nodes with nothing left to train take no memory, except for the resources of their durable checkpoints.

Every operation costs O(depth · log n), whatever the number of nodes, and the same operations give the same batches.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from asyncsearch.errors import InternalError
from asyncsearch.ids import CheckpointRef, NodeKey, TrialId, trial_name
from asyncsearch.plan.base_plan import BasePlan, Batch, PlannedStage, PlanPath
from asyncsearch.plan.costs import KnownCosts
from asyncsearch.plan.keys import path
from asyncsearch.plan.known_reports import KnownReports
from asyncsearch.plan.nodes import PlanNode, Point, Span
from asyncsearch.plan.stage_tree import ORIGIN, StageTree
from asyncsearch.trial import Trial

LISTED = 10
"""How many of the trials that wait for a stage are listed; there may be as many as the plan has."""


class Request(NamedTuple):
    """The request of a trial."""

    node: PlanNode
    target: int
    is_urgent: bool


class SearchPlan(BasePlan):
    """Requests, durable checkpoints and running batches; the next batch follows from them."""

    is_shared = True

    def __init__(self) -> None:
        self.reports = KnownReports()
        self._tree = StageTree()
        self._requests: dict[TrialId, Request] = {}
        self._runs: dict[int, list[Span]] = {}
        self._goals: dict[int, CheckpointRef] = {}
        """The position at which each lease will end."""

    def path(self, root: NodeKey, params: Mapping[str, Any], horizon: int, trial: TrialId) -> PlanPath:
        return path(root, params, horizon)

    def branch_path(
        self, root: NodeKey, params: Mapping[str, Any], horizon: int, trial: TrialId, donor: Trial, load: CheckpointRef
    ) -> PlanPath:
        return path(root, params, horizon)

    def request(self, trial: TrialId, path: PlanPath, target: int, *, is_urgent: bool = False) -> None:
        last, steps = -1, []
        for step in path:
            if not last < step[0] < target:
                break
            last = step[0]
            steps.append(step)
        is_broken = len(steps) < len(path) and path[len(steps)][0] < target
        if is_broken or not steps or steps[0][0] != 0:
            raise InternalError(
                f"{trial_name(trial)} asks for {target} on a path whose nodes begin at {[start for start, _ in path]}: "
                "a path begins at 0, ascends, and is asked for something above 0."
            )
        request = Request(self._tree.enter(steps), target, is_urgent)
        former = self._requests.get(trial)
        if former == request:
            return
        self._requests[trial] = request
        self._tree.add_request(request.node, target, trial, is_urgent)
        if former is not None:
            # After the new one is added: else nodes that both need would go, and their measured costs with them.
            self._tree.remove_request(former.node, former.target, trial, former.is_urgent)

    def withdraw(self, trial: TrialId) -> None:
        request = self._requests.pop(trial, None)
        if request is not None:
            self._tree.remove_request(request.node, request.target, trial, request.is_urgent)

    def target_of(self, trial: TrialId) -> int | None:
        request = self._requests.get(trial)
        return None if request is None else request.target

    def add_checkpoint(self, ref: CheckpointRef, lease: int | None = None) -> None:
        if not self._tree.save(ref):
            return
        node = self._tree.nodes.get(ref.node)
        spans = [] if node is None else node.spans
        for span in [s for s in spans if s.position < ref.resource <= s.stop and lease in (None, s.lease)]:
            run = self._runs[span.lease]
            for earlier in reversed(run[: run.index(span)]):
                if earlier.position == earlier.stop:
                    break
                self._tree.advance(earlier, earlier.stop)
            self._tree.advance(span, ref.resource)

    def advance(self, lease: int, resource: int) -> None:
        for span in reversed(self._runs.get(lease, [])):
            if span.position < resource:
                self._tree.advance(span, resource)

    def remove_checkpoint(self, ref: CheckpointRef) -> None:
        self._tree.lose(ref)

    def expect_metric(self, ref: CheckpointRef) -> None:
        if ref.resource in self._tree.saved.get(ref.node, ()):
            self._tree.evaluations.unmeasured.add(ref)
            self._tree.reweigh(ref)

    def add_metric(self, ref: CheckpointRef) -> None:
        if ref in self._tree.evaluations.unmeasured:
            self._tree.evaluations.unmeasured.remove(ref)
            self._tree.reweigh(ref)

    def lacks_metric(self, ref: CheckpointRef) -> bool:
        return ref in self._tree.evaluations.unmeasured

    def has_report(self, ref: CheckpointRef, trials: Sequence[Trial]) -> bool:
        return self.reports.has(ref.node, ref.resource)

    def block(self, node: NodeKey) -> None:
        self._tree.block(node)

    def unblock(self, node: NodeKey) -> None:
        self._tree.unblock(node)

    @property
    def blocked(self) -> frozenset[NodeKey]:
        return frozenset(self._tree.blocked)

    def nearest(self, path: PlanPath, resource: int) -> CheckpointRef | None:
        return self._tree.nearest(path, resource)

    def begin(self, lease: int, batch: Batch) -> None:
        if lease in self._runs:
            raise InternalError(f"work-{lease} trains a batch already; end it before it begins another one.")
        for stage in batch.stages:
            end = CheckpointRef(stage.node, stage.stop)
            find = self._tree.evaluations.find if stage.start == stage.stop else self._tree.find
            point = find(end)
            if point is None or point.host is None or point.host.resource != stage.start:
                raise InternalError(
                    f"work-{lease} begins units {stage.start} to {stage.stop} of node {stage.node}, which are no "
                    "pending stage: begin a batch before anything else is told to the plan."
                )
        self.resume(lease, batch)

    def resume(self, lease: int, batch: Batch, path: PlanPath = ()) -> None:
        self._tree.enter(step for step in path if step.start < batch.stages[-1].stop)
        spans: list[Span] = []
        for stage in batch.stages:
            node = self._tree.nodes.get(stage.node)
            if node is None:
                continue
            if not spans or spans[-1].node is not node:
                spans.append(Span(lease, node, stage.start, stage.stop))
            spans[-1].stop = stage.stop
            if stage.save:
                spans[-1].boundaries.add(stage.stop)
        self._runs[lease] = spans
        self._aim(lease, CheckpointRef(batch.stages[-1].node, batch.stages[-1].stop))
        for span in spans:
            self._tree.start(span)

    def extension(self, lease: int, trial: TrialId, path: PlanPath, start: int, stop: int) -> tuple[PlannedStage, ...]:
        if any(True for _ in self.reports.between(path, start, stop)):
            return ()
        stages: list[PlannedStage] = []
        ends = [*(step.start for step in path[1:]), stop]
        for step, end in zip(path, ends, strict=True):
            low, high = max(step.start, start), min(end, stop)
            if low < high:
                if self._tree.is_taken(step.node, low, high):
                    return ()
                stages.append(PlannedStage(step.node, low, high, (trial,)))
        return tuple(stages)

    def extend(self, lease: int, stages: Sequence[PlannedStage], *, save: bool) -> None:
        spans = self._runs[lease]
        if not save:
            spans[-1].boundaries.discard(spans[-1].stop)
        for stage in stages:
            if spans[-1].node.key == stage.node:
                self._tree.lengthen(spans[-1], stage.stop)
            else:
                spans.append(Span(lease, self._tree.nodes[stage.node], stage.start, stage.stop))
                self._tree.start(spans[-1])
            spans[-1].boundaries.add(stage.stop)
        if stages:
            self._aim(lease, CheckpointRef(stages[-1].node, stages[-1].stop))

    def has_others(self, ref: CheckpointRef) -> bool:
        point = self._tree.find(ref)
        return point is not None and (bool(point.trials) or point.count > 1)

    def end(self, lease: int) -> None:
        for span in reversed(self._runs.pop(lease, [])):
            self._tree.shorten(span, span.position)
        self._aim(lease, None)

    def cut(self, lease: int, stop: int) -> None:
        for span in reversed(self._runs.get(lease, [])):
            if stop < span.stop:
                self._tree.shorten(span, stop)
                span.boundaries.add(span.stop)
        for span in reversed(self._runs.get(lease, [])):
            if span.begin < stop:
                self._aim(lease, CheckpointRef(span.node.key, min(stop, span.stop)))
                return

    def add_save_point(self, lease: int, node: NodeKey, resource: int) -> None:
        for span in self._runs.get(lease, ()):
            if span.node.key == node and span.begin < resource <= span.stop:
                span.boundaries.add(resource)

    def wanted_stop(self, lease: int) -> int:
        for span in reversed(self._runs.get(lease, [])):
            wanted = span.node.points_in(span.position, span.stop)
            if wanted:
                return wanted[-1].resource
            if span.begin == span.stop and self.requesters_at(span.node.key, span.stop):
                return span.stop
        return 0

    def splits(self, lease: int) -> list[tuple[NodeKey, int]]:
        return [
            (span.node.key, point.resource)
            for span in self._runs.get(lease, ())
            for point in span.node.points_in(span.position, span.stop)
            if point.resource not in span.boundaries
        ]

    def set_cost(self, node: NodeKey, seconds_per_unit: float) -> None:
        if not (math.isfinite(seconds_per_unit) and seconds_per_unit >= 0):
            raise InternalError(
                f"a unit of node {node} takes {seconds_per_unit} s: give seconds that are finite and not negative."
            )
        self._tree.measure(node, seconds_per_unit)

    def costs(self) -> KnownCosts | None:
        return self._tree.costs()

    def restore_costs(self, known: KnownCosts) -> None:
        self._tree.restore_costs(known)

    def subscribers_at(self, node: NodeKey, resource: int) -> list[TrialId]:
        known = self._tree.nodes.get(node)
        if known is None:
            return []
        found: list[TrialId] = []
        for point in known.points[bisect_left(known.resources, resource) :]:
            found += point.trials
        stack = [child for child in (known.children or {}).values() if child.start >= resource]
        while stack:
            here = stack.pop()
            for point in here.points:
                if point.trials:
                    found += point.trials
            if here.children:
                stack += here.children.values()
        found.sort()
        return found

    def requesters_at(self, node: NodeKey, resource: int) -> list[TrialId]:
        point = self._tree.find(CheckpointRef(node, resource))
        return [] if point is None else list(point.trials)

    def leases_on(self, path: PlanPath) -> list[int]:
        found: list[int] = []
        for _, key in path:
            node = self._tree.nodes.get(key)
            if node is not None and node.spans:
                found += [span.lease for span in node.spans]
        return list(dict.fromkeys(found)) if len(found) > 1 else found

    def next_batch(self, held: Collection[CheckpointRef] = ()) -> Batch | None:
        """Return the batch to train next, or None if there is none now.

        The first stage can begin at once and is chosen by, in this order: an urgent request needs it; it loads a
        checkpoint in ``held``, and no path is much longer (``HELD_WORTH``); the longest path from it to a leaf; the
        least training after it, so that few checkpoints are alive; the smallest trial. From there the same order,
        without ``held``, leads to a leaf.
        """
        point = self._tree.ready.choose(self._held_points(held))
        return None if point is None else self._batch(point)

    def ready_batches(self, most: int, held: Collection[CheckpointRef] = ()) -> list[Batch]:
        first = self._tree.ready.choose(self._held_points(held))
        found = {} if first is None else {first: None}
        for point in self._tree.ready.in_order():
            if len(found) >= most:
                break
            found[point] = None
        return [self._batch(point) for point in found]

    def _held_points(self, held: Collection[CheckpointRef]) -> list[Point]:
        return [found for ref in held if (found := self._tree.find(ref)) is not None]

    def _batch(self, first: Point) -> Batch:
        """Return the batch that begins with a stage, which can begin now."""
        assert first.host is not None
        point: Point | None = first
        load = None if first.host.node.key == ORIGIN else CheckpointRef(first.host.node.key, first.host.resource)
        ends = []
        while point is not None:
            ends.append(point)
            point = point.best_urgent() or point.best()
        stages: list[PlannedStage] = []
        trials: tuple[TrialId, ...] = ()
        after: Point | None = None
        for end in reversed(ends):
            if end.size > LISTED:
                trials = tuple(end.first_trials(LISTED))
            elif end.size > len(trials):
                others = end.trials + _trials_after([stage for stage in end.stages() if stage is not after])
                trials = tuple(sorted([*trials, *others]))
            assert end.host is not None
            # Where one stage goes on and no trial stops, its worker has the state; others ask for it when they come.
            is_saved = after is None or bool(end.trials) or end.count > 1
            more = end.size - len(trials)
            stages.append(PlannedStage(end.node.key, end.host.resource, end.resource, trials, more, is_saved))
            after = end
        return Batch(load, tuple(reversed(stages)), ends[0].is_urgent)

    def _aim(self, lease: int, goal: CheckpointRef | None) -> None:
        """Set the position at which a lease will end and may still report. None if it is over."""
        awaited, former = self._tree.evaluations.awaited, self._goals.pop(lease, None)
        if goal is not None:
            self._goals[lease] = goal
            awaited[goal] += 1
            self._reweigh(goal)
        if former is not None:
            awaited[former] -= 1
            if not awaited[former]:
                del awaited[former]
            self._reweigh(former)

    def _reweigh(self, goal: CheckpointRef) -> None:
        """Update the evaluation of a position; without a missing metric there is none."""
        if goal in self._tree.evaluations.unmeasured:
            self._tree.reweigh(goal)


def _trials_after(points: list[Point]) -> list[TrialId]:
    """Return the trials that request these points, or points that are trained from them."""
    found: list[TrialId] = []
    stack = list(points)
    while stack:
        point = stack.pop()
        found += point.trials
        stack += point.stages()
    return found

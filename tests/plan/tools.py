"""What the tests of the plan share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from hypothesis import strategies as st

from asyncsearch.ids import CheckpointRef, NodeKey, PathStep, TrialId
from asyncsearch.plan import search_plan as plan_module
from asyncsearch.plan.base_plan import Batch, PlanPath
from asyncsearch.plan.nodes import PlanNode, Point, PointState
from asyncsearch.plan.search_plan import SearchPlan
from asyncsearch.plan.stage_tree import ORIGIN
from tests.plan.algorithm import (
    Facts,
    NodeFacts,
    PendingStage,
    Position,
    RequestFacts,
    Source,
    SpanFacts,
    choose,
    generate,
)


def path(*steps: str) -> PlanPath:
    """Return a path whose nodes have readable keys: ``path("0a", "4b")`` begins at 0 in node ``0a``, at 4 ``0a/4b``."""
    keys = ["/".join(steps[: depth + 1]) for depth in range(len(steps))]
    return tuple(PathStep(int(step[:-1]), NodeKey(key)) for step, key in zip(steps, keys, strict=True))


def ref(node: str, resource: int) -> CheckpointRef:
    return CheckpointRef(NodeKey(node), resource)


def ask(plan: SearchPlan, trial: int, steps: str, target: int, *, is_urgent: bool = False) -> None:
    """Let a trial ask on the path whose steps are separated by slashes."""
    plan.request(TrialId(trial), path(*steps.split("/")), target, is_urgent=is_urgent)


def begin(plan: SearchPlan, lease: int, held: Collection[CheckpointRef] = ()) -> Batch:
    batch = plan.next_batch(held)
    assert batch is not None
    plan.begin(lease, batch)
    return batch


def words(batch: Batch | None) -> list[str]:
    """Return a batch as words: what it loads, then its stages."""
    if batch is None:
        return []
    stages = [f"{stage.node} {stage.start}-{stage.stop}" for stage in batch.stages]
    return ["fresh" if batch.load is None else str(batch.load), *stages]


def tree(plan: SearchPlan) -> list[str]:
    """Return all pending stages as words: node, interval, and where it begins."""
    return [
        f"{s.node} {s.start}-{s.stop} {s.source.value}"
        for s in sorted(stages_of(plan), key=lambda s: (s.start, s.stop, s.node))
    ]


def check(plan: SearchPlan, *helds: Collection[CheckpointRef]) -> dict[Position, PendingStage]:
    """Hold the plan's stages and its choices against those that are generated afresh; return the stages."""
    kept = {(stage.node, stage.stop): stage for stage in stages_of(plan)}
    fresh = generate(facts_of(plan))
    assert kept == fresh
    for held in ((), *helds):
        chosen = choose(fresh, held)
        batch = plan.next_batch(held)
        assert (batch is None) == (not chosen)
        if batch is not None:
            assert batch.load == chosen[0].load
            assert [(s.node, s.start, s.stop) for s in batch.stages] == [(s.node, s.start, s.stop) for s in chosen]
            assert batch.is_urgent == chosen[0].is_urgent
            check_waiting(plan, fresh, batch, chosen)
    return kept


def check_waiting(
    plan: SearchPlan, stages: Mapping[Position, PendingStage], batch: Batch, chosen: Sequence[PendingStage]
) -> None:
    """A batch lists who waits for each of its stages: who asks for its end, or for what follows it."""
    asking: defaultdict[Position, list[TrialId]] = defaultdict(list)
    for trial, request in facts_of(plan).requests.items():
        asking[request.node, request.target].append(trial)
    following: defaultdict[CheckpointRef | None, list[PendingStage]] = defaultdict(list)
    for stage in stages.values():
        following[stage.load].append(stage)
    for planned, stage in list(zip(batch.stages, chosen, strict=True))[-10:]:
        found: list[TrialId] = []
        ahead = [stage]
        while ahead:
            here = ahead.pop()
            found += asking[here.node, here.stop]
            if here.start < here.stop:
                ahead += [s for s in following[CheckpointRef(here.node, here.stop)] if s.start < s.stop]
        assert list(planned.trials) == sorted(found)[: plan_module.LISTED]
        assert len(planned.trials) + planned.more == len(found)


@st.composite
def paths(draw: st.DrawFn) -> PlanPath:
    """Return a path of a small forest, so that many of them have nodes in common."""
    starts = draw(st.sets(st.sampled_from([2, 3, 5, 8]), max_size=3))
    return path(*(f"{start}{draw(st.sampled_from('ab'))}" for start in [0, *sorted(starts)]))


def stages_of(plan: SearchPlan) -> Iterator[PendingStage]:
    """Return every pending stage, those of parents before those of their children."""
    for node in plan._tree.nodes.values():
        for point in node.points:
            if point.host is not None:
                yield _pending_stage(point, point.host)
    for evaluation in plan._tree.evaluations._stages.values():
        assert evaluation.host is not None
        yield _pending_stage(evaluation, evaluation.host)


def facts_of(plan: SearchPlan) -> Facts:
    """Return all that the stages follow from, for ``algorithm``."""
    nodes = [node for node in plan._tree.nodes.values() if node.parent is not None]
    return Facts(
        nodes={n.key: NodeFacts(_parent_key(n), n.start, n.cost) for n in nodes},
        saved={key: list(resources) for key, resources in plan._tree.saved.items() if key != ORIGIN},
        running=[SpanFacts(s.lease, n.key, s.position, s.stop) for n in nodes for s in n.spans if s.begin < s.stop],
        requests={t: RequestFacts(r.node.key, r.target, r.is_urgent) for t, r in plan._requests.items()},
        blocked=plan.blocked,
        unmeasured=frozenset(plan._tree.evaluations.unmeasured - plan._tree.evaluations.awaited.keys()),
    )


def _parent_key(node: PlanNode) -> NodeKey | None:
    return None if node.parent is None or node.parent.key == ORIGIN else node.parent.key


def _pending_stage(point: Point, host: Point) -> PendingStage:
    if host.node.key == ORIGIN:
        source, load = Source.FRESH, None
    else:
        source = {
            PointState.DURABLE: Source.SAVED,
            PointState.RUNNING: Source.RUNNING,
            PointState.PENDING: Source.STAGE,
        }[host.state]
        load = CheckpointRef(host.node.key, host.resource)
    return PendingStage(
        node=point.node.key,
        start=host.resource,
        stop=point.resource,
        source=source,
        load=load,
        height=-point.key[0],
        total=point.key[1],
        trial=TrialId(point.key[2]),
        is_urgent=point.is_urgent,
    )

"""What a search plan holds, as the literal Algorithm 1 needs it: the two are compared."""

from __future__ import annotations

from collections.abc import Iterator

from asyncsearch.ids import CheckpointRef, NodeKey, TrialId
from asyncsearch.plan.nodes import PlanNode, Point, PointState
from asyncsearch.plan.search_plan import SearchPlan
from asyncsearch.plan.stage_tree import ORIGIN
from tests.plan.algorithm import Facts, NodeFacts, PendingStage, RequestFacts, Source, SpanFacts


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

"""What the tests of the plan share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from hypothesis import strategies as st

from asyncsearch.ids import CheckpointRef, NodeKey, PathStep, TrialId
from asyncsearch.plan import search_plan as plan_module
from asyncsearch.plan.base_plan import Batch, PlanPath
from asyncsearch.plan.search_plan import SearchPlan
from tests.plan.algorithm import PendingStage, Position, choose, generate
from tests.plan.plan_facts import facts_of, stages_of


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

"""A trial goes on with the weights of another one, and its params say how they came to be."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.actions import AnyAction, Assign, Branch, CreateTrial, DeleteCheckpoint, ExtendWork, Promote
from asyncsearch.engine import snapshot
from asyncsearch.engine.next_trials import branch
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import InternalError
from asyncsearch.events import AnyEvent, CheckpointCommitted, DriverStarted, Reported, RunRequested
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, PathStep, TrialId, WorkerId
from asyncsearch.journal.format import Record, SegmentReader
from asyncsearch.journal.projection import history
from asyncsearch.plan.keys import path
from asyncsearch.report.explain import explain
from asyncsearch.report.tree.tree import tree
from asyncsearch.schedulers import FIFO, PBT, Offspring, Promotion
from asyncsearch.schedulers.pbt_state import PBTState
from asyncsearch.sequences import multistep
from asyncsearch.simulate import Delays, Faults, Loss
from asyncsearch.space import Space, choice, loguniform, randint, uniform
from asyncsearch.testing.random_cluster import RandomCluster
from asyncsearch.testing.recording import HISTORIES, restored_from
from asyncsearch.trial import TrialState
from asyncsearch.work import Lane, Stage, Work
from tests.engine.tools import (
    Recorded,
    live_through,
    make_state,
    record,
    replayed,
    require_each_state,
    require_same_decisions,
    results,
)
from tests.examples import examples
from tests.shares import takes_long

SPACE = Space({"lr": loguniform(1e-4, 1e-1), "momentum": choice(0.8, 0.9, 0.95), "layers": randint(1, 9)})
CHANGING = Space({"lr": loguniform(1e-4, 1e-1), "decay": multistep(0.1, milestones=choice([3], [7]))})
FREE = PBT(max_resource=12, perturbation_interval=3)
IN_STEP = PBT(max_resource=12, perturbation_interval=3, synchronous=True)
TRIALS = 12
BOTH = pytest.mark.parametrize("share", [pytest.param(True, id="over the plan"), pytest.param(False, id="apart")])


def fresh(scheduler: PBT = FREE, space: Space = SPACE, **config: Any) -> StudyState:
    return make_state(scheduler, space=space, **config)


def searched(scheduler: PBT = FREE, workers: int = 4, space: Space = SPACE, **options: Any) -> Recorded:
    config = {name: options.pop(name) for name in ("seed", "max_failures", "share") if name in options}
    return record(fresh(scheduler, space, **config), TRIALS, workers, workload=HISTORIES, **options)


def branches(recorded: Recorded) -> list[Branch]:
    return [action for _, _, actions in recorded.steps for action in actions if isinstance(action, Branch)]


@pytest.mark.parametrize("workers", [1, 4, 12])
@pytest.mark.parametrize("space", [SPACE, CHANGING], ids=["constants", "sequences"])
@pytest.mark.parametrize("scheduler", [FREE, IN_STEP], ids=["free", "in step"])
def test_a_branch_loads_the_donors_checkpoint_and_shares_its_path_to_there(
    scheduler: PBT, space: Space, workers: int
) -> None:
    recorded = searched(scheduler, workers, space, delays=Delays(commit_s=0.3, message_s=0.1))
    found = branches(recorded)
    assert found
    paths = {}
    durable: set[CheckpointRef] = set()
    for _, event, actions in recorded.steps:
        if isinstance(event, CheckpointCommitted):
            durable.add(event.checkpoint)
        for action in actions:
            match action:
                case CreateTrial():
                    paths[action.trial] = path(recorded.state.root, action.params, 12)
                case Branch():
                    steps = path(recorded.state.root, action.params, 12)
                    before = [step for step in steps if step.start < action.resource]
                    assert before == [step for step in paths[action.donor] if step.start < action.resource]
                    assert CheckpointRef(before[-1].node, action.resource) in durable
                    paths[action.trial] = steps
                case DeleteCheckpoint():
                    durable.discard(action.checkpoint)
                case Assign(work=work) if work.lanes[0].load is not None:
                    assert work.lanes[0].load in durable
                case _:
                    pass


@pytest.mark.parametrize("commit_s", [0.0, 0.3, 2.3])
@pytest.mark.parametrize("scheduler", [FREE, IN_STEP], ids=["free", "in step"])
def test_those_that_are_not_replaced_go_on_in_place_and_donors_save(scheduler: PBT, commit_s: float) -> None:
    recorded = searched(scheduler, TRIALS, delays=Delays(commit_s=commit_s, message_s=0.1))
    actions = [action for _, _, actions in recorded.steps for action in actions]
    promotions = [action for action in actions if isinstance(action, Promote)]
    in_place = [action for action in actions if isinstance(action, ExtendWork) and action.stages]
    assert in_place
    assert len(in_place) == len(promotions) or scheduler.synchronous
    assert branches(recorded)
    assert not [action.reason for action in promotions if "no checkpoint" in action.reason], "its donor is waited for"


@pytest.mark.parametrize("workers", [1, 4, 12])
@pytest.mark.parametrize("space", [SPACE, CHANGING], ids=["constants", "sequences"])
@pytest.mark.parametrize("scheduler", [FREE, IN_STEP], ids=["free", "in step"])
def test_an_unshared_branch_loads_the_donors_checkpoint_into_its_own_node(
    scheduler: PBT, space: Space, workers: int
) -> None:
    recorded = searched(scheduler, workers, space, share=False, delays=Delays(commit_s=0.3, message_s=0.1))
    assert branches(recorded)
    owners: dict[NodeKey, TrialId] = {}
    ways: dict[TrialId, tuple[PathStep, ...]] = {}
    loads: dict[TrialId, CheckpointRef] = {}
    for _, _, actions in recorded.steps:
        for action in actions:
            match action:
                case CreateTrial():
                    assert owners.setdefault(action.node, action.trial) == action.trial
                    ways[action.trial] = (PathStep(0, action.node),)
                case Branch():
                    assert owners.setdefault(action.node, action.trial) == action.trial
                    before = tuple(step for step in ways[action.donor] if step.start < action.resource)
                    assert action.path == (*before, PathStep(action.resource, action.node))
                    ways[action.trial] = action.path
                    loads[action.trial] = CheckpointRef(before[-1].node, action.resource)
                case Assign(work=work):
                    (stage,), (trial,) = work.lanes[0].stages, work.lanes[0].stages[0].trials
                    assert owners[stage.node] == trial
                    assert stage.node == ways[trial][-1].node
                    if stage.start == ways[trial][-1].start > 0:
                        assert work.lanes[0].load == loads[trial]
                case _:
                    pass


@BOTH
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("space", [SPACE, CHANGING], ids=["constants", "sequences"])
@pytest.mark.parametrize("scheduler", [FREE, IN_STEP], ids=["free", "in step"])
def test_the_found_schedule_trained_as_a_sequence_is_equal_to_the_bit(
    scheduler: PBT, space: Space, seed: int, share: bool
) -> None:
    recorded = searched(
        scheduler, 3, space, seed=seed, share=share, faults=Faults(losses=[Loss(WorkerId(1), 7.0, 2.0)])
    )
    entries = list(SegmentReader().read("000001.jsonl", recorded.lines))
    for trial in recorded.state.trials:
        alone = record(make_state(FIFO(max_resource=12), space=Space(trial.params)), 1, 1, workload=HISTORIES)
        again = dict(history(SegmentReader().read("000001.jsonl", alone.lines), TrialId(0)))
        last = max((b.resource for b in branches(recorded) if b.trial == trial.id), default=0)
        since = [(resource, metrics) for resource, metrics in history(entries, trial.id) if resource > last]
        assert since == [(resource, again[resource]) for resource, _ in since]
        assert since[-1] == (12, {"loss": trial.value})


def steps_kept(state: StudyState) -> tuple[int, int]:
    """Return how many steps all ways have that differ, and how many objects those are.

    Without the first ones: a donor that never branched keeps none, and each that goes on from it makes its own.
    """
    steps = [step for trial in state.trials for step in trial.path[1:]]
    return len(set(steps)), len({id(step) for step in steps})


@BOTH
def test_the_way_that_a_trial_has_in_common_with_its_donors_is_kept_once(share: bool) -> None:
    recorded = searched(share=share)
    restored = restored_from(snapshot.encode(recorded.state, 1), fresh(share=share))
    again = replayed(fresh(share=share), recorded.lines)
    for state in (recorded.state, again, restored):
        distinct, objects = steps_kept(state)
        assert distinct == objects
    keys = {id(step.node) for trial in restored.trials for step in trial.path}
    assert {id(trial.node) for trial in restored.trials if trial.path} <= keys
    assert {
        id(node) for node in restored.plan.reports.nodes if node in {t.node for t in restored.trials if t.path}
    } <= keys


@BOTH
def test_reports_of_a_trial_rise_strictly_whatever_it_takes_over(share: bool) -> None:
    recorded = searched(workers=3, share=share)
    entries = list(SegmentReader().read("000001.jsonl", recorded.lines))
    assert branches(recorded)
    for trial in recorded.state.trials:
        resources = [resource for resource, _ in history(entries, trial.id)]
        assert resources == sorted(set(resources))


def test_a_branch_that_changes_nothing_reads_what_its_donor_has_trained() -> None:
    """Constraints that let nothing change make a twin of the donor: it has nothing left to train."""
    space = Space({"x": choice(*range(20))}, constraints=[lambda params: params["x"] % 4 == 0])
    scheduler = PBT(max_resource=12, perturbation_interval=3, resample_probability=0.0)
    recorded = record(fresh(scheduler, space), TRIALS, 1, workload=HISTORIES)
    twins = branches(recorded)
    assert twins
    assert all("keeps its values" in twin.reason for twin in twins)
    by_params: dict[int, float | None] = {}
    for trial in recorded.state.trials:
        assert by_params.setdefault(trial.params["x"], trial.value) == trial.value


@BOTH
@pytest.mark.parametrize("scheduler", [FREE, pytest.param(IN_STEP, marks=takes_long)], ids=["free", "in step"])
def test_every_journal_prefix_and_snapshot_give_the_state_of_then(scheduler: PBT, share: bool) -> None:
    options: dict[str, Any] = {
        "faults": Faults(losses=[Loss(WorkerId(0), 7.0, 2.0)], failures={TrialId(2): 5, TrialId(4): 2})
    }
    recorded = searched(scheduler, 3, max_failures=1, share=share, delays=Delays(commit_s=0.2), **options)
    assert branches(recorded)
    require_each_state(recorded, lambda: fresh(scheduler, max_failures=1, share=share))


@BOTH
def test_deciding_again_gives_the_recorded_decisions(share: bool) -> None:
    recorded = searched(workers=3, share=share, delays=Delays(commit_s=0.2))
    require_same_decisions(recorded, fresh(share=share))


@BOTH
@pytest.mark.parametrize("workers", [pytest.param(1, marks=takes_long), 3])
def test_every_journal_prefix_resumes_to_the_undisturbed_results_in_step(workers: int, share: bool) -> None:
    scheduler = PBT(max_resource=5, perturbation_interval=2, synchronous=True, quantile=0.4)
    whole = record(fresh(scheduler, share=share), 7, workers, workload=HISTORIES)
    assert branches(whole)
    for cut in range(1, len(whole.lines) + 1):
        state = replayed(fresh(scheduler, share=share), whole.lines[:cut])
        again = record(state, 7, workers, last=cut - 1, workload=HISTORIES)
        assert results(again.state) == results(whole.state), f"cut after record {cut - 1}"


class Scripted(PBTState):
    """Answers a promotion with a donor as the test says."""

    answer: Offspring | None = None

    def branch(self, promotion: Promotion, params: Any, resource: int) -> Offspring | None:
        return self.answer


def promoted(state: StudyState, promotion: Promotion) -> Sequence[AnyAction]:
    found = branch(state, promotion)
    return [] if found is None else [found]


def test_a_donor_without_a_checkpoint_that_is_as_far_is_not_taken_over() -> None:
    recorded = searched(workers=1)
    (first, *_) = branches(recorded)
    scheduler = FREE
    cut = next(n for n, (_, _, actions) in enumerate(recorded.steps, 1) if first in actions)
    state = replayed(fresh(scheduler), recorded.lines[:cut])
    promotion = next(p for p in [state.scheduler.next_promotion()] if p is not None)
    while promotion.donor is None:
        state.scheduler.promoted(promotion.trial, promotion.from_resource, promotion.to_resource)
        promotion = next(p for p in [state.scheduler.next_promotion()] if p is not None)
    assert [action.trial for action in promoted(state, promotion) if isinstance(action, Branch)] == [first.trial]
    donor = state.trials[first.donor]
    kept = donor.checkpoint
    assert kept is not None
    donor.checkpoint = None
    assert promoted(state, promotion) == []
    donor.checkpoint = CheckpointRef(kept.node, promotion.from_resource - 1)
    assert promoted(state, promotion) == []
    trial = state.trials[promotion.trial]
    reported, trial.resource = trial.resource, 1
    assert promoted(state, promotion) == [], "it stands beyond, whatever it has reported"
    trial.resource = reported
    donor.checkpoint = kept
    state.trials[promotion.trial].resource = kept.resource + 1
    assert promoted(state, promotion) == [], "it has reported beyond there"


@pytest.mark.parametrize(
    "answer",
    [
        Offspring({"lr": 0.5, "momentum": 0.8, "layers": 1}, 6, "another way"),
        Offspring({}, 6, "no way at all"),
    ],
)
def test_an_answer_that_avoids_the_donors_checkpoint_is_a_bug(answer: Offspring) -> None:
    recorded = searched(workers=1)
    (first, *_) = branches(recorded)
    cut = next(n for n, (_, _, actions) in enumerate(recorded.steps, 1) if first in actions)
    state = replayed(fresh(), recorded.lines[:cut])
    assert isinstance(state.scheduler, PBTState)
    state.scheduler.__class__ = Scripted
    state.scheduler.answer = answer  # type: ignore[attr-defined]
    promotion = Promotion(first.trial, 3, 6, "scripted", first.donor)
    with pytest.raises(InternalError, match="new params do not lead there"):
        promoted(state, promotion)
    state.scheduler.answer = Offspring(state.trials[first.donor].params, 3, "nowhere")  # type: ignore[attr-defined]
    with pytest.raises(InternalError, match="new params do not lead there"):
        promoted(state, promotion)


def test_a_retrained_donor_is_taken_over_in_the_node_of_its_retraining() -> None:
    """What a trial goes on from may be lost; then all of its way is trained in its own node, and saved there."""
    recorded = searched(workers=3, share=False)
    state = replayed(fresh(share=False), recorded.lines)
    donor = next(trial for trial in state.trials if trial.steps[-1].start > 3)
    other = next(trial for trial in state.trials if trial is not donor)
    other.resource, donor.checkpoint = 3, CheckpointRef(donor.node, 3)
    assert isinstance(state.scheduler, PBTState)
    state.scheduler.__class__ = Scripted
    state.scheduler.answer = Offspring(donor.params, 6, "scripted")  # type: ignore[attr-defined]
    (found,) = promoted(state, Promotion(other.id, 3, 6, "scripted", donor.id))
    assert isinstance(found, Branch)
    assert found.path == (PathStep(0, donor.node), PathStep(3, found.node))


@BOTH
def test_a_donor_that_fails_later_takes_nothing_from_its_branches(share: bool) -> None:
    whole = searched(workers=3, share=share)
    first = branches(whole)[0]
    recorded = searched(workers=3, share=share, faults=Faults(failures={first.donor: first.resource + 2}))
    assert recorded.state.trials[first.donor].state is TrialState.FAILED
    assert recorded.state.trials[first.trial].state is TrialState.COMPLETED
    assert first in branches(recorded)


@BOTH
def test_what_a_branch_leaves_is_deleted_and_what_it_takes_is_kept_in_need(share: bool) -> None:
    recorded = searched(workers=3, share=share)
    stored: set[CheckpointRef] = set()
    for _, event, actions in recorded.steps:
        if isinstance(event, CheckpointCommitted):
            stored.add(event.checkpoint)
        for action in actions:
            if isinstance(action, DeleteCheckpoint):
                stored.remove(action.checkpoint)
            if isinstance(action, Assign) and action.work.lanes[0].load is not None:
                assert action.work.lanes[0].load in stored
    assert len(stored) == 1, "that of the best"


def test_a_trial_keeps_best_and_last_values_until_it_reports_again() -> None:
    recorded = searched(workers=3)
    (first, *_) = branches(recorded)
    cut = next(n for n, (_, _, actions) in enumerate(recorded.steps, 1) if first in actions)
    before = replayed(fresh(), recorded.lines[:cut]).trials[first.trial]
    after = replayed(fresh(), recorded.lines[: cut + 1]).trials[first.trial]
    assert (after.value, after.best, after.best_resource) == (before.value, before.best, before.best_resource)
    assert (after.resource, after.target) == (first.resource, first.to_resource)
    assert after.state in (TrialState.WAITING, TrialState.RUNNING)
    assert (after.params, after.steps[-1].node, after.reason) == (first.params, first.node, after.reason)


@BOTH
def test_a_trial_that_takes_over_from_one_that_is_further_stands_there(share: bool) -> None:
    recorded = searched(workers=1, share=share)
    jumps = 0
    for cut, (_, _, actions) in enumerate(recorded.steps, 1):
        for action in actions:
            if isinstance(action, Branch):
                before = replayed(fresh(share=share), recorded.lines[:cut]).trials[action.trial]
                after = replayed(fresh(share=share), recorded.lines[: cut + 1]).trials[action.trial]
                jumps += before.resource < action.resource
                assert after.resource == action.resource == (after.checkpoint.resource if after.checkpoint else None)
                assert (after.value, after.value_resource) == (before.value, before.value_resource), (
                    "it reported nothing"
                )
    assert jumps


def test_reports_of_a_branch_exclude_those_it_left_and_the_donors_new_ones() -> None:
    a, b, x = NodeKey("a"), NodeKey("b"), NodeKey("x")
    lease, other = Lease(0, WorkerId(0), 1), Lease(1, WorkerId(1), 1)
    stage = Stage(a, {}, (TrialId(0), TrialId(1)), 0, 0, 6, 12)
    decided: list[AnyAction] = [
        CreateTrial(TrialId(0), {}, a, 12),
        CreateTrial(TrialId(1), {}, b, 3),
        CreateTrial(TrialId(2), {}, b, 12),
        Branch(TrialId(1), TrialId(0), 6, 9, {}, x, "exploited", (PathStep(0, a), PathStep(6, x))),
        Assign(Work(lease, (Lane((stage, Stage(x, {}, (TrialId(1),), 0, 6, 9, 12)), None),))),
        Assign(Work(other, (Lane((Stage(b, {}, (TrialId(2),), 0, 0, 12, 12),), None),))),
    ]
    entries = [Record(1, 0.0, DriverStarted("test"), tuple(decided))]
    entries += [Record(at + 1, 0.0, Reported(other, at, {"loss": 0.1})) for at in range(1, 10)]
    entries += [Record(at + 1, 0.0, Reported(lease, at, {"loss": 0.5})) for at in range(1, 10)]
    assert [resource for resource, _ in history(entries, TrialId(0))] == [1, 2, 3, 4, 5, 6]
    assert history(entries, TrialId(1)) == [(resource, {"loss": 0.5}) for resource in (7, 8, 9)]


def test_new_trials_come_before_those_that_wait_at_a_boundary() -> None:
    recorded = searched(workers=2)
    order = [
        action.work.lanes[0].stages[0].start
        for _, _, actions in recorded.steps
        for action in actions
        if isinstance(action, Assign)
    ]
    assert order[:TRIALS] == [0] * TRIALS
    assert 0 not in order[TRIALS:]


@BOTH
def test_the_stories_tell_of_branches(share: bool) -> None:
    recorded = searched(workers=3, share=share)
    entries = list(SegmentReader().read("000001.jsonl", recorded.lines))
    (first, *_) = branches(recorded)
    told = " ".join(explain(entries, first.trial, metric="loss", mode="min").split())
    assert f"exploited trial-{first.donor} at resource {first.resource}: rank" in told
    assert f"takes its weights; lr {recorded_value(first)}" in told
    assert f"from its checkpoint at {first.resource} to {first.to_resource}" in told
    told = explain(entries, first.donor, metric="loss", mode="min")
    assert f"trial-{first.trial} took over its weights at {first.resource}" in told
    shown = tree(entries, name="x", metric="loss", mode="min")
    assert f"left by trial-{first.trial} at 3" in str(shown)
    assert f"left by trial-{first.trial} at 3, which continued with the weights of others" in shown.svg
    reached = {path.trial: path.reached for path in shown.stages.paths}
    assert set(reached.values()) == {12}
    assert shown.stages.trained == sum(trial.trained for trial in recorded.state.trials)


def recorded_value(action: Branch) -> str:
    before, after = action.params["lr"]["values"][-2:]
    return f"{before:.4g} -> {after:.4g}"


WORLDS = [
    pytest.param(PBT(max_resource=9, perturbation_interval=2, quantile=0.5), id="free"),
    pytest.param(PBT(max_resource=9, perturbation_interval=3, quantile=0.5, synchronous=True), id="in step"),
    pytest.param(PBT(max_resource=9, perturbation_interval=2, population=4), id="in populations"),
]
SPACES = [
    pytest.param(Space({"x": uniform(0, 1), "n": randint(1, 4)}), id="constants"),
    pytest.param(Space({"n": randint(1, 2), "decay": multistep(0.1, milestones=choice([4], [6]))}), id="sequences"),
]


@BOTH
@pytest.mark.parametrize("own_ends", [0.0, 0.03])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("scheduler", WORLDS)
@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 300), save_every=st.sampled_from([None, 2]))
def test_whatever_happens_trials_have_their_schedules_values_and_runs_end(
    scheduler: PBT, space: Space, own_ends: float, share: bool, seed: int, steps: int, save_every: int | None
) -> None:
    def make() -> StudyState:
        return fresh(scheduler, space, max_failures=seed % 3, save_every=save_every, share=share)

    world = RandomCluster(make, random.Random(seed), own_ends=own_ends)
    live_through(world, steps)
    for trial in world.state.trials:
        assert trial.state in (TrialState.COMPLETED, TrialState.FAILED), trial
        if trial.state is TrialState.COMPLETED and not own_ends:
            assert trial.resource == trial.value_resource == 9
            assert trial.value == HISTORIES.value(trial.id, trial.params, 9)


class UnevenWorld(RandomCluster):
    """A world in which no unit takes as long as another, and what was restored once stays the same to the byte."""

    def begin_run(self) -> None:
        if self.state.run is None:
            self.tell(RunRequested(self.chance.randint(9, 24), self.chance.randint(2, 6)))

    def tell(self, event: AnyEvent) -> None:
        self.now += self.chance.choice([0.0, 0.0, 3.0, 50.0, 1_000.0])
        super().tell(event)
        if self.twin is not None:
            assert snapshot.encode(self.twin, 0) == snapshot.encode(self.state, 0)


@pytest.mark.parametrize("space", [*SPACES, pytest.param(CHANGING, id="all its own")])
@pytest.mark.parametrize("scheduler", WORLDS)
@settings(max_examples=examples(10), deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(0, 300), save_every=st.sampled_from([None, 2]))
def test_restored_and_unrestored_states_order_batches_alike_by_unit_cost(
    scheduler: PBT, space: Space, seed: int, steps: int, save_every: int | None
) -> None:
    world = UnevenWorld(
        lambda: fresh(scheduler, space, max_failures=seed % 3, save_every=save_every), random.Random(seed)
    )
    world.live(0)
    for number in range(steps):
        world.step()
        if number % 60 == 40:
            world.require_memory()
            world.require_same_decisions()
    world.drain()


def test_promotions_without_donors_are_as_they_were() -> None:
    promotions = [a for _, _, actions in searched().steps for a in actions if isinstance(a, Promote)]
    assert promotions
    assert all("goes on to" in promotion.reason for promotion in promotions)

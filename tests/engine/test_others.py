"""What other studies train is waited for, read and gone on from, and changes no result."""

from __future__ import annotations

import random
from typing import Any

import pytest

from asyncsearch.actions import CutWork
from asyncsearch.engine.affected import is_stale
from asyncsearch.engine.applying import apply
from asyncsearch.engine.attempts import Attempt
from asyncsearch.events import Learned, NodeFreed, WorkRefused
from asyncsearch.ids import Lease, NodeKey, TrialId, WorkerId
from asyncsearch.plan.base_plan import Batch, PlannedStage
from asyncsearch.schedulers import ASHA, FIFO, SHA
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.simulate import Faults, Loss, Simulation
from asyncsearch.space import Space, constant
from asyncsearch.testing.recording import Histories
from tests.engine.others import Beside, Facts
from tests.engine.player import Player
from tests.engine.test_sharing import SPACE, search, seen
from tests.engine.tools import Recorded, make_state, require_each_state, require_same_decisions

SCHEDULERS = [FIFO(max_resource=9), SHA(max_resource=9)]
SHARED: dict[str, Any] = {"share": True, "look_ahead": 1_000, "shared_as": "train", "version": "v1"}


def known() -> Facts:
    facts = Facts()
    state = make_state(FIFO(max_resource=9), GridSearch(), SPACE, **SHARED)
    Simulation(state, workload=Histories(), workers=3, watch=facts).run(None)
    return facts


def beside(scheduler: Scheduler, seed: int, losses: bool = False) -> tuple[Beside, Recorded]:
    state = make_state(scheduler, GridSearch(), SPACE, **SHARED)
    recorded = Recorded(state)
    lost = [Loss(WorkerId(at % 2), at_s=3.0 + 4 * at) for at in range(4)] if losses else []
    simulation = Beside(
        state, known(), random.Random(seed), workload=Histories(), workers=2, watch=recorded, faults=Faults(losses=lost)
    )
    end = simulation.run(None)
    assert end is not None
    assert end.is_complete, end
    return simulation, recorded


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda scheduler: scheduler.describe())
@pytest.mark.parametrize("seed", range(6))
def test_whatever_others_trained_each_trial_sees_what_it_would_see_alone(scheduler: Scheduler, seed: int) -> None:
    simulation, recorded = beside(scheduler, seed)
    alone, _ = search(SPACE, scheduler, workers=2, share=False)
    assert seen(simulation.state) == seen(alone.state)
    kinds = {type(event) for _, event, _ in recorded.steps}
    assert {Learned, WorkRefused} <= kinds
    assert not simulation.state.busy


@pytest.mark.parametrize("seed", range(3))
def test_lost_workers_and_refusals_cost_no_trial_its_result_or_its_tries(seed: int) -> None:
    simulation, _ = beside(FIFO(max_resource=9), seed, losses=True)
    alone, _ = search(SPACE, FIFO(max_resource=9), workers=2, share=False)
    assert seen(simulation.state) == seen(alone.state)
    assert not any(trial.failures for trial in simulation.state.trials)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_the_driver_may_die_at_every_record_of_what_others_have_trained(seed: int) -> None:
    _, recorded = beside(SHA(max_resource=9), seed)
    assert any(isinstance(event, NodeFreed) for _, event, _ in recorded.steps)
    require_each_state(recorded, lambda: make_state(SHA(max_resource=9), GridSearch(), SPACE, **SHARED))


def test_deciding_again_gives_the_recorded_decisions() -> None:
    _, recorded = beside(ASHA(max_resource=9), 1)
    require_same_decisions(recorded, make_state(ASHA(max_resource=9), GridSearch(), SPACE, **SHARED))


def test_news_is_news_once() -> None:
    facts = known()
    player = Player(make_state(FIFO(max_resource=9), GridSearch(), SPACE, **SHARED))
    player.begin(1, 1)
    node = next(iter(facts.reports))
    assert not is_stale(player.state, facts.upto(node, 9))
    player.tell(facts.upto(node, 9))
    assert is_stale(player.state, facts.upto(node, 9))


def test_keys_of_a_shared_study_know_its_version_and_not_its_name() -> None:
    def key(**options: object) -> str:
        player = Player(make_state(FIFO(max_resource=9), GridSearch(), SPACE, **(SHARED | options)))
        player.begin(1, 1)
        return player.state.root

    assert key() == key(study="another")
    assert len({key(), key(version="v2"), key(seed=4), key(shared_as="other"), key(shared_as="")}) == 5


def test_a_declared_default_stands_for_a_parameter_that_the_space_lacks() -> None:
    def nodes(space: Space, **options: object) -> list[str]:
        state = make_state(FIFO(max_resource=9), GridSearch(), space, **(SHARED | options))
        Simulation(state, workload=Histories(), workers=1).run(None)
        return [step.node for trial in state.trials for step in trial.steps if trial.params.get("batch_size", 32) == 32]

    lr = {"lr": constant(0.1)}
    declared = nodes(Space(lr), defaults={"batch_size": 32})
    assert declared == nodes(Space({**lr, "batch_size": constant(32)}))
    assert declared != nodes(Space(lr))


def test_a_report_beyond_a_cut_is_no_unit_of_the_node_before() -> None:
    before, after = NodeKey("a" * 32), NodeKey("b" * 32)
    stages = (PlannedStage(before, 0, 4, (TrialId(0),)), PlannedStage(after, 4, 9, (TrialId(1),)))
    state = make_state(FIFO(max_resource=9), GridSearch(), SPACE, **SHARED)
    lease = Lease(0, WorkerId(0), 1)
    attempt = state.attempts[0] = Attempt(lease, Batch(None, stages), [])
    for stop in (7, 4, 2):
        apply(state, CutWork(lease, stop), 0.0)
        assert attempt.stop == stop
        assert [attempt.node_at(resource) for resource in range(1, 10)] == 4 * [before] + 5 * [after]

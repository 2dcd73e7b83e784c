"""What trials share is trained once, and each of them sees what it would have seen alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from asyncsearch.actions import AnyAction, Assign, ExtendWork, SaveAt
from asyncsearch.engine import snapshot
from asyncsearch.engine.invariants import check
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, CheckpointCommitted, Outcome, Reported, TrainingEnded
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.schedulers import ASHA, FIFO, SHA, Hyperband, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.base_searcher import SearcherState
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.sequences import exponential, multistep, values, warmup
from asyncsearch.simulate import Faults, Loss, Simulation
from asyncsearch.space import Space, choice
from asyncsearch.testing.recording import Histories, restored_from
from asyncsearch.trial import Params, TrialState
from asyncsearch.work import Stage
from tests.engine.player import Player
from tests.engine.tools import Recorded, make_state, packed_state, replayed, results
from tests.sequences.spaces import RESNET56_EPOCHS, RESNET56_TRIALS, RESNET56_UNIQUE, resnet56_space
from tests.shares import takes_long

SPACE = Space(
    {
        "lr": choice(
            multistep(0.1, milestones=choice([4, 8], [4, 6], [6, 8])),
            warmup(2, multistep(0.1, milestones=choice([4, 8], [6, 8]))),
            exponential(0.1, gamma=choice(0.9, 0.95)),
        ),
        "batch_size": choice(32, 64),
    }
)
SCHEDULERS: list[Scheduler] = [
    FIFO(max_resource=9),
    SHA(max_resource=9),
    ASHA(max_resource=9),
    ASHA(max_resource=9, variant="stopping"),
]


class Units:
    """Counts the units that workers trained, by node; checks the state after one of ``check_every`` events."""

    def __init__(self, state: StudyState, check_every: int = 1) -> None:
        self.state, self.check_every, self.events = state, check_every, 0
        self.stages: dict[Lease, tuple[Stage, ...]] = {}
        self.trained: Counter[tuple[NodeKey, int]] = Counter()
        self.saves: list[SaveAt] = []

    def __call__(self, now: float, event: AnyEvent, actions: Sequence[AnyAction]) -> None:
        self.events += 1
        if self.events % self.check_every == 0:
            check(self.state)
        for action in actions:
            if isinstance(action, Assign):
                self.stages[action.work.lease] = action.work.lanes[0].stages
            elif isinstance(action, ExtendWork):
                self.stages[action.lease] += action.stages
        self.saves += [action for action in actions if isinstance(action, SaveAt)]
        if isinstance(event, Reported):
            stages = self.stages[event.lease]
            stage = next(s for s in stages if s.stop is None or event.resource <= s.stop)
            self.trained[stage.node, event.resource] += 1


def search(
    space: Space,
    scheduler: Scheduler,
    *,
    workers: int,
    num_trials: int | None = None,
    share: bool = True,
    **options: Any,
) -> tuple[Simulation, Units]:
    ahead = options.pop("look_ahead", 1_000 if share else 0)
    state = make_state(scheduler, GridSearch(), space, share=share, look_ahead=ahead, can_save=True)
    units = Units(state, options.pop("check_every", 1))
    simulation = Simulation(state, workload=Histories(), workers=workers, watch=units, **options)
    end = simulation.run(num_trials)
    assert end is not None
    assert end.is_complete, end
    return simulation, units


def seen(state: StudyState) -> list[tuple[TrialState, int, float | None, float | None, int]]:
    return [(t.state, t.resource, t.value, t.best, t.best_resource) for t in state.trials]


@pytest.mark.parametrize("workers", [pytest.param(1, marks=takes_long), 4])
def test_the_grid_of_448_trials_trains_each_distinct_unit_once(workers: int) -> None:
    simulation, units = search(resnet56_space(), FIFO(max_resource=RESNET56_EPOCHS), workers=workers, check_every=500)
    assert len(simulation.state.trials) == RESNET56_TRIALS
    assert all(trial.state is TrialState.COMPLETED for trial in simulation.state.trials)
    assert sum(units.trained.values()) == RESNET56_UNIQUE
    assert simulation.busy_s == RESNET56_UNIQUE


@pytest.mark.parametrize("workers", [1, 3])
def test_trials_that_share_see_what_they_would_have_seen_alone(workers: int) -> None:
    together, units = search(SPACE, FIFO(max_resource=9), workers=workers)
    alone, apart = search(SPACE, FIFO(max_resource=9), workers=workers, share=False)
    assert seen(together.state) == seen(alone.state)
    assert sum(units.trained.values()) < sum(apart.trained.values()) == 9 * len(alone.state.trials)


@pytest.mark.parametrize("scheduler", SCHEDULERS[1:], ids=lambda scheduler: scheduler.describe())
def test_on_one_worker_sharing_changes_only_decisions_by_order_of_arrival(
    scheduler: Scheduler,
) -> None:
    together, units = search(SPACE, scheduler, workers=1)
    alone, apart = search(SPACE, scheduler, workers=1, share=False)
    assert len(together.state.trials) == len(alone.state.trials)
    if isinstance(scheduler, SHA):
        assert seen(together.state) == seen(alone.state)
        assert sum(units.trained.values()) < sum(apart.trained.values())
    assert max(units.trained.values()) == 1


@pytest.mark.parametrize(
    "scheduler",
    [SHA(max_resource=9, bracket_size=5), Hyperband(max_resource=9, variant="synchronous")],
    ids=lambda scheduler: scheduler.describe(),
)
@pytest.mark.parametrize("workers", [1, 3])
def test_schedulers_that_wait_for_all_choose_alike_with_or_without_sharing(scheduler: Scheduler, workers: int) -> None:
    together, alone = (search(SPACE, scheduler, workers=workers, share=share)[0].state for share in (True, False))
    assert seen(together) == seen(alone)


def test_schedulers_that_never_wait_may_differ_but_proposals_do_not() -> None:
    stopping = ASHA(max_resource=9, variant="stopping")
    together, alone = (search(SPACE, stopping, workers=3, share=share)[0].state for share in (True, False))
    pairs = list(zip(together.trials, alone.trials, strict=True))
    assert all(one.params == other.params for one, other in pairs)
    assert all(one.value == other.value for one, other in pairs if one.resource == other.resource)


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda scheduler: scheduler.describe())
def test_no_unit_is_trained_twice_when_no_worker_is_lost(scheduler: Scheduler) -> None:
    _, units = search(SPACE, scheduler, workers=3)
    assert max(units.trained.values()) == 1


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda scheduler: scheduler.describe())
def test_trials_that_come_one_by_one_share_what_is_still_there(scheduler: Scheduler) -> None:
    simulation, units = search(SPACE, scheduler, workers=3, look_ahead=0)
    for trial in simulation.state.trials:
        if trial.value is not None:
            assert trial.value == Histories().value(trial.id, trial.params, trial.value_resource)
    assert sum(units.trained.values()) < sum(trial.resource for trial in simulation.state.trials)


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda scheduler: scheduler.describe())
def test_lost_workers_cost_no_trial_its_result(scheduler: Scheduler) -> None:
    losses = [Loss(WorkerId(worker), at_s=3.5 + 5 * at) for at in range(6) for worker in (at % 2,)]
    lossy, _ = search(SPACE, scheduler, workers=2, faults=Faults(losses=losses))
    assert not [trial for trial in lossy.state.trials if trial.state is TrialState.FAILED]
    for trial in lossy.state.trials:
        if trial.value is not None:
            assert trial.value == Histories().value(trial.id, trial.params, trial.value_resource)


def test_equal_trials_are_one_training() -> None:
    space = Space({"x": choice(1, 2)})
    state = make_state(FIFO(max_resource=3), share=True, space=space)
    units = Units(state)
    simulation = Simulation(state, workload=Histories(), workers=2, watch=units)
    simulation.run(20)
    assert sum(units.trained.values()) == 6
    assert [trial.state for trial in state.trials] == [TrialState.COMPLETED] * 20
    assert {trial.value for trial in state.trials if trial.params == {"x": 1}} == {
        Histories().value(TrialId(0), {"x": 1}, 3)
    }


@pytest.mark.parametrize(
    "scheduler",
    [pytest.param(FIFO(max_resource=9), marks=takes_long), *SCHEDULERS[1:]],
    ids=lambda scheduler: scheduler.describe(),
)
@pytest.mark.parametrize("workers", [pytest.param(1, marks=takes_long), 3])
def test_every_prefix_of_a_journal_of_stages_replays_and_resumes(scheduler: Scheduler, workers: int) -> None:
    def fresh() -> StudyState:
        return make_state(scheduler, GridSearch(), SPACE, look_ahead=1_000)

    state = fresh()
    recorded = Recorded(state)
    Simulation(
        state, workload=Histories(), workers=workers, watch=recorded, faults=Faults(losses=[Loss(WorkerId(0), 7.5)])
    ).run(None)
    for cut in range(1, len(recorded.lines) + 1):
        again = replayed(fresh(), recorded.lines[:cut])
        if cut > 1:
            assert snapshot.encode(again, cut - 1) == recorded.states[cut - 2]
            restored = restored_from(recorded.states[cut - 2], fresh())
            assert snapshot.encode(restored, cut - 1) == recorded.states[cut - 2]
        simulation = Simulation(again, workload=Histories(), workers=workers)
        end = simulation.run(None)
        assert end is not None
        assert end.is_complete
        check(again)
        if isinstance(scheduler, FIFO | SHA):
            assert results(again) == results(state)


@pytest.mark.parametrize("look_ahead", [0, 100])
def test_endless_search_ends_where_all_that_it_proposes_is_trained_already(look_ahead: int) -> None:
    space = Space({"width": choice(8, 16, 32)})
    state = make_state(FIFO(max_resource=3), RandomSearch(), space, share=True, look_ahead=look_ahead)
    units = Units(state, check_every=100)
    end = Simulation(state, workload=Histories(), workers=2, watch=units).run(None)
    assert end is not None
    assert end.is_complete
    assert sum(units.trained.values()) == 9
    assert all(trial.state is TrialState.COMPLETED for trial in state.trials)


def test_a_grid_ends_however_many_points_in_a_row_are_already_trained() -> None:
    never = values([0.1, 0.01], milestones=[choice(*range(10, 1_110))])
    space = Space({"width": choice(16, 8), "lr": never})
    state = make_state(FIFO(max_resource=3), GridSearch(), space, share=True, look_ahead=0)
    end = Simulation(state, workload=Histories(), workers=1).run(None)
    assert end is not None
    assert end.is_complete
    assert len(state.trials) == 2 * 1_100
    assert {trial.params["width"] for trial in state.trials} == {16, 8}


class Nothing(SearcherState):
    """Has no proposals, and does not say so beforehand."""

    def propose(self, number: int) -> Params | None:
        return None


@pytest.mark.parametrize("look_ahead", [0, 100])
def test_a_searcher_that_has_nothing_to_propose_ends_the_search_at_once(look_ahead: int) -> None:
    state = make_state(FIFO(max_resource=3), GridSearch(), Space({"x": choice(1)}), share=True, look_ahead=look_ahead)
    state.searcher = Nothing()
    end = Simulation(state, workload=Histories(), workers=2).run(None)
    assert end is not None
    assert end.is_complete
    assert not state.trials


def test_a_checkpoint_beyond_a_cut_lets_others_train_the_unsaved_units() -> None:
    space = Space({"lr": choice(0.5, multistep(0.1, milestones=choice([4], [6])))})
    scheduler = MedianStopping(max_resource=9, min_resource=1, min_trials=1, interval=1)
    player = Player(make_state(scheduler, GridSearch(), space, share=True, look_ahead=1_000))
    player.begin(3, 2)
    alone, shared = (attempt.lease for attempt in player.state.attempts.values())
    for resource in range(1, 6):
        player.report(alone, resource, 1.0 if resource < 5 else 0.0)
    for resource in range(1, 6):
        player.report(shared, resource, 0.9)
    assert player.states() == [TrialState.RUNNING, TrialState.STOPPED, TrialState.WAITING]
    assert player.state.plan.next_batch() is None, "the cut lease saves at unit 4, where trial-2 begins"
    player.tell(CheckpointCommitted(shared, CheckpointRef(player.state.trials[1].node, 9)))
    batch = player.state.plan.next_batch()
    assert batch is not None
    assert batch.stages[0].trials == (2,)
    restored = restored_from(snapshot.encode(player.state, 0), make_state(scheduler, GridSearch(), space, share=True))
    assert restored.plan.next_batch() == batch


def test_reports_are_forgotten_once_nobody_can_come_to_read_them() -> None:
    simulation, _ = search(SPACE, SHA(max_resource=9), workers=3)
    state = simulation.state
    assert state.is_exhausted
    going_on = [trial for trial in state.trials if not trial.state.is_finished or trial.checkpoint is not None]
    assert {step.node for trial in going_on for step in trial.steps} >= state.plan.reports.nodes.keys()
    assert 0 < len(state.plan.reports.nodes) < len({step.node for trial in state.trials for step in trial.steps})


def test_what_was_reported_is_kept_while_somebody_may_come_who_reads_it() -> None:
    space = Space({"x": choice(1, 2)})
    state = make_state(FIFO(max_resource=3), share=True, space=space)
    first, later = Units(state), Units(state)
    for num_trials, units in ((10, first), (20, later)):
        Simulation(state, workload=Histories(), workers=2, watch=units).run(num_trials)
        assert len(state.plan.reports.nodes) == 2
    assert first.trained
    assert not later.trained, "all that came later read what was known"


def test_a_trial_that_waits_is_settled_by_the_last_save_of_what_returned() -> None:
    state = packed_state(Hyperband(max_resource=9), 4, SPACE, GridSearch())
    player = Player(state)
    player.begin(8, 3)
    attempt, waiting = state.attempts[0], state.trials[5]
    assert (waiting.target, waiting.state) == (3, TrialState.WAITING)
    assert CheckpointRef(attempt.node_at(3), 3) in attempt.save_points
    for resource in (1, 2, 3, 4):
        player.report(attempt.lease, resource)
    player.tell(CheckpointCommitted(attempt.lease, CheckpointRef(attempt.node_at(1), 1)))
    player.tell(TrainingEnded(attempt.lease, Outcome.RETURNED, 4, 3))
    player.tell(CheckpointCommitted(attempt.lease, CheckpointRef(attempt.node_at(3), 3)))
    assert waiting.state is TrialState.PAUSED

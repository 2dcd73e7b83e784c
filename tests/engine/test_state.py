"""Scenarios: facts in, decisions out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import pytest

from asyncsearch.actions import (
    AnyAction,
    Assign,
    Compare,
    CreateTrial,
    DeleteCheckpoint,
    DismissWorker,
    EndRun,
    ExtendWork,
    LaunchWorker,
    MoveTrial,
    Promote,
    StopTraining,
)
from asyncsearch.engine import applying
from asyncsearch.engine.invariants import check
from asyncsearch.engine.transitions import TRANSITIONS, check_transition
from asyncsearch.errors import InternalError, InvalidTransitionError
from asyncsearch.events import (
    CheckpointCommitted,
    CheckpointFailed,
    DriverStarted,
    Outcome,
    Reported,
    RunRequested,
    StopRequested,
    TrainingEnded,
    TrialTimedOut,
    WorkerAttached,
    WorkerLost,
)
from asyncsearch.ids import CheckpointRef, Lease, TrialId, WorkerId
from asyncsearch.schedulers import ASHA, FIFO
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.space import Space, choice
from asyncsearch.trial import TrialState
from tests.engine.player import Player, lease_of, only
from tests.engine.tools import make_state

W0, W1 = WorkerId(0), WorkerId(1)


@pytest.fixture
def asha() -> Iterator[Player]:
    player = Player(make_state(ASHA(max_resource=9)))
    yield player
    check(player.state)


@pytest.fixture
def fifo() -> Iterator[Player]:
    player = Player(make_state(FIFO(max_resource=3)))
    yield player
    check(player.state)


def test_a_run_launches_its_workers_and_assigns_to_those_that_attach(fifo: Player) -> None:
    fifo.tell(DriverStarted("test"))
    assert fifo.tell(RunRequested(4, 2)) == [LaunchWorker(W0, 1), LaunchWorker(W1, 1)]
    created, assigned = fifo.tell(WorkerAttached(W1, 1))
    assert isinstance(created, CreateTrial)
    assert isinstance(assigned, Assign)
    assert assigned.work.lease == Lease(0, W1, 1)
    assert assigned.work.lanes[0].stages[0].stop == 3


def test_a_trial_is_paused_only_when_its_checkpoint_is_durable(asha: Player) -> None:
    asha.begin(9, 1)
    lease = lease_of(asha.last)
    asha.report(lease, 1)
    actions = asha.tell(TrainingEnded(lease, Outcome.REACHED, 1, 1))
    assert asha.states()[0] is TrialState.RUNNING
    assert only(actions, Assign), "the worker trains on while the checkpoint is on its way"
    asha.tell(CheckpointCommitted(lease, CheckpointRef(asha.state.trials[0].node, 1)))
    assert asha.states()[0] is TrialState.PAUSED


def test_a_checkpoint_durable_before_the_end_is_known_counts_too(asha: Player) -> None:
    asha.begin(9, 1)
    lease = lease_of(asha.last)
    asha.report(lease, 1)
    asha.tell(CheckpointCommitted(lease, CheckpointRef(asha.state.trials[0].node, 1)))
    asha.tell(TrainingEnded(lease, Outcome.REACHED, 1, 1))
    assert asha.state.trials[0].state is TrialState.PAUSED


def test_a_promotion_resumes_from_the_checkpoint_and_says_why(asha: Player) -> None:
    asha.begin(3, 1)
    actions = asha.last
    for loss in (0.3, 0.1, 0.2):
        actions = asha.reach(lease_of(actions), 1, loss)
    (promotion,) = only(actions, Promote)
    assert (promotion.trial, promotion.from_resource, promotion.to_resource) == (1, 1, 3)
    assert "1" in promotion.reason
    stage = only(actions, Assign)[-1].work.lanes[0]
    assert stage.load == CheckpointRef(asha.state.trials[1].node, 1)
    assert stage.stages[0].start == 1


def test_a_trial_that_is_the_next_to_be_promoted_goes_on_where_it_is(asha: Player) -> None:
    asha.begin(3, 1)
    actions = asha.last
    for loss in (0.3, 0.2):
        actions = asha.reach(lease_of(actions), 1, loss)
    lease = lease_of(actions)
    compared, promotion, extension = asha.report(lease, 1, 0.1)
    assert isinstance(compared, Compare)
    assert isinstance(promotion, Promote)
    assert isinstance(extension, ExtendWork)
    assert (promotion.trial, promotion.to_resource) == (2, 3)
    assert (extension.lease, extension.save) == (lease, False)
    assert [(stage.start, stage.stop, stage.trials) for stage in extension.stages] == [(1, 3, (2,))]
    assert asha.states()[2] is TrialState.RUNNING
    asha.report(lease, 3, 0.1)
    asha.tell(TrainingEnded(lease, Outcome.RETURNED, 3, 3))
    asha.tell(CheckpointCommitted(lease, CheckpointRef(asha.state.trials[2].node, 3)))
    assert asha.state.trials[2].resource == 3


def test_a_worker_lost_after_a_promotion_in_place_decides_nothing_again(asha: Player) -> None:
    asha.begin(3, 1)
    actions = asha.last
    for loss in (0.3, 0.2, 0.1):
        actions = asha.reach(lease_of(actions), 1, loss)
    asha.tell(WorkerLost(W0, 1, "killed"))
    actions = asha.tell(WorkerAttached(W0, 2))
    assert only(actions, Promote) == []
    lane = only(actions, Assign)[0].work.lanes[0]
    assert (lane.load, lane.stages[0].start, lane.stages[0].stop) == (None, 0, 3)
    lease = lease_of(actions)
    assert asha.report(lease, 1, 0.1) == [], "it was compared there before"
    (compared,) = asha.report(lease, 3, 0.1)
    assert isinstance(compared, Compare)


def test_a_trial_that_missed_its_promotion_goes_on_from_its_checkpoint(asha: Player) -> None:
    asha.begin(3, 1)
    actions = asha.last
    for loss in (0.3, 0.2, 0.1):
        actions = asha.reach(lease_of(actions), 1, loss)
    lease, here = lease_of(actions), CheckpointRef(asha.state.trials[2].node, 1)
    actions = [*asha.tell(TrainingEnded(lease, Outcome.REACHED, 1, 1)), *asha.tell(CheckpointCommitted(lease, here))]
    assert only(actions, Promote) == []
    lane = only(actions, Assign)[0].work.lanes[0]
    assert (lane.load, lane.stages[0].start, lane.stages[0].stop) == (here, 1, 3)


def test_a_lost_promoted_attempt_is_issued_again_not_decided_again(asha: Player) -> None:
    asha.begin(3, 1)
    actions = asha.last
    for loss in (0.3, 0.2, 0.1):
        actions = asha.reach(lease_of(actions), 1, loss)
    asha.tell(WorkerLost(W0, 1, "killed"))
    actions = asha.tell(WorkerAttached(W0, 2))
    assert only(actions, Promote) == []
    lane = only(actions, Assign)[0].work.lanes[0]
    assert (lane.stages[0].trials, lane.stages[0].start, lane.stages[0].stop) == ((2,), 0, 3)


def test_a_lost_worker_is_relaunched_in_a_new_epoch_and_its_lease_is_stale(fifo: Player) -> None:
    fifo.begin(2, 1)
    lease = lease_of(fifo.last)
    actions = fifo.tell(WorkerLost(W0, 1, "killed"))
    assert LaunchWorker(W0, 2) in actions
    assert fifo.report(lease, 1) == []
    assert fifo.state.trials[0].state is TrialState.WAITING
    assert fifo.state.trials[0].losses == 1


def test_what_arrives_twice_or_late_changes_nothing(fifo: Player) -> None:
    fifo.begin(2, 1)
    lease = lease_of(fifo.last)
    fifo.report(lease, 1, 0.5)
    fifo.report(lease, 2, 0.4)
    fifo.report(lease, 1, 0.1)
    fifo.report(lease, 2, 0.1)
    trial = fifo.state.trials[0]
    assert (trial.value, trial.resource, trial.trained) == (0.4, 2, 2)
    end = TrainingEnded(lease, Outcome.RETURNED, 2)
    fifo.tell(end)
    assert fifo.tell(end) == []


def test_a_failed_attempt_is_retried_as_allowed_then_fails_its_trial_only() -> None:
    player = Player(make_state(FIFO(max_resource=3), max_failures=1))
    player.begin(2, 1)
    actions = player.tell(TrainingEnded(lease_of(player.last), Outcome.FAILED, 0, None, "Traceback\nValueError: no"))
    assert "attempt 1 of 2 failed: ValueError: no" in only(actions, MoveTrial)[0].reason
    actions = player.tell(TrainingEnded(lease_of(actions), Outcome.FAILED, 0, None, "Traceback\nValueError: no"))
    assert player.state.trials[0].state is TrialState.FAILED
    assert player.state.trials[0].reason == "ValueError: no"
    assert only(actions, Assign)[0].work.lanes[0].stages[0].trials == (1,)


def test_a_trial_under_which_too_many_workers_are_lost_is_held_to_blame() -> None:
    player = Player(make_state(FIFO(max_resource=3), max_losses=2, max_relaunches=9))
    player.begin(1, 1)
    for epoch in (1, 2, 3):
        player.tell(WorkerLost(W0, epoch, "out of memory"))
        if epoch < 3:
            player.tell(WorkerAttached(W0, epoch + 1))
    assert player.state.trials[0].state is TrialState.FAILED
    assert "3 attempts were lost" in player.state.trials[0].reason


def test_workers_that_are_lost_again_and_again_end_the_run_with_an_error() -> None:
    player = Player(make_state(FIFO(max_resource=3), max_relaunches=2))
    player.begin(1, 1)
    actions: list[AnyAction] = []
    for epoch in (1, 2, 3):
        actions = player.tell(WorkerLost(W0, epoch, "no such file"))
    (end,) = only(actions, EndRun)
    assert end.error_kind == "WorkersLostError"
    assert "no such file" in end.reason


def test_a_metric_never_reported_ends_the_run_and_names_what_was_reported(fifo: Player) -> None:
    fifo.begin(3, 1)
    lease = lease_of(fifo.last)
    fifo.tell(Reported(lease, 1, {"acc": 0.5}))
    actions = fifo.tell(TrainingEnded(lease, Outcome.RETURNED, 1))
    (end,) = only(actions, EndRun)
    assert end.error_kind == "MetricNotReportedError"
    assert "'loss'" in end.reason
    assert "'acc'" in end.reason


def test_a_trial_that_reports_nothing_when_others_did_fails_alone(fifo: Player) -> None:
    fifo.begin(2, 1)
    actions = fifo.reach(lease_of(fifo.last), 3)
    fifo.tell(TrainingEnded(lease_of(actions), Outcome.RETURNED, 0))
    assert fifo.state.trials[1].state is TrialState.FAILED
    assert fifo.state.trials[0].state is TrialState.COMPLETED


def test_a_trainable_that_cannot_be_paused_ends_the_run_at_its_first_trial(asha: Player) -> None:
    asha.begin(9, 1)
    lease = lease_of(asha.last)
    asha.report(lease, 1)
    actions = asha.tell(TrainingEnded(lease, Outcome.REACHED, 1, None))
    assert only(actions, EndRun)[0].error_kind == "CannotPauseError"


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_a_value_that_is_not_finite_is_never_promoted_and_never_best(asha: Player, value: str) -> None:
    asha.begin(3, 1)
    actions = asha.last
    for loss in (value, value, 0.5):
        actions = asha.reach(lease_of(actions), 1, loss)
    assert only(actions, Promote)[0].trial == 2
    best = asha.state.best()
    assert best is not None
    assert best.id == 2


def test_mode_max_promotes_the_highest(asha: Player) -> None:
    player = Player(make_state(ASHA(max_resource=9), mode="max"))
    player.begin(3, 1)
    actions = player.last
    for value in (0.1, 0.9, 0.5):
        actions = player.reach(lease_of(actions), 1, value)
    assert only(actions, Promote)[0].trial == 1


def test_the_stopping_variant_stops_a_trial_and_waits_for_its_worker() -> None:
    player = Player(make_state(ASHA(max_resource=9, variant="stopping")))
    player.begin(2, 2)
    first, second = player.state.open_attempts[TrialId(0)], player.state.open_attempts[TrialId(1)]
    good, bad = player.state.attempts[first].lease, player.state.attempts[second].lease
    player.report(good, 1, 0.1)
    actions = player.report(bad, 1, 0.9)
    assert [type(action) for action in actions] == [MoveTrial, StopTraining]
    assert player.state.trials[1].state is TrialState.STOPPED
    assert "rank 2 of 2" in player.state.trials[1].reason
    assert player.report(bad, 2, 0.0) == []
    assert player.state.trials[1].value == 0.9
    player.tell(TrainingEnded(bad, Outcome.STOPPED, 1))
    assert player.state.attempt(bad) is None


def test_an_attempt_that_takes_too_long_is_stopped_and_fails(fifo: Player) -> None:
    fifo.begin(1, 1)
    lease = lease_of(fifo.last)
    actions = fifo.tell(TrialTimedOut(lease))
    assert only(actions, StopTraining)[0].lease == lease
    assert fifo.state.trials[0].state is TrialState.FAILED
    assert only(fifo.tell(TrainingEnded(lease, Outcome.STOPPED, 0)), EndRun)


def test_a_checkpoint_that_cannot_be_stored_costs_an_attempt(asha: Player) -> None:
    asha.begin(1, 1)
    lease = lease_of(asha.last)
    asha.report(lease, 1)
    asha.tell(TrainingEnded(lease, Outcome.REACHED, 1, 1))
    asha.tell(CheckpointFailed(lease, CheckpointRef(asha.state.trials[0].node, 1), "disk full"))
    assert asha.state.trials[0].state is TrialState.FAILED
    assert "disk full" in asha.state.trials[0].reason


def test_a_checkpoint_that_cannot_be_read_restarts_the_trial(asha: Player) -> None:
    asha.begin(3, 1)
    actions = asha.last
    for loss in (0.3, 0.1, 0.2):
        actions = asha.reach(lease_of(actions), 1, loss)
    lease = only(actions, Assign)[-1].work.lease
    actions = asha.tell(TrainingEnded(lease, Outcome.FAILED, 1, None, "damaged", "checkpoint"))
    lane = only(actions, Assign)[0].work.lanes[0]
    assert lane.load is None
    assert (lane.stages[0].start, lane.stages[0].stop) == (0, 3)
    assert asha.state.trials[1].failures == 0


def test_an_older_checkpoint_is_deleted_when_a_newer_one_is_durable(asha: Player) -> None:
    asha.begin(3, 1)
    actions = asha.last
    for loss in (0.3, 0.1, 0.2):
        actions = asha.reach(lease_of(actions), 1, loss)
    actions = asha.reach(lease_of(actions), 3, 0.05)
    assert only(actions, DeleteCheckpoint) == [DeleteCheckpoint(CheckpointRef(asha.state.trials[1].node, 1))]


def test_only_the_best_finished_trials_keep_their_checkpoint(fifo: Player) -> None:
    fifo.begin(3, 1)
    deleted: list[CheckpointRef] = []
    actions = fifo.last
    for loss in (0.5, 0.2, 0.4):
        actions = fifo.reach(lease_of(actions), 3, loss)
        deleted += [action.checkpoint for action in only(actions, DeleteCheckpoint)]
    nodes = [trial.node for trial in fifo.state.trials]
    assert deleted == [CheckpointRef(nodes[0], 3)], "the third one was not asked to save"
    assert [trial.checkpoint is not None for trial in fifo.state.trials] == [False, True, False]


def test_a_stop_interrupts_what_runs_keeps_it_waiting_and_ends_incomplete(fifo: Player) -> None:
    fifo.begin(5, 1)
    lease = lease_of(fifo.last)
    assert only(fifo.tell(StopRequested("it was interrupted")), StopTraining)[0].lease == lease
    actions = fifo.tell(TrainingEnded(lease, Outcome.STOPPED, 0))
    assert fifo.state.trials[0].state is TrialState.WAITING
    (end,) = only(actions, EndRun)
    assert not end.is_complete
    assert not end.error_kind
    assert only(actions, DismissWorker)


def test_a_run_asked_for_again_goes_on_with_what_waits(fifo: Player) -> None:
    fifo.begin(1, 1)
    fifo.tell(StopRequested("it was interrupted"))
    fifo.tell(TrainingEnded(Lease(0, W0, 1), Outcome.STOPPED, 0))
    assert fifo.tell(RunRequested(1, 1)) == [LaunchWorker(W0, 2)]
    lane = only(fifo.tell(WorkerAttached(W0, 2)), Assign)[0].work.lanes[0]
    assert lane.stages[0].trials == (0,)


def test_a_finished_study_starts_no_worker_when_nothing_is_left(fifo: Player) -> None:
    fifo.begin(1, 1)
    fifo.reach(lease_of(fifo.last), 3)
    (end,) = fifo.tell(RunRequested(1, 4))
    assert isinstance(end, EndRun)
    assert end.is_complete


def test_more_trials_continue_a_finished_study(fifo: Player) -> None:
    fifo.begin(1, 1)
    fifo.reach(lease_of(fifo.last), 3)
    assert LaunchWorker(W0, 2) in fifo.tell(RunRequested(2, 1))


def test_a_grid_ends_by_itself() -> None:
    space = Space.of({"x": choice(1, 2)})
    player = Player(make_state(FIFO(max_resource=3), GridSearch(), space))
    player.begin(None, 1)
    actions = player.last
    for _ in range(2):
        actions = player.reach(lease_of(actions), 3)
    assert only(actions, EndRun)[0].is_complete
    assert [trial.params["x"] for trial in player.state.trials] == [1, 2]


def test_the_table_refuses_what_it_does_not_have_and_names_the_story() -> None:
    assert (TrialState.COMPLETED, TrialState.RUNNING) not in TRANSITIONS
    with pytest.raises(InvalidTransitionError, match=r"trial-3.*COMPLETED.*RUNNING.*trained to the end"):
        check_transition(TrialId(3), TrialState.COMPLETED, TrialState.RUNNING, "trained to the end")


def test_every_state_but_the_finished_ones_can_be_left() -> None:
    left = {source for source, _ in TRANSITIONS}
    assert left == {state for state in TrialState if not state.is_finished}


def test_a_checkpoint_after_a_failed_one_counts_if_a_later_one_fails(asha: Player) -> None:
    asha.begin(1, 1)
    lease, trial = lease_of(asha.last), asha.state.trials[0]
    asha.state.attempts[0].settled = 5  # the runner could not write that one, while this one was on its way
    asha.tell(CheckpointFailed(lease, CheckpointRef(trial.node, 1), "disk full"))
    assert trial.failures == 1
    assert trial.state is TrialState.FAILED
    asha.tell(CheckpointFailed(lease, CheckpointRef(trial.node, 1), "disk full"))
    assert trial.failures == 1


def test_a_worker_is_told_once_to_stop(fifo: Player) -> None:
    fifo.begin(2, 1)
    assert len(only(fifo.tell(StopRequested("enough")), StopTraining)) == 1
    assert not only(fifo.tell(StopRequested("enough")), StopTraining)
    assert not only(fifo.tell(TrialTimedOut(Lease(0, W0, 1))), StopTraining)
    assert fifo.state.attempts[0].is_closed


def test_a_run_in_which_trials_wait_for_nothing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    player = Player(make_state(FIFO(max_resource=3)))
    player.begin(1, 2)
    lease = player.state.attempts[0].lease
    monkeypatch.setattr(player.state.plan, "next_batch", lambda held: None)
    with pytest.raises(InternalError, match=r"1 trials wait \(trial-0, ...\), workers are free"):
        player.tell(TrainingEnded(lease, Outcome.STOPPED, 1))


@pytest.mark.parametrize("share", [True, False])
def test_what_was_saved_before_a_stop_counts_though_durable_after_the_end(share: bool) -> None:
    player = Player(make_state(FIFO(max_resource=3), save_every=1, share=share))
    player.begin(2, 1)
    lease = player.state.attempts[0].lease
    player.report(lease, 1)
    player.tell(StopRequested("enough"))
    player.tell(TrainingEnded(lease, Outcome.STOPPED, 1, checkpoint_resource=1))
    here = CheckpointRef(player.state.trials[0].node, 1)
    player.tell(CheckpointCommitted(lease, here))
    assert player.state.trials[0].checkpoint == here


def test_every_kind_of_decision_can_be_applied() -> None:
    assert set(applying._BY_KIND) == set(get_args(AnyAction))

"""Trap f: a checkpoint stands at a target and nobody reported the metric there. It is evaluated, and not trained."""

from __future__ import annotations

from typing import Any

import pytest

from asyncsearch.actions import AnyAction, Assign, EndRun, StopTraining
from asyncsearch.engine import snapshot
from asyncsearch.engine.affected import is_outdated, is_to_be_evaluated
from asyncsearch.events import (
    CheckpointCommitted,
    DriverStarted,
    Learned,
    NodeFreed,
    Outcome,
    Reported,
    StopRequested,
    TrainingEnded,
    TrialTimedOut,
    WorkerAttached,
    WorkerLost,
    WorkRefused,
)
from asyncsearch.ids import CheckpointRef, Lease, TrialId, WorkerId
from asyncsearch.schedulers import ASHA, FIFO
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.sequences import multistep
from asyncsearch.space import Space, choice
from asyncsearch.testing.recording import restored
from asyncsearch.trial import Metrics, TrialState
from asyncsearch.work import Lane, Stage
from tests.engine.player import Player, lease_of, only
from tests.engine.tools import make_state

W0, W1 = WorkerId(0), WorkerId(1)
ONE = Space({"x": choice(1)})
TWINS = Space({"lr": multistep(0.1, milestones=choice([4], [6]))})
"""Two trials that are one up to 4."""


def play(workers: int = 1, trials: int = 1, space: Space = ONE, **config: Any) -> Player:
    """Begin a search to which nobody reports anything but what a test says."""
    settings: dict[str, Any] = {"share": True, "can_evaluate": True} | config
    player = Player(make_state(ASHA(max_resource=9, min_resource=3), GridSearch(), space, **settings))
    player.begin(trials, workers)
    return player


def training(player: Player) -> Lease:
    """Return the one lease that is open."""
    (attempt,) = player.state.attempts.values()
    return attempt.lease


def pause_in_silence(player: Player, resource: int = 3) -> list[AnyAction]:
    """Let a worker train to the target of its trial, save there, and report nothing."""
    lease = training(player)
    player.tell(TrainingEnded(lease, Outcome.REACHED, resource, resource))
    node = player.state.trials[0].node_at(resource)
    return player.tell(CheckpointCommitted(lease, CheckpointRef(node, resource)))


def evaluation(actions: list[AnyAction]) -> Lane:
    assign: Assign
    (assign,) = only(actions, Assign)
    (lane,) = assign.work.lanes
    return lane


@pytest.mark.parametrize("share", [True, False])
def test_it_is_evaluated_and_nothing_is_trained(share: bool) -> None:
    player = play(share=share)
    lane = evaluation(pause_in_silence(player))
    trial = player.state.trials[0]
    here = CheckpointRef(trial.node, 3)
    assert lane == Lane(
        (Stage(trial.node, trial.params, (TrialId(0),), 3, start=3, stop=3, max_resource=9, save=False),), here
    )
    assert trial.state is TrialState.RUNNING
    trained, lease = trial.trained, lease_of(player.last)
    player.report(lease, 3, 0.5)
    assert trial.state is TrialState.RUNNING
    player.tell(TrainingEnded(lease, Outcome.REACHED, 3))
    assert (trial.state, trial.resource, trial.value) == (TrialState.PAUSED, 3, 0.5)
    assert trial.trained == trained == 3


@pytest.mark.parametrize("share", [True, False])
def test_where_the_trainable_cannot_evaluate_the_last_report_before_counts(share: bool) -> None:
    player = play(share=share, can_evaluate=False)
    player.report(training(player), 2, 0.25)
    pause_in_silence(player)
    trial = player.state.trials[0]
    assert (trial.state, trial.value, trial.value_resource) == (TrialState.PAUSED, 0.25, 2)


@pytest.mark.parametrize("loss", [0.5, "NaN"])
def test_what_was_reported_there_is_not_evaluated(loss: float | str) -> None:
    player = play()
    player.report(training(player), 3, loss)
    assert not only(pause_in_silence(player), Assign)
    assert player.state.trials[0].state is TrialState.PAUSED


@pytest.mark.parametrize("share", [True, False])
def test_who_is_to_end_there_may_still_report(share: bool) -> None:
    player = play(workers=2, share=share)
    lease = training(player)
    committed = player.tell(CheckpointCommitted(lease, CheckpointRef(player.state.trials[0].node, 3)))
    assert not only(committed, Assign), "the other worker evaluates nothing that the first one may report"
    player.report(lease, 3, 0.5)
    assert not only(player.tell(TrainingEnded(lease, Outcome.REACHED, 3, 3)), Assign)
    assert player.state.trials[0].value == 0.5


@pytest.mark.parametrize("share", [True, False])
def test_a_lost_worker_costs_an_evaluation_and_no_training(share: bool) -> None:
    player = play(workers=2, share=share)
    pause_in_silence(player)
    lease = training(player)
    actions = player.tell(WorkerLost(lease.worker, 1, "killed"))
    assert evaluation(actions).stages[0].start == 3
    assert lease_of(actions).worker != lease.worker
    assert player.state.trials[0].losses == 1


def test_one_that_reported_before_its_worker_was_lost_is_over() -> None:
    player = play()
    pause_in_silence(player)
    lease = lease_of(player.last)
    player.report(lease, 3, 0.5)
    player.tell(WorkerLost(lease.worker, 1, "killed"))
    assert player.state.trials[0].state is TrialState.PAUSED


def test_a_failed_one_counts_as_a_failure_of_the_trial_and_is_tried_again() -> None:
    player = play(max_failures=1)
    for tries in (1, 2):
        lease = lease_of(pause_in_silence(player) if tries == 1 else player.last)
        player.tell(TrainingEnded(lease, Outcome.FAILED, 3, error="ValueError: x", error_kind="ValueError"))
        assert player.state.trials[0].failures == tries
    trial = player.state.trials[0]
    assert (trial.state, trial.reason) == (TrialState.FAILED, "ValueError: x")


def test_an_evaluation_without_the_metric_has_failed_and_is_not_repeated() -> None:
    player = play(max_failures=1)
    player.report(training(player), 2, 0.7)
    pause_in_silence(player)
    for _ in range(2):
        player.tell(TrainingEnded(training(player), Outcome.REACHED, 3))
    trial = player.state.trials[0]
    assert (trial.state, trial.failures) == (TrialState.FAILED, 2)
    assert "evaluated at 3 and 'loss' was not reported" in trial.reason
    assert only(player.last, EndRun)


def test_one_after_which_the_metric_was_never_reported_ends_the_search() -> None:
    player = play(max_failures=1)
    pause_in_silence(player)
    lease = training(player)
    player.tell(Reported(lease, 3, {"accuracy": 0.5}))
    player.tell(TrainingEnded(lease, Outcome.REACHED, 3))
    (end,) = only(player.last, EndRun)
    assert end.error_kind == "MetricNotReportedError"
    assert "never reported 'loss'; reported so far: 'accuracy'" in end.reason


def test_one_that_runs_too_long_is_stopped_once_and_counts() -> None:
    player = play(max_failures=1)
    pause_in_silence(player)
    lease = lease_of(player.last)
    assert only(player.tell(TrialTimedOut(lease)), StopTraining)
    assert player.state.trials[0].failures == 1
    assert not only(player.tell(TrialTimedOut(lease)), StopTraining)
    assert evaluation(player.tell(TrainingEnded(lease, Outcome.STOPPED, 3))).stages[0].start == 3


def test_a_damaged_checkpoint_is_trained_again() -> None:
    player = play()
    pause_in_silence(player)
    player.tell(TrainingEnded(lease_of(player.last), Outcome.FAILED, 3, error="bad", error_kind="checkpoint"))
    stage = evaluation(player.last).stages[0]
    assert (stage.start, stage.stop, stage.save) == (0, 3, True)


def test_an_interrupted_run_evaluates_when_it_goes_on() -> None:
    player = play()
    pause_in_silence(player)
    lease = lease_of(player.last)
    player.tell(StopRequested("enough"))
    assert only(player.tell(TrainingEnded(lease, Outcome.STOPPED, 3)), EndRun)
    player.tell(DriverStarted("test"))
    player.begin(1, 1)
    player.tell(WorkerAttached(W0, 2))
    assert evaluation(player.last).stages[0].start == 3


def test_all_whose_target_lies_there_hear_it_and_are_moved_at_once() -> None:
    player = play(trials=2, space=TWINS, look_ahead=10, workers=2)
    lane = evaluation(pause_in_silence(player))
    assert lane.stages[0].trials == (0, 1)
    lease = training(player)
    player.report(lease, 3, 0.5)
    player.tell(TrainingEnded(lease, Outcome.REACHED, 3))
    assert [(t.state, t.value, t.trained) for t in player.state.trials] == [
        (TrialState.PAUSED, 0.5, 3),
        (TrialState.PAUSED, 0.5, 0),
    ]


def fifo_beside(space: Space = ONE) -> Player:
    """A study that shares with others."""
    config = {"share": True, "can_evaluate": True, "shared_as": "train", "version": "v1"}
    player = Player(make_state(FIFO(max_resource=3), GridSearch(), space, **config))
    player.begin(1, 1)
    return player


def learn(player: Player, reports: tuple[tuple[int, Metrics], ...]) -> None:
    """Know what others have trained: to the end, saved there."""
    player.tell(Learned(player.state.trials[0].node, reports, None, (3,)))


def test_what_others_saved_in_silence_is_evaluated_here() -> None:
    player = fifo_beside()
    lease = lease_of(player.last)
    learn(player, ((2, {"loss": 0.7}), (3, {})))
    lane = evaluation(player.tell(WorkRefused(lease, "others have trained some of it before")))
    assert (lane.stages[0].start, lane.stages[0].stop) == (3, 3)
    lease = lease_of(player.last)
    assert not is_outdated(player.state, player.state.attempts[lease.number])
    player.report(lease, 3, 0.5)
    player.tell(TrainingEnded(lease, Outcome.RETURNED, 3))
    trial = player.state.trials[0]
    assert (trial.state, trial.value, trial.trained) == (TrialState.COMPLETED, 0.5, 0)


def test_what_others_evaluated_meanwhile_is_not_evaluated_here() -> None:
    player = fifo_beside()
    lease = lease_of(player.last)
    learn(player, ((2, {"loss": 0.7}), (3, {})))
    lease = lease_of(player.tell(WorkRefused(lease, "others have trained some of it before")))
    learn(player, ((2, {"loss": 0.7}), (3, {"loss": 0.5})))
    assert is_outdated(player.state, player.state.attempts[lease.number])
    player.tell(WorkRefused(lease, "others have trained some of it before"))
    trial = player.state.trials[0]
    assert (trial.state, trial.value) == (TrialState.COMPLETED, 0.5)


def test_what_others_evaluate_now_is_waited_for() -> None:
    player = fifo_beside()
    lease = lease_of(player.last)
    learn(player, ((2, {"loss": 0.7}), (3, {})))
    lease = lease_of(player.tell(WorkRefused(lease, "others have trained some of it before")))
    node = player.state.trials[0].node
    assert not only(player.tell(WorkRefused(lease, "others train it now", (node,))), Assign)
    assert evaluation(player.tell(NodeFreed(node))).stages[0].start == 3


@pytest.mark.parametrize("share", [True, False])
def test_a_snapshot_knows_what_is_to_be_evaluated(share: bool) -> None:
    player = play(share=share)
    pause_in_silence(player)
    lease = lease_of(player.last)
    player.tell(StopRequested("enough"))
    player.tell(TrainingEnded(lease, Outcome.STOPPED, 3))
    fresh = make_state(ASHA(max_resource=9, min_resource=3), GridSearch(), ONE, share=share, can_evaluate=True)
    again = restored(player.state, fresh)
    assert is_to_be_evaluated(again, again.trials[0])
    assert snapshot.encode(again, 0) == snapshot.encode(player.state, 0)

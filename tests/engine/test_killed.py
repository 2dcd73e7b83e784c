"""Who is charged when a training's process is killed: nobody, as when a worker is lost, up to ``max_losses``."""

from __future__ import annotations

from typing import Any

import pytest

from asyncsearch.actions import Assign, LaunchWorker, MoveTrial, StopTraining
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    KILLED,
    CheckpointCommitted,
    Outcome,
    StopRequested,
    TrainingEnded,
    WorkerAttached,
    WorkerLost,
)
from asyncsearch.ids import CheckpointRef, Lease, WorkerId
from asyncsearch.schedulers import ASHA, FIFO
from asyncsearch.trial import TrialState
from tests.engine.player import Player, lease_of, only
from tests.engine.tools import make_state

W0 = WorkerId(0)
REASON = "its process was killed by SIGKILL from outside"


def killed(lease: Lease, resource: int, saved: int | None = None) -> TrainingEnded:
    return TrainingEnded(lease, Outcome.FAILED, resource, saved, f"its last line\n{REASON}", KILLED)


def begun(num_trials: int = 1, workers: int = 1, **options: Any) -> Player:
    player = Player(make_state(FIFO(max_resource=9), **options))
    player.begin(num_trials, workers)
    return player


def charged(state: StudyState) -> list[tuple[int, int]]:
    return [(trial.failures, trial.losses) for trial in state.trials]


def test_a_killed_process_is_a_loss_and_its_trial_resumes_its_checkpoint() -> None:
    player = begun(save_every=1)
    lease, trial = lease_of(player.last), player.state.trials[0]
    player.report(lease, 1)
    player.tell(CheckpointCommitted(lease, CheckpointRef(trial.node, 1)))
    player.report(lease, 2)
    actions = player.tell(killed(lease, 2))
    assert charged(player.state) == [(0, 1)]
    move = only(actions, MoveTrial)[0]
    assert (move.to, move.reason) == (TrialState.WAITING, f"{REASON}, on worker-0")
    work = only(actions, Assign)[0].work
    assert work.lanes[0].load == CheckpointRef(trial.node, 1)
    assert work.lease.worker == W0, "its worker is there still"


def test_a_sentence_that_says_why_goes_on_with_where() -> None:
    player = begun()
    lease = lease_of(player.last)
    moves = only(player.tell(TrainingEnded(lease, Outcome.FAILED, 0, None, "Its process ended.", KILLED)), MoveTrial)
    assert moves[0].reason == "Its process ended, on worker-0"


def test_a_trial_killed_too_often_fails_in_the_words_of_lost_workers() -> None:
    player = begun(max_losses=2)
    for _ in range(3):
        assert player.state.trials[0].state is TrialState.RUNNING
        player.tell(killed(lease_of(player.last), 0))
    trial = player.state.trials[0]
    assert trial.state is TrialState.FAILED
    assert trial.reason == f"3 attempts were lost without progress beyond 0; the last one: {REASON}, on worker-0"
    assert charged(player.state) == [(0, 3)]
    assert "its last line" in only(player.last, MoveTrial)[0].detail


def test_killed_processes_and_lost_workers_have_one_bound() -> None:
    player = begun(max_losses=1)
    player.tell(WorkerLost(W0, 1, "its executor was lost"))
    player.tell(WorkerAttached(W0, 2))
    player.tell(killed(lease_of(player.last), 0))
    assert player.state.trials[0].state is TrialState.FAILED


def test_an_own_failure_between_two_kills_counts_by_itself() -> None:
    player = begun(max_losses=1, max_failures=1)
    player.tell(killed(lease_of(player.last), 0))
    player.tell(TrainingEnded(lease_of(player.last), Outcome.FAILED, 0, None, "ValueError: x", "ValueError"))
    assert charged(player.state) == [(1, 1)]
    assert player.state.trials[0].state is TrialState.RUNNING


@pytest.mark.parametrize("kind", ["signal", "out_of_memory", "exit", "ValueError"])
def test_what_the_process_did_itself_is_charged_to_the_trial(kind: str) -> None:
    player = begun()
    player.tell(TrainingEnded(lease_of(player.last), Outcome.FAILED, 0, None, "it died", kind))
    assert charged(player.state) == [(1, 0)]
    assert player.state.trials[0].state is TrialState.FAILED


def test_a_trial_whose_last_checkpoint_is_still_being_stored_loses_nothing() -> None:
    player = Player(make_state(ASHA(max_resource=9)))
    player.begin(1, 1)
    lease, trial = lease_of(player.last), player.state.trials[0]
    player.report(lease, 1)
    player.tell(killed(lease, 1, saved=1))
    assert charged(player.state) == [(0, 0)]
    assert player.states() == [TrialState.RUNNING]
    player.tell(CheckpointCommitted(lease, CheckpointRef(trial.node, 1)))
    assert player.states() == [TrialState.PAUSED]
    assert not [attempt for attempt in player.state.attempts.values() if attempt.lease == lease]


def test_a_kill_while_the_run_is_stopped_counts_as_nothing() -> None:
    player = begun(2, 2)
    lease = lease_of(player.last)
    assert only(player.tell(StopRequested("it was interrupted")), StopTraining)
    player.tell(killed(lease, 0))
    assert charged(player.state) == [(0, 0), (0, 0)]
    assert player.state.trials[lease.number].state is TrialState.WAITING


def test_a_worker_that_stores_checkpoints_is_replaced_at_every_loss() -> None:
    player = begun(max_relaunches=1, max_losses=9, save_every=1)
    trial = player.state.trials[0]
    for epoch in range(1, 6):
        lease = lease_of(player.last)
        resource = player.state.attempts[lease.number].resource + 1
        player.report(lease, resource)
        player.tell(CheckpointCommitted(lease, CheckpointRef(trial.node, resource)))
        assert only(player.tell(WorkerLost(W0, epoch, "its machine was taken back")), LaunchWorker)
        player.tell(WorkerAttached(W0, epoch + 1))
    assert trial.resource == 5


def test_a_killed_process_is_no_sign_that_its_worker_can_train() -> None:
    player = begun(num_trials=2, workers=2, max_relaunches=1, max_losses=9)
    player.tell(WorkerLost(W0, 1, "its executor was lost"))
    player.tell(WorkerAttached(W0, 2))
    player.tell(killed(lease_of(player.last), 0))
    assert not only(player.tell(WorkerLost(W0, 2, "its executor was lost")), LaunchWorker), "2 times in a row"

"""Who is charged when a process is killed or a worker is lost, and what one worker alone may claim about all trials."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest

from asyncsearch.actions import Assign, DismissWorker, EndRun, LaunchWorker, MoveTrial, StopRun, StopTraining
from asyncsearch.engine.repeated_failures import after_loss
from asyncsearch.engine.snapshot import decode, encode, restore
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    KILLED,
    CheckpointCommitted,
    CheckpointFailed,
    Outcome,
    StopRequested,
    TrainingEnded,
    WorkerAttached,
    WorkerLost,
)
from asyncsearch.ids import CheckpointRef, Lease, TrialId, WorkerId
from asyncsearch.schedulers import ASHA, FIFO
from asyncsearch.simulate import Faults, Loss
from asyncsearch.simulate.workloads import Curves
from asyncsearch.trial import TrialState
from tests.engine.player import Player, lease_of, only
from tests.engine.tools import make_state, record, replayed

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


TRAINED = FIFO(max_resource=15)


@pytest.mark.parametrize(
    ("resources", "counts"),
    [
        ([0], [1]),
        ([0, 0, 0], [1, 2, 3]),
        ([0, 4, 4, 5], [1, 1, 2, 1]),
        ([9, 3, 3], [1, 1, 2]),  # it went on from another trial's checkpoint
    ],
)
def test_a_loss_after_progress_counts_from_one_again(resources: list[int], counts: list[int]) -> None:
    losses = None
    counted = []
    for resource in resources:
        losses = after_loss(losses, resource)
        counted.append(losses.count)
    assert counted == counts


def preempted(times: Iterable[float]) -> tuple[StudyState, list[bytes]]:
    """One trial of 15 units of a second, whose only worker is lost at these times for a while."""
    losses = [Loss(WorkerId(0), at_s, 0.1) for at_s in times]
    recorded = record(make_state(TRAINED, max_relaunches=20), 1, 1, workload=Curves(), faults=Faults(losses=losses))
    return recorded.state, recorded.lines


def test_ten_preemptions_with_progress_between_them_fail_no_trial() -> None:
    # It has no checkpoint, so each attempt trains one unit more than the one before until it is lost.
    state, lines = preempted(itertools.accumulate(number + 1.5 for number in range(1, 11)))
    trial = state.trials[0]
    assert (trial.state, trial.resource, trial.losses) == (TrialState.COMPLETED, 15, 10)
    assert replayed(make_state(TRAINED, max_relaunches=20), lines).trials == state.trials
    assert not state.consecutive_losses, "a finished trial has none"


def test_four_losses_in_a_row_without_progress_fail_a_trial_in_words() -> None:
    state, _ = preempted([2.5, 5.1, 7.7, 10.3])
    trial = state.trials[0]
    assert (trial.state, trial.losses) == (TrialState.FAILED, 4)
    assert trial.reason.startswith("4 attempts were lost without progress beyond 2; the last one: worker-0 was lost: ")


def test_a_snapshot_goes_on_counting() -> None:
    def state() -> StudyState:
        return make_state(TRAINED)

    before, after = state(), state()
    before.consecutive_losses = {TrialId(0): after_loss(after_loss(None, 7), 7)}
    snapshot = decode(encode(before, 0))
    assert snapshot is not None
    restore(after, snapshot)
    assert after.consecutive_losses == before.consecutive_losses


FAILURE = 'Traceback:\n  File "train.py", line 7, in train\nValueError: broken machine'
CLAIMS = {
    "CannotPauseError": lambda lease: TrainingEnded(lease, Outcome.FAILED, 0, error="x", error_kind="cannot_pause"),
    "MetricNotReportedError": lambda lease: TrainingEnded(lease, Outcome.RETURNED, 1),
    "TrialsFailedError": lambda lease: TrainingEnded(lease, Outcome.FAILED, 0, error=FAILURE, error_kind="ValueError"),
}


def searching(workers: int, trials: int = 40) -> Player:
    player = Player(make_state(FIFO(max_resource=3)))
    player.begin(trials, workers)
    return player


def open_lease_of(player: Player, worker: int) -> Lease:
    return next(one.lease for one in player.state.attempts.values() if one.lease.worker == worker and one.end is None)


@pytest.mark.parametrize("kind", CLAIMS)
def test_what_one_worker_of_several_says_costs_its_own_trials(kind: str) -> None:
    player = searching(3)
    for number in range(12):
        player.tell(CLAIMS[kind](open_lease_of(player, 0)))
        assert not only(player.last, StopRun)
        assert player.states().count(TrialState.FAILED) == number + 1
    assert player.state.run is not None


@pytest.mark.parametrize("kind", CLAIMS)
def test_what_two_workers_say_ends_the_run(kind: str) -> None:
    player = searching(3)
    stops = []
    for number in range(6):
        player.tell(CLAIMS[kind](open_lease_of(player, number % 2)))
        stops += only(player.last, StopRun)
        if stops:
            break
    assert [stop.error_kind for stop in stops] == [kind]


@pytest.mark.parametrize("kind", CLAIMS)
def test_the_only_worker_is_believed(kind: str) -> None:
    player = searching(1)
    for _ in range(4):
        player.tell(CLAIMS[kind](open_lease_of(player, 0)))
        if ends := only(player.last, EndRun):
            assert ends[0].error_kind == kind
            return
    raise AssertionError("it went on")


def test_the_end_says_that_all_trials_lacked_the_metric_even_on_one_worker() -> None:
    player = searching(2, trials=3)
    for _ in range(2):
        player.tell(CLAIMS["MetricNotReportedError"](open_lease_of(player, 0)))
    player.tell(TrainingEnded(open_lease_of(player, 1), Outcome.FAILED, 0, error="x", error_kind="ValueError"))
    (end,) = only(player.last, EndRun)
    assert end.error_kind == "MetricNotReportedError"


def test_a_worker_that_alone_finds_checkpoints_damaged_is_dismissed() -> None:
    player = searching(2)
    for _ in range(8):
        player.tell(
            TrainingEnded(open_lease_of(player, 0), Outcome.FAILED, 0, error="damaged", error_kind="checkpoint")
        )
        assert not only(player.last, StopRun)
        if dismissed := only(player.last, DismissWorker):
            assert [one.worker for one in dismissed] == [WorkerId(0)]
            assert "it alone says" in dismissed[0].reason
            return
    raise AssertionError("it goes on for ever")


@pytest.mark.parametrize("end", ["in words", "at its target"])
def test_the_end_says_that_no_trial_can_pause_even_on_one_worker(end: str) -> None:
    player = Player(make_state(ASHA(max_resource=9)))
    player.begin(1, 2)
    lease = open_lease_of(player, 0)
    if end == "in words":
        words = "Traceback:\nasyncsearch.errors.CannotPauseError: trial-0 had to pause at 1: give save="
        player.tell(TrainingEnded(lease, Outcome.FAILED, 0, error=words, error_kind="cannot_pause"))
    else:
        player.report(lease, 1)
        player.tell(TrainingEnded(lease, Outcome.REACHED, 1, None))
    (stop,) = only(player.last, EndRun)
    assert stop.error_kind == "CannotPauseError"
    assert "save=" in stop.reason


def test_one_workers_claim_does_not_fail_a_search_that_has_results() -> None:
    player = searching(2, trials=2)
    words = "asyncsearch.errors.CannotPauseError: trial-0 had to pause at 1"
    player.tell(TrainingEnded(open_lease_of(player, 0), Outcome.FAILED, 0, error=words, error_kind="cannot_pause"))
    player.reach(open_lease_of(player, 1), 3)
    (stop,) = only(player.last, EndRun)
    assert not stop.error_kind


def test_a_worker_that_never_stores_what_it_says_is_launched_no_more() -> None:
    player = searching(2)
    most = player.state.config.max_relaunches
    for epoch in range(1, most + 2):
        player.tell(TrainingEnded(open_lease_of(player, 0), Outcome.RETURNED, 3, 3))
        player.tell(WorkerLost(WorkerId(0), epoch, "it does not get on"))
        assert bool(only(player.last, LaunchWorker)) == (epoch <= most)
        player.tell(WorkerAttached(WorkerId(0), epoch + 1))
    assert player.state.run is not None, "the other worker goes on"


@pytest.mark.parametrize(("is_asked", "lost"), [(True, 0), (False, 2)])
def test_a_stop_that_nobody_asked_for_is_no_work_done(lost: int, *, is_asked: bool) -> None:
    player = searching(2)
    slot = player.state.pool.slots[WorkerId(0)]
    slot.fruitless = 2
    lease = open_lease_of(player, 0)
    player.state.attempts[lease.number].is_stop_sent = is_asked
    player.tell(TrainingEnded(lease, Outcome.STOPPED, 0))
    assert slot.fruitless == lost


@pytest.mark.parametrize(("error_kind", "lost"), [("store", 2), ("", 0)])
def test_a_worker_that_blames_the_trial_and_not_the_store_is_of_use(error_kind: str, lost: int) -> None:
    player = searching(2)
    slot = player.state.pool.slots[WorkerId(0)]
    slot.fruitless = 2
    lease = open_lease_of(player, 0)
    node = player.state.trials[player.state.attempts[lease.number].trial].node
    player.tell(TrainingEnded(lease, Outcome.RETURNED, 3, 3))
    player.tell(CheckpointFailed(lease, CheckpointRef(node, 3), "no", error_kind=error_kind))
    assert slot.fruitless == lost

"""One worker's word ends no search: what would concern every trial is said by two workers, or by the only one."""

from __future__ import annotations

import pytest

from asyncsearch.actions import DismissWorker, EndRun, LaunchWorker, StopRun
from asyncsearch.events import CheckpointFailed, Outcome, TrainingEnded, WorkerAttached, WorkerLost
from asyncsearch.ids import CheckpointRef, Lease, WorkerId
from asyncsearch.schedulers import ASHA, FIFO
from asyncsearch.trial import TrialState
from tests.engine.player import Player, only
from tests.engine.tools import make_state

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


def lease_of(player: Player, worker: int) -> Lease:
    return next(one.lease for one in player.state.attempts.values() if one.lease.worker == worker and one.end is None)


@pytest.mark.parametrize("kind", CLAIMS)
def test_what_one_worker_of_several_says_costs_its_own_trials(kind: str) -> None:
    player = searching(3)
    for number in range(12):
        player.tell(CLAIMS[kind](lease_of(player, 0)))
        assert not only(player.last, StopRun)
        assert player.states().count(TrialState.FAILED) == number + 1
    assert player.state.run is not None


@pytest.mark.parametrize("kind", CLAIMS)
def test_what_two_workers_say_ends_the_run(kind: str) -> None:
    player = searching(3)
    stops = []
    for number in range(6):
        player.tell(CLAIMS[kind](lease_of(player, number % 2)))
        stops += only(player.last, StopRun)
        if stops:
            break
    assert [stop.error_kind for stop in stops] == [kind]


@pytest.mark.parametrize("kind", CLAIMS)
def test_the_only_worker_is_believed(kind: str) -> None:
    player = searching(1)
    for _ in range(4):
        player.tell(CLAIMS[kind](lease_of(player, 0)))
        if ends := only(player.last, EndRun):
            assert ends[0].error_kind == kind
            return
    raise AssertionError("it went on")


def test_the_end_says_that_all_trials_lacked_the_metric_even_on_one_worker() -> None:
    player = searching(2, trials=3)
    for _ in range(2):
        player.tell(CLAIMS["MetricNotReportedError"](lease_of(player, 0)))
    player.tell(TrainingEnded(lease_of(player, 1), Outcome.FAILED, 0, error="x", error_kind="ValueError"))
    (end,) = only(player.last, EndRun)
    assert end.error_kind == "MetricNotReportedError"


def test_a_worker_that_alone_finds_checkpoints_damaged_is_dismissed() -> None:
    player = searching(2)
    for _ in range(8):
        player.tell(TrainingEnded(lease_of(player, 0), Outcome.FAILED, 0, error="damaged", error_kind="checkpoint"))
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
    lease = lease_of(player, 0)
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
    player.tell(TrainingEnded(lease_of(player, 0), Outcome.FAILED, 0, error=words, error_kind="cannot_pause"))
    player.reach(lease_of(player, 1), 3)
    (stop,) = only(player.last, EndRun)
    assert not stop.error_kind


def test_a_worker_that_never_stores_what_it_says_is_launched_no_more() -> None:
    player = searching(2)
    most = player.state.config.max_relaunches
    for epoch in range(1, most + 2):
        player.tell(TrainingEnded(lease_of(player, 0), Outcome.RETURNED, 3, 3))
        player.tell(WorkerLost(WorkerId(0), epoch, "it does not get on"))
        assert bool(only(player.last, LaunchWorker)) == (epoch <= most)
        player.tell(WorkerAttached(WorkerId(0), epoch + 1))
    assert player.state.run is not None, "the other worker goes on"


@pytest.mark.parametrize(("is_asked", "lost"), [(True, 0), (False, 2)])
def test_a_stop_that_nobody_asked_for_is_no_work_done(lost: int, *, is_asked: bool) -> None:
    player = searching(2)
    slot = player.state.pool.slots[WorkerId(0)]
    slot.fruitless = 2
    lease = lease_of(player, 0)
    player.state.attempts[lease.number].is_stop_sent = is_asked
    player.tell(TrainingEnded(lease, Outcome.STOPPED, 0))
    assert slot.fruitless == lost


@pytest.mark.parametrize(("error_kind", "lost"), [("store", 2), ("", 0)])
def test_a_worker_that_blames_the_trial_and_not_the_store_is_of_use(error_kind: str, lost: int) -> None:
    player = searching(2)
    slot = player.state.pool.slots[WorkerId(0)]
    slot.fruitless = 2
    lease = lease_of(player, 0)
    node = player.state.trials[player.state.attempts[lease.number].trial].node
    player.tell(TrainingEnded(lease, Outcome.RETURNED, 3, 3))
    player.tell(CheckpointFailed(lease, CheckpointRef(node, 3), "no", error_kind=error_kind))
    assert slot.fruitless == lost

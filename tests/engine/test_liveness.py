"""Silence and deadlines, with time as an argument."""

from __future__ import annotations

import pytest

from asyncsearch.actions import Assign, EndRun, StopTraining
from asyncsearch.engine.liveness import Deadlines, Liveness, Outages
from asyncsearch.events import CheckpointFailed, Outcome, StopRequested, TrainingEnded, WorkerLost
from asyncsearch.ids import CheckpointRef, WorkerId
from asyncsearch.schedulers import ASHA
from asyncsearch.trial import TrialState
from tests.engine.player import Player, lease_of, only
from tests.engine.tools import make_state


def test_a_silent_worker_is_overdue_and_a_heard_one_is_not() -> None:
    liveness: Liveness[str] = Liveness(30.0)
    liveness.seen("a", 0.0)
    liveness.seen("b", 10.0)
    assert liveness.overdue(29.9) == []
    assert liveness.overdue(30.0) == [("a", 30.0)]
    liveness.seen("a", 31.0)
    assert liveness.overdue(40.0) == [("b", 30.0)]


def test_the_next_deadline_is_that_of_the_most_silent_worker() -> None:
    liveness: Liveness[str] = Liveness(30.0)
    assert liveness.next_deadline() is None
    liveness.seen("a", 0.0)
    liveness.seen("b", 5.0)
    liveness.seen("a", 8.0)
    assert liveness.next_deadline() == 35.0
    liveness.forget("b")
    assert liveness.next_deadline() == 38.0


def test_a_deadline_that_was_called_off_or_moved_does_not_expire() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 5.0)
    deadlines.set("b", 6.0)
    deadlines.set("b", 9.0)
    deadlines.call_off("a")
    assert deadlines.next_deadline() == 9.0
    assert deadlines.expired(8.0) == []
    assert deadlines.expired(9.0) == ["b"]
    assert deadlines.next_deadline() is None


def test_an_outage_lasts_from_its_first_to_its_last() -> None:
    outages: Outages[str] = Outages(10.0)
    assert outages.next_deadline() is None
    assert outages.began("a", "full", 1.0)
    assert not outages.began("b", "full too", 5.0)
    assert outages.next_deadline() == 11.0
    assert outages.ended("a", 8.0) is None
    assert outages.expired(10.9) == ""
    assert outages.expired(11.0) == "full too"
    assert outages.ended("b", 12.0) == 11.0
    assert outages.next_deadline() is None
    assert outages.expired(99.0) == ""


def test_an_outage_that_ended_does_not_count_for_the_next_one() -> None:
    outages: Outages[str] = Outages(10.0)
    outages.began("a", "full", 1.0)
    outages.ended("a", 9.0)
    assert outages.ended("a", 9.5) is None
    assert outages.began("a", "full", 20.0)
    assert outages.expired(29.0) == ""
    assert outages.next_deadline() == 30.0


@pytest.fixture
def asha() -> Player:
    return Player(make_state(ASHA(max_resource=9)))


def test_a_checkpoint_that_the_store_refuses_blames_no_trial(asha: Player) -> None:
    asha.begin(1, 1)
    lease, trial = lease_of(asha.last), asha.state.trials[0]
    asha.report(lease, 1)
    asha.tell(TrainingEnded(lease, Outcome.REACHED, 1, 1))
    actions = asha.tell(StopRequested("the store could not be used for 600 s: disk full", "StoreError"))
    assert only(actions, StopTraining)[0].lease == lease, "its worker must not wait for ever"
    actions = asha.tell(CheckpointFailed(lease, CheckpointRef(trial.node, 1), "disk full", error_kind="store"))
    end = only(actions, EndRun)[0]
    assert (end.error_kind, end.is_complete) == ("StoreError", False)
    assert (trial.state, trial.failures, trial.losses) == (TrialState.WAITING, 0, 0)


def test_a_trial_whose_checkpoint_the_store_refused_resumes_in_this_run(asha: Player) -> None:
    asha.begin(1, 1)
    lease, trial = lease_of(asha.last), asha.state.trials[0]
    asha.report(lease, 1)
    asha.tell(TrainingEnded(lease, Outcome.REACHED, 1, 1))
    asha.tell(CheckpointFailed(lease, CheckpointRef(trial.node, 1), "disk full", error_kind="store"))
    assert (trial.state, trial.failures) == (TrialState.RUNNING, 0)
    assert lease_of(asha.last) != lease


def test_a_store_that_damages_checkpoints_ends_the_run_and_blames_no_trial() -> None:
    player = Player(make_state(ASHA(max_resource=9), max_losses=1))
    player.begin(3, 1)
    actions = player.last
    for loss in (0.3, 0.1, 0.2):
        actions = player.reach(lease_of(actions), 1, loss)
    promoted = next(trial for trial in player.state.trials if trial.target == 3)
    lease = only(actions, Assign)[-1].work.lease
    player.tell(TrainingEnded(lease, Outcome.FAILED, 1, None, "damaged", "checkpoint"))
    assert (promoted.state, promoted.losses, promoted.failures) == (TrialState.RUNNING, 0, 0)
    player.tell(TrainingEnded(lease_of(player.last), Outcome.FAILED, 0, None, "damaged", "checkpoint"))
    end = only(player.last, EndRun)[0]
    assert end.error_kind == "StoreError"
    assert "2 checkpoints of one trial were damaged; the last one: damaged" in end.reason
    assert (promoted.state, promoted.losses, promoted.failures) == (TrialState.WAITING, 0, 0)


def test_a_worker_that_is_given_up_because_the_run_ends_blames_no_trial(asha: Player) -> None:
    asha.begin(1, 1)
    asha.tell(StopRequested("it was interrupted"))
    asha.tell(WorkerLost(WorkerId(0), 1, "it did not stop in time"))
    trial = asha.state.trials[0]
    assert (trial.state, trial.losses) == (TrialState.WAITING, 0)


def test_the_first_reason_to_stop_names_the_error(asha: Player) -> None:
    asha.begin(1, 1)
    lease = lease_of(asha.last)
    asha.tell(StopRequested("it was interrupted"))
    asha.tell(StopRequested("the store could not be used", "StoreError"))
    end = only(asha.tell(TrainingEnded(lease, Outcome.STOPPED, 0)), EndRun)[0]
    assert (end.reason, end.error_kind) == ("it was interrupted", "")


def test_until_enough_wait_the_time_of_each_counts_for_itself() -> None:
    outages: Outages[str] = Outages(10.0, own=("journal",))
    outages.began("a", "full", 1.0, 2)
    outages.began("b", "full too", 9.0, 2)
    assert outages.next_deadline() == 19.0, "both say so since 9"
    outages.ended("b", 10.0, 2)
    assert (outages.next_deadline(), outages.alone(11.0), outages.is_agreed) == (11.0, {"a": "full"}, False)
    outages.began("journal", "read-only", 10.5, 2)
    assert (outages.next_deadline(), outages.alone(11.0), outages.is_agreed) == (20.5, {}, True)
    assert outages.expired(20.5) == "read-only"

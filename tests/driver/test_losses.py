"""The sentence for each loss: what is gone, and what that costs."""

from __future__ import annotations

from typing import Any

from asyncsearch.driver.event_handling import loss_in
from asyncsearch.engine.handling import handle
from asyncsearch.engine.state import StudyState
from asyncsearch.events import (
    KILLED,
    CheckpointCommitted,
    Outcome,
    StopRequested,
    TrainingEnded,
    WorkerLost,
)
from asyncsearch.ids import CheckpointRef, WorkerId
from asyncsearch.schedulers import FIFO
from tests.engine.player import Player, lease_of
from tests.engine.tools import make_state

W0 = WorkerId(0)


def sentence(state: StudyState, event: WorkerLost | TrainingEnded) -> str:
    loss = loss_in(state, event)
    handle(state, event, 1e6)
    return "" if loss is None else loss.sentence(state)


def trained(reported: int, saved: int, **options: Any) -> Player:
    """A trial on one worker, with reports and a checkpoint."""
    player = Player(make_state(FIFO(max_resource=9), save_every=1, **options))
    player.begin(1, 1)
    lease, trial = lease_of(player.last), player.state.trials[0]
    for resource in range(1, reported + 1):
        player.report(lease, resource)
    if saved:
        player.tell(CheckpointCommitted(lease, CheckpointRef(trial.node, saved)))
    return player


def lost(player: Player, reason: str = "its process 12 was killed by SIGKILL\nTraceback: x") -> str:
    return sentence(player.state, WorkerLost(W0, 1, reason))


def test_a_lost_worker_names_its_trial_and_the_units_to_retrain() -> None:
    assert lost(trained(5, 2)) == (
        "worker-0 was lost: its process 12 was killed by SIGKILL. trial-0 goes on from its checkpoint at 2 units; 3 "
        "units are trained again."
    )


def test_where_all_was_saved_only_the_unit_in_progress_is_trained_again() -> None:
    end = ". trial-0 goes on from its checkpoint at 2 units; the unit in progress is trained again."
    assert lost(trained(2, 2)).endswith(end)


def test_a_trial_without_a_checkpoint_begins_again() -> None:
    assert lost(trained(1, 0)).endswith(". trial-0 begins again; 1 unit is trained again.")


def test_a_worker_without_a_trial_costs_nothing() -> None:
    player = Player(make_state(FIFO(max_resource=9)))
    player.begin(1, 2)
    assert sentence(player.state, WorkerLost(WorkerId(1), 1, "silent for 30 s.")) == (
        "worker-1 was lost: silent for 30 s."
    )


def test_a_worker_that_is_given_up_is_said_to_be() -> None:
    player = Player(make_state(FIFO(max_resource=9), max_relaunches=0))
    player.begin(1, 2)
    assert lost(player).endswith(
        "It is not launched again, since it was lost once without having finished any training or stored a "
        "checkpoint; workers left: 1."
    )


def test_a_killed_process_names_its_trial_and_worker() -> None:
    player = trained(3, 1)
    end = TrainingEnded(lease_of_first(player), Outcome.FAILED, 3, None, "its process was killed by SIGTERM", KILLED)
    assert sentence(player.state, end) == (
        "trial-0 lost a process on worker-0: its process was killed by SIGTERM. trial-0 goes on from its checkpoint at "
        "1 unit; 2 units are trained again."
    )


def test_a_trial_that_fails_by_its_losses_is_said_to_have_failed() -> None:
    words = ". trial-0 has failed: 1 attempt was lost without progress beyond 1; the last one: worker-0 was lost: "
    assert words in lost(trained(1, 0, max_losses=0))


def test_a_loss_while_the_run_ends_says_that_the_trial_goes_on_later() -> None:
    player = trained(3, 1)
    player.tell(StopRequested("it was interrupted"))
    assert "trial-0 goes on in the next run from its checkpoint at 1 unit; 2 units are trained again." in lost(player)


def test_a_failure_of_the_trial_itself_is_no_loss() -> None:
    player = trained(1, 0)
    end = TrainingEnded(lease_of_first(player), Outcome.FAILED, 1, None, "ValueError: x", "ValueError")
    assert sentence(player.state, end) == ""


def lease_of_first(player: Player) -> Any:
    return next(iter(player.state.attempts.values())).lease

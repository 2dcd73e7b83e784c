"""A study, or a trial, is ended by its stop rules, with its weights saved, in any order of events."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from asyncsearch.actions import Assign, CreateTrial, CutWork, EndRun, LaunchWorker, MoveTrial, StopRun, StopTraining
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.engine.stop_decisions import BY_RULE, due_s
from asyncsearch.events import CheckpointCommitted, Outcome, RuleDue, RunRequested, TrainingEnded
from asyncsearch.ids import CheckpointRef, Lease, TrialId, WorkerId
from asyncsearch.schedulers import ASHA, FIFO
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers import RandomSearch
from asyncsearch.space import Space, choice
from asyncsearch.stop_rules import Elapsed, Plateau, Reached, StopRule, Trained
from asyncsearch.testing.random_cluster import RandomCluster
from asyncsearch.trial import TrialState
from tests.engine.player import Player, lease_of, only
from tests.shares import seeds

SPACE = Space.of({"x": choice(*range(40))})


def state_of(scheduler: Scheduler | None = None, *, can_save: bool = True, **rules: Any) -> StudyState:
    scheduler = scheduler or FIFO(max_resource=9)
    config = EngineConfig(study="s", metric="loss", mode="min", share=False, can_save=can_save, **rules)
    living = scheduler.begin(SPACE, 0)
    return StudyState(config, RandomSearch().begin(SPACE, 0), living, scheduler.max_resource)


def begun(state: StudyState, trials: int | None = 5, workers: int = 1) -> tuple[Player, Lease]:
    player = Player(state)
    player.begin(trials, workers)
    return player, lease_of(player.last)


def end_saved(player: Player, lease: Lease, resource: int) -> list[Any]:
    trial = player.state.trials[player.state.attempts[lease.number].trial]
    first = player.tell(TrainingEnded(lease, Outcome.REACHED, resource, resource))
    return first + player.tell(CheckpointCommitted(lease, CheckpointRef(trial.node, resource)))


def test_a_study_that_has_enough_begins_nothing_more_and_saves_what_trains() -> None:
    player, lease = begun(state_of(stop_when=Reached(0.5)))
    player.report(lease, 1, 0.7)
    decided = player.report(lease, 2, 0.5)
    assert only(decided, StopRun)[0].reason == f"{BY_RULE}loss has reached 0.5: 0.5"
    assert [(cut.stop, cut.lease) for cut in only(decided, CutWork)] == [(2, lease)]
    ended = end_saved(player, lease, 2)
    assert only(ended, EndRun)
    assert not only(ended, CreateTrial)
    trial = player.state.trials[0]
    assert (trial.state, trial.checkpoint and trial.checkpoint.resource) == (TrialState.WAITING, 2)


def test_a_training_that_cannot_be_saved_is_stopped_at_once() -> None:
    player, lease = begun(state_of(can_save=False, stop_when=Reached(0.5)))
    assert only(player.report(lease, 1, 0.1), StopTraining)


def test_a_run_of_a_study_that_has_enough_ends_before_any_worker_starts() -> None:
    player, lease = begun(state_of(stop_when=Reached(0.5)))
    player.report(lease, 1, 0.1)
    end_saved(player, lease, 1)
    again = player.tell(RunRequested(9, 1))
    assert not only(again, LaunchWorker)
    assert only(again, EndRun)[0].reason == f"{BY_RULE}loss has reached 0.5: 0.1"


def test_a_trial_is_stopped_once_its_checkpoint_is_durable() -> None:
    player, lease = begun(state_of(stop_trial_when=Reached(0.5)))
    decided = player.report(lease, 3, 0.4)
    assert not only(decided, MoveTrial)
    ended = end_saved(player, lease, 3)
    move = only(ended, MoveTrial)[0]
    assert (move.trial, move.to, move.reason) == (0, TrialState.STOPPED, "loss has reached 0.5: 0.4")
    assert player.state.best_trials.trials() == [0]
    assert only(ended, Assign)


def test_a_trial_that_has_enough_where_it_would_pause_is_never_promoted() -> None:
    player, lease = begun(state_of(ASHA(max_resource=9), stop_trial_when=Reached(0.5)))
    player.report(lease, 1, 0.4)
    end_saved(player, lease, 1)
    assert player.state.trials[0].state is TrialState.STOPPED
    for number in range(1, 5):
        player.reach(Lease(number, WorkerId(0), 1), 1, 1.0 + number)
    assert player.state.trials[0].target == 1


def test_a_trial_at_its_own_end_is_complete_whatever_its_rule_says() -> None:
    player, lease = begun(state_of(FIFO(max_resource=2), stop_trial_when=Trained(2)))
    player.report(lease, 1, 0.4)
    player.reach(lease, 2, 0.3)
    assert player.state.trials[0].state is TrialState.COMPLETED


def test_a_function_that_raises_ends_the_run_in_words() -> None:
    def wrong(progress: Any) -> bool:
        raise KeyError("los")

    for argument in ("stop_when", "stop_trial_when"):
        rules: dict[str, Any] = {argument: Reached(0.0) | wrong}
        player, lease = begun(state_of(**rules))
        (stop,) = only(player.report(lease, 1, 0.4), StopRun)
        assert stop.error_kind == "UsageError"
        assert f"{argument}=Reached(0) | " in stop.reason
        assert "KeyError: 'los'" in stop.reason


def test_time_alone_ends_a_study_and_a_trial() -> None:
    player, lease = begun(state_of(stop_when=Elapsed(100)))
    started = player.state.times.began_s or 0.0
    assert due_s(player.state, player.now) == pytest.approx(started + 100)
    player.now = started + 98.5
    assert not player.tell(RuleDue())
    player.now = started + 99
    assert only(player.tell(RuleDue()), CutWork)[0].stop == 1
    assert due_s(player.state, player.now) is None

    player, lease = begun(state_of(stop_trial_when=Elapsed(50)))
    player.report(lease, 1, 1.0)
    since = player.state.attempts[lease.number].since_s
    assert due_s(player.state, player.now) == pytest.approx(since + 50)
    player.now = since + 49
    assert only(player.tell(RuleDue()), CutWork)
    end_saved(player, lease, 2)
    assert player.state.trials[0].state is TrialState.STOPPED


def test_a_trial_counts_only_the_time_in_which_it_trains() -> None:
    player, lease = begun(state_of(ASHA(max_resource=9, reduction_factor=3), stop_trial_when=Elapsed(1000)), 3)
    player.reach(lease, 1, 0.1)
    player.now += 500
    for number in (1, 2):
        player.reach(Lease(number, WorkerId(0), 1), 1, 1.0)
    facts = player.state.stop_facts
    assert facts is not None
    assert facts.trials[TrialId(0)].seconds < 10


def test_a_trial_counts_once_and_failed_ones_do_not() -> None:
    player, _ = begun(state_of(ASHA(max_resource=9), stop_when=Plateau(trials=100)), 4)
    facts = player.state.stop_facts
    assert facts is not None
    for number in range(3):
        player.reach(Lease(number, WorkerId(0), 1), 1, 0.1 + number)
    assert facts.study.trials == 3
    promoted = next(attempt for attempt in player.state.attempts.values())
    player.reach(promoted.lease, promoted.stop, 0.05)
    failing = next(attempt for attempt in player.state.attempts.values())
    player.tell(TrainingEnded(failing.lease, Outcome.FAILED, failing.resource, None, "ValueError", "ValueError"))
    assert facts.study.trials == 3
    assert facts.study.units == sum(trial.trained for trial in player.state.trials)


RULES: dict[str, Callable[[], dict[str, StopRule]]] = {
    "value": lambda: {"stop_when": Reached(0.02), "stop_trial_when": Reached(0.2)},
    "plateau": lambda: {"stop_when": Plateau(trials=6, min_delta=0.01), "stop_trial_when": Plateau(reports=2)},
    "time": lambda: {"stop_when": Elapsed(900) | Trained(90), "stop_trial_when": Elapsed(40) & Trained(2)},
}


class RuledCluster(RandomCluster):
    def step(self) -> None:
        if self.chance.random() < 0.05:
            self.tell(RuleDue())
        super().step()


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("seed", seeds(16, 8))
def test_any_order_of_events_a_crash_and_a_restore_decide_alike(rules: str, seed: int) -> None:
    scheduler = FIFO(max_resource=9) if seed % 2 else ASHA(max_resource=9)
    world = RuledCluster(lambda: state_of(scheduler, can_save=seed % 3 > 0, **RULES[rules]()), random.Random(seed))
    world.live(100)
    world.require_memory()
    world.require_same_decisions()
    for _ in range(100):
        world.step()
    for trial in world.state.trials:
        assert trial.state is not TrialState.PAUSED or rules != "value" or (trial.best or 1.0) > 0.2, trial

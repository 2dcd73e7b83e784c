"""What is read from the journal: reports, and the story of a trial."""

from __future__ import annotations

import math

import pytest

from asyncsearch.actions import CreateTrial, Promote
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.journal.projection import history, reports
from asyncsearch.report.explain import WIDTH, explain
from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.simulate import Delays, Faults, Loss, Simulation
from asyncsearch.simulate.workloads import NoisyQuadratic
from asyncsearch.testing.recording import Histories
from asyncsearch.trial import Params, TrialState
from tests.engine.test_sharing import SPACE as SCHEDULES
from tests.engine.tools import Recorded, make_state
from tests.report.tools import FAILING, records_of, simulated

STOPPING = [ASHA(max_resource=9, variant="stopping"), MedianStopping(max_resource=9, min_trials=2)]


def test_history_of_every_trial_ends_with_its_value() -> None:
    recorded = simulated()
    records = records_of(recorded)
    for trial in recorded.state.trials:
        told = history(records, trial.id)
        assert [resource for resource, _ in told] == list(range(1, trial.resource + 1))
        if told:
            assert told[-1][1]["loss"] == trial.value


@pytest.mark.parametrize("scheduler", [FIFO(max_resource=9), ASHA(max_resource=9)], ids=["fifo", "asha"])
@pytest.mark.parametrize(("share", "look_ahead"), [(True, 0), (True, 1_000), (False, 0)])
def test_history_of_a_trial_is_its_own_whatever_it_shares(scheduler: Scheduler, share: bool, look_ahead: int) -> None:
    state = make_state(scheduler, GridSearch(), SCHEDULES, share=share, look_ahead=look_ahead)
    recorded = Recorded(state)
    Simulation(state, workload=Histories(), workers=2, watch=recorded).run(None)
    for trial in state.trials:
        alone = [Histories().value(trial.id, trial.params, unit) for unit in range(1, trial.resource + 1)]
        assert [metrics["loss"] for _, metrics in history(records_of(recorded), trial.id)] == alone


def test_what_a_lost_attempt_reported_before_is_not_told_twice() -> None:
    losses = [Loss(WorkerId(worker), 12.4 + worker, 1.0) for worker in range(3)]
    recorded = simulated(faults=Faults(losses=losses, failures={FAILING: 1}))
    assert any(trial.losses and trial.trained > trial.resource for trial in recorded.state.trials)
    told = [(report.trial, report.resource) for report in reports(records_of(recorded))]
    assert len(told) == len(set(told))


def test_story_of_a_trial_at_its_end_says_so_in_the_tables_words() -> None:
    recorded = simulated()
    trial = next(trial for trial in recorded.state.trials if trial.state is TrialState.COMPLETED)
    story = explain(records_of(recorded), trial.id, metric="loss")
    assert story.startswith(f"{trial.name} was {TrialState.COMPLETED.words}.")
    assert "completed" not in story


class Diverging(Histories):
    """The first trial's metric is NaN from its first unit on."""

    def value(self, trial: TrialId, params: Params, unit: int) -> float:
        return math.nan if trial == 0 else super().value(trial, params, unit)


def test_story_of_a_diverged_trial_names_the_nan_that_it_reported() -> None:
    recorded = simulated(faults=Faults(), workload=Diverging())
    story = explain(records_of(recorded), TrialId(0), metric="loss")
    assert "its loss there: nan" in story


def test_story_tells_each_promotion_with_its_reason() -> None:
    recorded = simulated()
    promotions = [a for _, _, actions in recorded.steps for a in actions if isinstance(a, Promote)]
    assert promotions
    for promotion in promotions:
        story = explain(records_of(recorded), promotion.trial, metric="loss")
        assert f"promoted from {promotion.from_resource} to {promotion.to_resource}: {promotion.reason}" in story


def test_story_tells_losses_and_where_the_trial_went_on() -> None:
    recorded = simulated()
    lost = next(trial for trial in recorded.state.trials if trial.losses)
    story = explain(records_of(recorded), lost.id, metric="loss")
    assert "returned to the queue for a worker: worker-1 was lost: it was killed by the script" in story


def test_story_tells_that_a_worker_was_started_again_for_the_trial() -> None:
    state = make_state(SHA(max_resource=9, bracket_size=9))
    recorded = Recorded(state)
    Simulation(state, Histories(), workers=5, delays=Delays(release_idle_s=0.5), watch=recorded).run(9)
    stories = [explain(records_of(recorded), trial.id, metric="loss") for trial in state.trials]
    assert any("started again since its slot had gone back, trains it from its checkpoint" in one for one in stories)


def test_story_of_a_failed_trial_ends_with_its_error() -> None:
    story = explain(records_of(simulated()), FAILING, metric="loss")
    assert story.startswith(f"trial-{FAILING} has failed.")
    assert story.endswith("failed: it raised as the script says")


def test_story_begins_with_the_configuration_and_the_studys_clock() -> None:
    lines = explain(records_of(simulated()), TrialId(0), metric="loss").splitlines()
    assert lines[1].startswith("   0:00:00  created, to be trained up to 1 first: lr=")
    assert "model.width=" in lines[1]


def test_a_waiting_trial_is_told_its_rank_in_its_rung() -> None:
    recorded = simulated()
    paused = [trial for trial in recorded.state.trials if trial.state is TrialState.PAUSED and trial.resource == 1]
    everyone = [
        history(records_of(recorded), trial.id)[0][1]["loss"] for trial in recorded.state.trials if trial.resource
    ]
    worst = max(paused, key=lambda trial: trial.value or 0.0)
    story = explain(records_of(recorded), worst.id, metric="loss", mode="min")
    rank = 1 + sum(value < worst.value for value in everyone if isinstance(value, float) and worst.value is not None)
    assert f"It waits at 1, where it has rank {rank} of {len(everyone)} so far." in story


def test_a_waiting_trial_is_ranked_among_those_of_its_own_bracket() -> None:
    state = make_state(Hyperband(max_resource=9))
    recorded = Recorded(state)
    Simulation(state, Histories(), workers=3, watch=recorded).run(30)
    firsts = {a.trial: a.target for _, _, actions in recorded.steps for a in actions if isinstance(a, CreateTrial)}
    waiting = [trial for trial in state.trials if trial.state is TrialState.PAUSED and trial.resource == 3]
    assert {firsts[trial.id] for trial in waiting} == {1, 3}
    for trial in waiting:
        there = sum(1 for other in state.trials if firsts[other.id] == firsts[trial.id] and other.resource >= 3)
        story = explain(records_of(recorded), trial.id, metric="loss", mode="min")
        assert f"It waits at 3, where it has rank {rank_in(story)} of {there} so far." in story


def test_a_waiting_trial_is_not_ranked_among_those_of_other_populations() -> None:
    workload = NoisyQuadratic()
    state = make_state(PBT(max_resource=30, perturbation_interval=3, population=4), space=workload.space)
    recorded = Recorded(state)
    Simulation(state, workload, workers=2, watch=recorded).run(16, until=90.0)
    waiting = [trial for trial in state.trials[4:] if trial.state is TrialState.PAUSED]
    assert waiting
    for trial in waiting:
        assert "it has rank" not in explain(records_of(recorded), trial.id, metric="loss", mode="min")


@pytest.mark.parametrize("mode", ["min", "max"])
def test_a_waiting_trial_is_ranked_by_the_mode_of_its_study(mode: str) -> None:
    recorded = Recorded(make_state(ASHA(max_resource=9), mode=mode))
    Simulation(recorded.state, Histories(), workers=1, watch=recorded).run(20)
    for trial in recorded.state.trials:
        if trial.state is TrialState.PAUSED:
            story = explain(records_of(recorded), trial.id, metric="loss", mode=mode)
            assert f"rank {rank_in(story)} of " in recorded.state.scheduler.position(trial.id)


def rank_in(story: str) -> str:
    return story.rsplit("it has rank ", 1)[1].split(maxsplit=1)[0]


def test_the_scheduler_explains_last_where_an_unfinished_trial_is() -> None:
    recorded = simulated()
    trials = recorded.state.trials
    paused = next(trial for trial in trials if trial.state is TrialState.PAUSED)
    position = recorded.state.scheduler.position(paused.id)
    story = explain(records_of(recorded), paused.id, metric="loss", mode="min", position=position)
    assert story.endswith(f"Its position: {position}.")
    done = next(trial for trial in trials if trial.state is TrialState.COMPLETED)
    assert "Its position" not in explain(records_of(recorded), done.id, metric="loss", position="rank 1 of 2")


@pytest.mark.parametrize("scheduler", STOPPING, ids=["asha by stopping", "median"])
def test_story_of_a_stopped_trial_tells_why(scheduler: Scheduler) -> None:
    state = make_state(scheduler)
    recorded = Recorded(state)
    Simulation(state, Histories(), workers=3, watch=recorded).run(30)
    stopped = [trial for trial in state.trials if trial.state is TrialState.STOPPED]
    assert stopped
    for trial in stopped:
        assert trial.reason.startswith("stopped at resource")
        story = " ".join(explain(records_of(recorded), trial.id, metric="loss").split())
        assert " ".join(trial.reason.split()) in story


def test_story_of_a_trial_that_does_not_exist_says_so() -> None:
    assert "no such trial" in explain(records_of(simulated()), TrialId(999), metric="loss")


def test_story_keeps_to_the_width_of_a_page() -> None:
    recorded = simulated()
    for trial in recorded.state.trials:
        assert max(map(len, explain(records_of(recorded), trial.id, metric="loss").splitlines())) <= WIDTH

"""A finished study goes on with more trials, and its journal leads to the same promotions again (ASHA paper, 5.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, SHA, Hyperband, MedianStopping, Study, uniform
from asyncsearch.actions import Promote
from asyncsearch.driver.opening import read_records
from asyncsearch.engine.journal import Record
from asyncsearch.schedulers import Scheduler
from asyncsearch.simulate import Curves, Simulation
from asyncsearch.trial import TrialState
from tests.engine.tools import Recorded, make_state

SCHEDULERS = [
    pytest.param(FIFO(max_resource=3), id="fifo"),
    pytest.param(MedianStopping(max_resource=9), id="median"),
    pytest.param(ASHA(max_resource=9), id="asha"),
    pytest.param(ASHA(), id="asha without end"),
    pytest.param(ASHA(max_resource=9, variant="stopping"), id="asha by stopping"),
    pytest.param(SHA(max_resource=9), id="sha"),
    pytest.param(SHA(max_resource=9, bracket_size=9), id="sha in brackets"),
    pytest.param(Hyperband(max_resource=9), id="hyperband by shares"),
    pytest.param(Hyperband(max_resource=9, variant="rounds"), id="hyperband in rounds"),
    pytest.param(Hyperband(max_resource=9, variant="synchronous"), id="hyperband in step"),
]
PAUSING = [param for param in SCHEDULERS if param.values[0].pauses]  # type: ignore[attr-defined]


def train(trial: Any) -> None:
    for epoch in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        trial.report(loss=trial.params["x"] + 1 / epoch)


def study(store: Path, scheduler: Scheduler) -> Study:
    space = {"x": uniform(0.0, 1.0)}
    return Study(train, space=space, metric="loss", mode="min", scheduler=scheduler, store=store, backend="inline")


def promotions(records: list[Record]) -> list[Promote]:
    return [action for record in records for action in record.actions if isinstance(action, Promote)]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_finished_study_goes_on_with_more_trials(scheduler: Scheduler, tmp_path: Path) -> None:
    before = study(tmp_path / "s", scheduler).run(9, display="none").trials
    after = Study.resume(tmp_path / "s").run(27, display="none").trials
    assert (len(before), len(after)) == (9, 27)
    for old, new in zip(before, after, strict=False):
        assert old.params == new.params
        assert old.resource <= new.resource
    assert all(trial.state.is_finished or trial.state is TrialState.PAUSED for trial in after)
    ends = [sum(trial.state is TrialState.COMPLETED for trial in trials) for trials in (before, after)]
    reached = [max(trial.resource for trial in trials) for trials in (before, after)]
    assert ends[0] < ends[1] or reached[0] < reached[1], "more trials come to the end, or one comes farther"


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_deciding_again_over_a_journal_promotes_the_same_trials_in_the_same_order(
    scheduler: Scheduler, tmp_path: Path
) -> None:
    made = study(tmp_path / "s", scheduler)
    made.run(9, display="none")
    made.run(27, display="none")
    records = list(read_records(made.store))
    again = made._fresh_state()
    for record in records:
        assert tuple(again.handle(record.event, record.t)) == record.actions
    assert bool(promotions(records)) is scheduler.pauses


@pytest.mark.parametrize("scheduler", [param for param in PAUSING if "asha" in str(param.id)])
def test_with_more_trials_rungs_are_wider_and_older_trials_go_on(scheduler: Scheduler) -> None:
    recorded = Recorded(make_state(scheduler))
    workload = Curves(seed=1)
    Simulation(recorded.state, workload, workers=4, watch=recorded).run(81)
    first = len(recorded.steps)
    completed = max(trial.resource for trial in recorded.state.trials)
    Simulation(recorded.state, workload, workers=4, watch=recorded).run(243)
    later = [action for _, _, actions in recorded.steps[first:] for action in actions if isinstance(action, Promote)]
    assert any(promotion.trial < 81 for promotion in later), "trials of the first run were promoted in the second"
    assert max(trial.resource for trial in recorded.state.trials) >= completed


@pytest.mark.parametrize("scheduler", PAUSING)
def test_two_runs_promote_at_least_what_the_first_one_did_and_never_again(scheduler: Scheduler) -> None:
    recorded = Recorded(make_state(scheduler))
    for num_trials in (27, 81):
        Simulation(recorded.state, Curves(seed=1), workers=4, watch=recorded).run(num_trials)
    moves = [
        (action.trial, action.from_resource)
        for _, _, actions in recorded.steps
        for action in actions
        if isinstance(action, Promote)
    ]
    assert len(moves) == len(set(moves))

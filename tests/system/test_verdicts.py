"""A trial waits for what is decided of it: no unit is trained beyond a stop, and a promoted trial goes on in place."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, PBT, Checkpoints, MedianStopping
from asyncsearch.actions import Branch, ExtendWork, Promote
from asyncsearch.journal.opening import read_records
from asyncsearch.report.timeline import worker_timeline
from asyncsearch.report.tree.view import ends_text
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.trial import TrialState
from tests.shares import seeds, takes_long
from tests.system.verdict_searches import decided, require_algorithm_2, require_sums, search

pytestmark = pytest.mark.usefixtures("forked_workers")

STOPPING, MEDIAN = ASHA(max_resource=9, variant="stopping"), MedianStopping(max_resource=9, min_trials=2)


@pytest.mark.parametrize(
    ("scheduler", "backend"),
    [
        (STOPPING, "inline"),
        (STOPPING, "processes"),
        (MEDIAN, "inline"),
        pytest.param(MEDIAN, "processes", marks=takes_long),
    ],
    ids=["asha-inline", "asha-processes", "median-inline", "median-processes"],
)
def test_no_unit_is_begun_after_a_stop(tmp_path: Path, scheduler: Scheduler, backend: str) -> None:
    study = search(tmp_path, scheduler, backend, 16, workers=1 if backend == "inline" else 2)
    assert any(trial.state is TrialState.STOPPED for trial in study.trials)
    begun = Counter(line.split()[0] for line in (tmp_path / "units").read_text().splitlines())
    assert begun == {trial.name: trial.resource for trial in study.trials}
    require_sums(study)


@pytest.mark.parametrize(
    ("backend", "at_rungs"),
    [("inline", False), ("inline", True), pytest.param("processes", False, marks=takes_long), ("processes", True)],
)
def test_one_worker_promotes_as_algorithm_2_step_by_step(tmp_path: Path, backend: str, at_rungs: bool) -> None:
    require_algorithm_2(tmp_path, backend, seeds(100, 50), at_rungs=at_rungs)


def test_a_promotion_in_place_enters_no_function_and_saves_nothing(tmp_path: Path) -> None:
    study = search(tmp_path, ASHA(max_resource=9), "processes", 27, workers=2)
    actions = decided(study)
    in_place = [action for action in actions if isinstance(action, ExtendWork) and action.stages]
    promotions = [action for action in actions if isinstance(action, Promote)]
    entries = (tmp_path / "entries").read_text().splitlines()
    assert 0 < len(in_place) <= len(promotions)
    assert len(entries) <= 27 + len(promotions) - len(in_place) + 2, "one that heard of it late enters again"
    assert sum(trial.resource for trial in study.trials) == len((tmp_path / "units").read_text().splitlines())


@pytest.mark.parametrize("at_rungs", [False, pytest.param(True, marks=takes_long)])
def test_a_process_killed_after_a_promotion_in_place_costs_no_result(tmp_path: Path, at_rungs: bool) -> None:
    options: dict[str, Any] = {"checkpoints": Checkpoints(at_rungs=at_rungs)}
    study = search(tmp_path / "killed", ASHA(max_resource=9), "processes", 9, workers=1, dies_at=5, **options)
    calm = search(tmp_path / "calm", ASHA(max_resource=9), "processes", 9, workers=1, **options)
    assert sum(trial.losses for trial in study.trials) == 1
    require_sums(study)
    ends = [[(t.id, t.resource, t.value, t.state) for t in one.trials] for one in (study, calm)]
    assert ends[0] == ends[1]
    promotions = [[a for a in decided(one) if isinstance(a, Promote)] for one in (study, calm)]
    assert promotions[0] == promotions[1], "each was decided once"


def test_members_of_a_population_enter_again_only_where_they_must(tmp_path: Path) -> None:
    study = search(tmp_path, PBT(max_resource=12, perturbation_interval=3), "processes", 4, workers=4)
    actions = decided(study)
    in_place = [action for action in actions if isinstance(action, ExtendWork) and action.stages]
    again = [action for action in actions if isinstance(action, Promote | Branch)]
    entries = (tmp_path / "entries").read_text().splitlines()
    assert in_place
    assert len(entries) <= 4 + len(again) - len(in_place) + 2, "one that heard of it late enters again"
    units = (tmp_path / "units").read_text().splitlines()
    assert len(units) == sum(trial.trained for trial in study.trials)


@pytest.mark.parametrize("backend", ["inline", "processes"])
def test_a_trial_that_cannot_be_promoted_saves_nothing_and_may_go_on_later(tmp_path: Path, backend: str) -> None:
    study = search(tmp_path, ASHA(max_resource=9), backend, 12)
    unsaved = [trial.id for trial in study.trials if trial.state is TrialState.PAUSED and trial.checkpoint is None]
    assert unsaved
    assert all("without a checkpoint" in study.trials[number].reason for number in unsaved)
    study.run(60, parallelism=1, display="none")
    assert any(study.trials[number].resource > 1 for number in unsaved), "more trials, more promotions"
    require_sums(study)


def test_a_trial_saves_at_each_rung_where_that_is_asked_for(tmp_path: Path) -> None:
    study = search(tmp_path, ASHA(max_resource=9), "inline", 12, checkpoints=Checkpoints(at_rungs=True))
    assert all(trial.checkpoint for trial in study.trials if trial.state is TrialState.PAUSED)


def test_what_people_read_says_what_went_on_in_place(tmp_path: Path) -> None:
    study = search(tmp_path, ASHA(max_resource=9), "inline", 27)
    actions = decided(study)
    extensions = [action for action in actions if isinstance(action, ExtendWork) and action.stages]
    promotions = sum(isinstance(action, Promote) for action in actions)
    spent = study.time_spent()
    assert (spent.promotions, spent.in_place) == (promotions, len(extensions))
    assert f"{len(extensions)} of {promotions} promotions went on in place" in " ".join(study.summary().split())
    trial, resource = extensions[0].stages[0].trials[0], extensions[0].stages[0].start
    assert "goes on with it in place" in str(study.explain(trial))
    assert f"went on in place at {resource}" in ends_text([study.tree().stages.paths[trial]], "loss")
    spans = worker_timeline(read_records(study.store)).spans
    assert sorted(at for span in spans for at in span.in_place) == sorted(one.stages[0].start for one in extensions)

"""The picture of a timeline: a row for each worker, a bar for each training, and readable with many of both."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.errors import NoTrialsError, UsageError
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.report.plots.workers import plot_timeline
from asyncsearch.simulate import Faults, Loss
from asyncsearch.sizing.gangs import Gang
from asyncsearch.study.study import Study
from tests.engine.tools import JournalLines, make_state, record
from tests.pictures import ink_outside, texts
from tests.report.tools import SCHEDULER, SPACE, simulated, store_of


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return Study.open(store_of(simulated(), tmp_path_factory.mktemp("study") / "study"))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """1,000 trials on 60 workers, of which two are lost, in virtual time."""
    faults = Faults(losses=[Loss(WorkerId(1), 5.5, 2.0), Loss(WorkerId(30), 10.0, 5.0)], failures={TrialId(4): 1})
    recorded = record(make_state(SCHEDULER, space=SPACE), 1_000, workers=60, kind=JournalLines, faults=faults)
    return Study.open(store_of(recorded, tmp_path_factory.mktemp("large") / "study"))


def bars(study: Study) -> dict[str, list[Any]]:
    """Return the columns of the bars of trainings."""
    layers = plot_timeline(study).chart.to_dict()["layer"]
    return next(row for layer in layers for row in layer["data"]["values"] if "reason" in row and "trial" in row)


def test_it_has_a_row_for_each_worker_and_says_how_busy_they_were(study: Study) -> None:
    shown = texts(plot_timeline(study).svg)
    assert {"worker-0", "worker-1", "worker-2", "seconds of the search"} <= set(shown)
    assert "test: 3 workers, busy for 84% of 25.4 s" in shown
    assert {"trained", "trained further", "failed", "worker or driver lost"} <= set(shown)


def test_each_training_is_a_bar_in_the_row_of_its_worker(study: Study) -> None:
    found = bars(study)
    assert {(name, int(y)) for name, y in zip(found["worker"], found["y"], strict=True)} == {
        ("worker-0", 0), ("worker-1", 1), ("worker-2", 2),
    }  # fmt: skip
    assert {trial.name for trial in study.trials} == set(found["trial"])
    assert all(start <= end for start, end in zip(found["x"], found["x2"], strict=True))
    assert "it was killed by the script" in found["reason"]


def test_a_gang_is_a_bar_in_each_of_its_workers_rows_in_a_whole_picture(tmp_path: Path) -> None:
    state = make_state(SCHEDULER, space=SPACE)
    state.gang = Gang(2)
    gangs = Study.open(store_of(record(state, 9, workers=4), tmp_path / "study"))
    found = bars(gangs)
    rows: dict[Any, set[str]] = {}
    for trial, start, worker in zip(found["trial"], found["x"], found["worker"], strict=True):
        rows.setdefault((trial, start), set()).add(worker)
    assert {len(workers) for workers in rows.values()} == {2}
    assert ink_outside(plot_timeline(gangs).svg) == []


def test_studies_of_one_cluster_are_below_each_other_over_one_time(study: Study) -> None:
    picture = plot_timeline(study, study)
    shown = texts(picture.svg)
    assert {"1 test: worker-0", "1 test: worker-2", "2 test: worker-0"} <= set(shown)
    assert "1 test, 2 test: at most 6 workers at once, busy for 84% of their time" in shown
    assert ink_outside(picture.svg) == []


def test_a_bar_names_its_trial_where_there_is_room(study: Study, large: Study) -> None:
    assert {"0", "1", "2"} <= set(texts(plot_timeline(study).svg))
    names = texts(plot_timeline(large).svg)
    assert not any(text.isdecimal() and int(text) > 200 for text in names), "no bar has room for a number"


def test_a_thousand_trials_on_sixty_workers_are_readable_in_one_screen(large: Study) -> None:
    plot = plot_timeline(large)
    assert len(bars(large)["trial"]) > 1_000
    named = [text for text in texts(plot.svg) if text.startswith("worker-")]
    assert 20 <= len(named) <= 60, "as many names as there is room for"
    assert plot.chart.to_dict()["height"] <= 720
    assert ink_outside(plot.svg) == []


def test_a_journal_that_is_cut_off_shows_what_runs(tmp_path: Path) -> None:
    half = Study.open(store_of(simulated(), tmp_path / "study", lines=40))
    with half.store.lock():
        assert "running" in texts(plot_timeline(half).svg)
    shown = texts(plot_timeline(half).svg)
    assert "running" not in shown, "its driver has died"
    assert "worker or driver lost" in shown


def test_before_any_work_it_says_so(tmp_path: Path) -> None:
    begun = Study.open(store_of(simulated(), tmp_path / "study", lines=3))
    with pytest.raises(NoTrialsError, match="No worker of 'test' has had work yet"):
        plot_timeline(begun)


def test_names_with_markup_are_escaped(study: Study) -> None:
    study.name = "<script>&'\""
    try:
        assert any(text.startswith("<script>&'\"") for text in texts(plot_timeline(study).svg))
    finally:
        study.name = "test"


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_without_the_extra_it_is_named(missing: str, study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match=r"plot_timeline\(\) is drawn by .*pip install 'asyncsearch\[plots\]'"):
        plot_timeline(study)


@pytest.mark.parametrize("wrong", [3, "studies/digits", Study])
def test_what_is_no_study_has_no_timeline(wrong: Any) -> None:
    with pytest.raises(UsageError, match=r"is not a study: write e\.g\. plot_timeline\(Study\.open"):
        plot_timeline(wrong)

"""What people read of a study whose run is over: in a later cell, in a shell, and when it is run again."""

from __future__ import annotations

import copy
import json
import pickle
from html import escape
from pathlib import Path
from typing import Any

import pytest
from IPython.lib.pretty import pretty

from asyncsearch import ASHA, FIFO, Study, uniform
from asyncsearch.report.formatting import duration, moment
from asyncsearch.report.live.lines import title
from asyncsearch.report.live.status import StudyStatus
from asyncsearch.report.live.status_of import status_of
from asyncsearch.report.live.table import html
from asyncsearch.sequences import exponential, multistep
from asyncsearch.study.results import open_results
from asyncsearch.trial import TrialState
from tests.report.tools import full_counts, make_status, records_of, simulated, store_of


def train(trial: Any) -> None:
    for epoch in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        trial.report(loss=trial.params["x"] / epoch)


def train_by_schedule(trial: Any) -> None:
    for _ in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        trial.report(loss=trial.params["lr"])


def study(folder: Path, **options: Any) -> Study:
    space = {"x": uniform(0.0, 1.0)}
    return Study(train, space=space, metric="loss", mode="min", scheduler=ASHA(max_resource=3), store=folder, **options)


def test_a_study_read_later_says_when_it_ended_and_how_long_it_took(tmp_path: Path) -> None:
    recorded = simulated()
    ended_s = records_of(recorded)[-1].t
    results = open_results(store_of(recorded, tmp_path / "s"))
    first = results.summary().splitlines()[0]
    total_s = recorded.state.times.total_s
    assert first.endswith(f": finished on {moment(ended_s)}, after {duration(total_s or 0.0)}")
    assert first.partition(":")[2].strip() in results._repr_html_()


def test_a_cell_that_ends_with_a_study_not_run_yet_shows_its_settings(tmp_path: Path) -> None:
    made = study(tmp_path / "<s>")
    assert made._repr_html_() == f"<code>{escape(repr(made))}</code>"


def test_a_cell_that_ends_with_a_text_of_a_study_shows_its_lines(tmp_path: Path) -> None:
    results = open_results(store_of(simulated(), tmp_path / "s"))
    for text in (results.explain(0), results.summary()):
        assert pretty(text) == text  # type: ignore[no-untyped-call]


def test_a_cell_that_shows_a_study_after_its_run_says_when_it_ended(tmp_path: Path) -> None:
    made = study(tmp_path / "s", backend="inline").run(3, display="none")
    assert ": finished on 20" in made.summary()
    assert ", after 0:00:0" in made.summary()


def test_running_a_finished_study_says_when_it_ended_and_nothing_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = study(tmp_path / "s", backend="inline").run(3, display="none")
    before = made.summary()
    capsys.readouterr()
    made.run(3, display="plain")
    said = capsys.readouterr().out
    assert f"{before.splitlines()[0]}; nothing was left to train" in said
    assert made.summary() == before


def test_a_study_of_several_runs_says_the_time_of_all_of_them(tmp_path: Path) -> None:
    made = study(tmp_path / "s", backend="inline").run(1, display="none")
    made.run(3, display="none")
    assert " in 2 runs" in title(status_of(made._read_state()))


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({}, "finished"),
        ({"ended_s": 0.0}, f"finished on {moment(0.0)}"),
        ({"ended_s": 0.0, "total_s": 72.0, "runs": 1}, f"finished on {moment(0.0)}, after 0:01:12"),
        ({"ended_s": 0.0, "total_s": 72.0, "runs": 3}, f"finished on {moment(0.0)}, after 0:01:12 in 3 runs"),
        (
            {"ended_s": 0.0, "total_s": 72.0, "runs": 1, "is_unfinished": True},
            f"not finished, ended on {moment(0.0)}, after 0:01:12",
        ),
    ],
)
def test_no_time_is_said_that_is_not_known(times: dict[str, Any], words: str) -> None:
    status: StudyStatus = make_status(counts=full_counts(completed=3), **times)
    assert title(status) == f"digits: {words}"
    assert f"digits: {words}" in html(status)


def test_a_search_of_failures_alone_is_not_called_finished() -> None:
    failed = make_status(counts=full_counts(failed=2), elapsed_s=72.0, workers_had=2)
    assert title(failed) == "digits: every trial failed, ended after 0:01:12 on 2 workers"
    later = make_status(counts=full_counts(failed=2), ended_s=0.0, total_s=72.0, runs=1)
    assert title(later) == f"digits: every trial failed, ended on {moment(0.0)}, after 0:01:12"
    assert title(make_status(counts=full_counts(failed=2, stopped=1), elapsed_s=1.0)) == "digits: finished in 0:00:01"


def test_best_params_print_schedules_as_written_and_are_still_json(tmp_path: Path) -> None:
    space = {"lr": multistep(0.1, [2]), "net": {"width": 3, "rate": exponential(0.1, gamma=0.9)}}
    made = Study(
        train_by_schedule,
        space=space,
        metric="loss",
        mode="min",
        scheduler=FIFO(max_resource=1),
        store=tmp_path / "s",
        backend="inline",
    ).run(1, display="none")
    words = "{'lr': multistep(0.1, milestones=[2]), 'net': {'width': 3, 'rate': exponential(0.1, gamma=0.9)}}"
    for params in (made.best_params, pickle.loads(pickle.dumps(made.best_params))):
        assert (repr(params), str(params)) == (words, words)
        assert params == made.trials[0].params
        assert json.loads(json.dumps(params)) == params
    assert made.evaluate(made.best_params, 1)["loss"] == 0.1


def test_a_trial_is_called_the_same_in_the_table_in_print_and_in_explain(tmp_path: Path) -> None:
    made = study(tmp_path / "s", backend="inline").run(3, display="none")
    paused = [trial for trial in made.trials if trial.state is TrialState.PAUSED]
    assert paused
    for seen in (paused[0], copy.copy(paused[0]), pickle.loads(pickle.dumps(paused[0]))):
        assert ", stopped early; x=" in str(seen) == repr(seen)[1:-1]
    assert ", stopped early; x=" in str(open_results(tmp_path / "s").trials[paused[0].id])
    assert f"{paused[0].name} was stopped early." in made.explain(paused[0])
    assert f"{paused[0].name}  stopped early" in made.summary()
    assert f"{paused[0].name}: stopped early at 1" in made.tree().svg
    assert str(made.best_trial) == str(made.trials[made.best_trial.id])
    assert "paused" not in made.summary() + str(made.trials) + str(made.best_trial) + made.tree().svg


@pytest.mark.parametrize("records", [40, 80])
def test_a_trial_of_a_search_that_was_cut_off_is_called_as_in_its_table(tmp_path: Path, records: int) -> None:
    recorded = simulated()
    results = open_results(store_of(recorded, tmp_path / "s", records))
    status = results._status()
    assert status.is_unfinished
    texts = {trial.state: str(trial).partition("; ")[0].rpartition(", ")[2] for trial in results.trials}
    words = {state: text.partition(":")[0] for state, text in texts.items()}
    assert len(words) > 1
    assert words == {state: status.words(state) for state in words}
    assert words[results.best_trial.state] in str(results.best_trial)

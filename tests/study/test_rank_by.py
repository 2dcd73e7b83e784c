"""Trials are ranked by their last or by their best value, as the user chooses; nothing else depends on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, Checkpoints, Study, choice, load_state
from asyncsearch.cli import main
from asyncsearch.errors import UsageError
from asyncsearch.report.live.lines import best_line, early_line, incumbent_line
from asyncsearch.report.live.status_of import status_of
from asyncsearch.study.results import open_results
from tests.engine.tools import packed_state, record

CURVES = {0: (0.5, 0.5, 0.5), 1: (0.9, 0.1, 0.8), 2: (0.7, 0.6, 0.6)}


def train(trial: Any) -> None:
    counters = {"epoch": 0}
    for epoch in trial.epochs(state={"counters": counters}):
        trial.report(loss=CURVES[trial.params["x"]][epoch - 1])


def searched(tmp_path: Path, **options: Any) -> Study:
    settings: dict[str, Any] = {"scheduler": FIFO(max_resource=3), "searcher": "grid", "backend": "inline"} | options
    study = Study(train, space={"x": choice(0, 1, 2)}, metric="loss", mode="min", store=tmp_path / "st", **settings)
    return study.run(display="none")


@pytest.mark.parametrize(("rank_by", "best", "value"), [("last", 0, 0.5), ("best", 1, 0.1)])
def test_the_best_trial_its_value_and_what_people_see_go_by_the_choice(
    rank_by: str, best: int, value: float, tmp_path: Path
) -> None:
    study = searched(tmp_path, rank_by=rank_by, checkpoints=Checkpoints(keep_checkpoints=1))
    for seen in (study, open_results(tmp_path / "st")):
        assert (seen.best_trial.params["x"], seen.best_value) == (best, value)
    state = study._read_state()
    status = status_of(state)
    assert f"best loss {value}" in best_line(status)
    assert ("rank_by" in incumbent_line(status)) == (rank_by == "last")
    kept = [trial.id for trial in study.trials if trial.checkpoint is not None]
    assert kept in ([], [study.best_trial.id])


def noted(trial: Any) -> None:
    counters = {"epoch": 0}
    for epoch in trial.epochs(state={"counters": counters}):
        counters["epoch"] = epoch
        trial.report(loss=CURVES[trial.params["x"]][epoch - 1])


@pytest.mark.parametrize(("rank_by", "epoch"), [("last", 3), ("best", 2)])
def test_the_checkpoint_of_the_best_trial_is_that_of_its_ranking_report(
    rank_by: str, epoch: int, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"scheduler": FIFO(max_resource=3), "backend": "processes", "rank_by": rank_by}
    study = Study(noted, space={"x": choice(1)}, metric="loss", mode="min", store=tmp_path / "st", **settings)
    study.run(num_trials=1, parallelism=1, display="none")
    with study.checkpoint() as path:
        counters: dict[str, int] = {"epoch": 0}
        load_state(path, {"counters": counters})
    assert counters["epoch"] == epoch


def test_it_is_part_of_the_study(tmp_path: Path) -> None:
    searched(tmp_path, rank_by="best")
    assert searched(tmp_path, rank_by="best", resume=True).best_value == 0.1
    with pytest.raises(UsageError, match="rank_by: 'best' in the store, 'last' now"):
        searched(tmp_path, resume=True)
    assert Study.resume(tmp_path / "st").config.rank_by == "best"


def test_another_word_is_refused_with_both_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"rank_by='mean' is unknown: write rank_by='last'.*rank_by='best'"):
        searched(tmp_path, rank_by="mean")


def test_schedulers_promote_the_same_trials(tmp_path: Path) -> None:
    states = []
    for rank_by in ("last", "best"):
        study = searched(tmp_path / rank_by, rank_by=rank_by, scheduler=ASHA(max_resource=3))
        states.append([(trial.resource, trial.state) for trial in study.trials])
    assert states[0] == states[1]


def test_a_best_trial_that_was_stopped_comes_with_the_line_to_train_it_on() -> None:
    words = []
    for scheduler in (ASHA(max_resource=9), ASHA(max_resource=9, finish_best=True)):
        state = packed_state(scheduler, None)
        record(state, 4, 1)
        words.append(early_line(status_of(state, scheduler=scheduler.describe())))
    assert "was stopped early: ASHA(..., finish_best=True)" in words[0]
    assert words[1] == ""


@pytest.mark.parametrize("rank_by", ["last", "best"])
def test_tables_show_the_values_by_which_they_rank(
    rank_by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = searched(tmp_path, rank_by=rank_by)
    main(["trials", str(tmp_path / "st"), "--sort", "value"])
    heading, values = {"last": ("loss", ["0.5", "0.6", "0.8"]), "best": ("best loss", ["0.1", "0.5", "0.6"])}[rank_by]
    for page in (study.summary(), capsys.readouterr().out):
        _, _, table = page.partition("trial  ")
        first, *rows = table.splitlines()
        assert first.split("  ")[-2].strip() == heading or f" {heading} " in first
        assert [row.split()[-2] for row in rows] == values
        assert rows[0].startswith("*")
    assert f">{heading}</th>" in study._repr_html_()
    assert ("the best by its best value" in study.tree().svg) == (rank_by == "best")

"""What is said of a search whose driver was killed, of one whose driver lives, and of one that is over."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from asyncsearch import ASHA, Study, uniform
from asyncsearch.report.formatting import moment
from asyncsearch.report.live.table import html
from asyncsearch.trial import TrialState

KILLED = """
import os, signal
from asyncsearch import FIFO, Study, uniform

def train(trial):
    for epoch in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
        trial.report(loss=trial.params["x"] / epoch)
        while epoch == 3 and Study.open("killed").trials[-1].resource < 2:
            pass
        if trial.name == "trial-1" and epoch == 3:
            os.kill(os.getpid(), signal.SIGKILL)

study = Study(train, space={"x": uniform(0, 1)}, metric="loss", mode="min", scheduler=FIFO(max_resource=9),
              store="killed", backend="inline")
study.run(6, display="none")
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store whose driver was killed while it trained its second trial."""
    folder = tmp_path_factory.mktemp("driver")
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    return folder / "killed"


def test_a_killed_drivers_table_says_so_and_that_nothing_runs(killed: Path) -> None:
    study = Study.open(killed)
    text = " ".join(study.summary().split())
    assert study._seen is not None
    assert f"its driver ended without closing it; its last record is of {moment(study._seen.last_s)}" in text
    assert "2 of 6 configurations begun: 1 to be continued, 1 trained to the end" in text
    assert "running" not in text.replace("saves running trials", "")
    assert f"{study.trials[1].resource} of 9, goes on from 0" in text
    assert "Study(save_every=1) saves running trials after each unit" in text
    assert "on 1 worker" not in text
    assert "workers" not in text
    assert f"asyncsearch resume {killed}" in text
    assert "to be continued" in html(study._status())


def test_the_story_of_a_trial_whose_driver_was_killed_says_how_it_goes_on(killed: Path) -> None:
    story = " ".join(Study.open(killed).explain(1).split())
    assert story.startswith("trial-1 is to be continued.")
    assert "its driver ended without closing it" in story
    assert "To go on: " in story
    assert story.endswith(f"asyncsearch resume {killed}")
    assert "To go on" not in Study.open(killed).explain(0), "it is trained to the end"


def test_a_driver_that_lives_is_not_said_to_have_ended(tmp_path: Path) -> None:
    folder = tmp_path / "s"

    def train(trial: object) -> float:
        looked = Study.open(folder)
        (tmp_path / "table").write_text(looked.summary())
        (tmp_path / "story").write_text(looked.explain(0))
        return 1.0

    Study(train, space={"x": uniform(0, 1)}, metric="x", mode="min", store=folder, backend="inline").run(
        1, display="none"
    )
    table, story = (tmp_path / "table").read_text(), (tmp_path / "story").read_text()
    assert "1 running" in table
    assert story.startswith("trial-0 is running.")
    assert "ended" not in table + story


def test_the_story_of_a_finished_search_has_the_words_of_its_table(tmp_path: Path) -> None:
    def train(trial) -> None:  # type: ignore[no-untyped-def]
        for epoch in trial.epochs(save=lambda path: path.write_text("x"), load=lambda path: None):
            trial.report(loss=trial.params["x"] / epoch)

    scheduler = ASHA(max_resource=9)
    study = Study(
        train,
        space={"x": uniform(0, 1)},
        metric="loss",
        mode="min",
        scheduler=scheduler,
        store=tmp_path,
        backend="inline",
    ).run(9, display="none")
    paused = next(trial for trial in study.trials if trial.state is TrialState.PAUSED)
    story = study.explain(paused)
    assert story.startswith(f"{paused.name} was stopped early.")
    assert "Its position: rank" in story
    assert "waits" not in story

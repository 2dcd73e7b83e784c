"""A working directory that is gone is said in words, and does not matter where nothing needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch import Study, uniform
from asyncsearch.cli import main
from asyncsearch.errors import UsageError
from asyncsearch.files.paths import absolute, import_path
from asyncsearch.store import open_store
from asyncsearch.trainable import TrialContext


def train(trial: TrialContext) -> float:
    return float(trial.params["x"])


@pytest.fixture
def gone(tmp_path: Path) -> Iterator[Path]:
    """Go to a folder that is removed, and return one that is there."""
    before, folder = os.getcwd(), tmp_path / "gone"
    folder.mkdir()
    os.chdir(folder)
    folder.rmdir()
    yield tmp_path
    os.chdir(before)


@pytest.mark.parametrize("store", ["relative", None])
def test_a_study_in_it_is_refused(gone: Path, store: str | None) -> None:
    del gone
    with pytest.raises(UsageError, match=r"working directory of this process is gone.*os\.chdir"):
        Study(train, space={"x": uniform(0, 1)}, metric="loss", mode="min", store=store)


def test_workers_are_not_started_in_it_and_trials_here_do_without(gone: Path) -> None:
    def study(name: str, backend: str) -> Study:
        space = {"x": uniform(0, 1)}
        return Study(train, space=space, metric="loss", mode="min", store=gone / name, backend=backend)

    with pytest.raises(UsageError, match="working directory of this process is gone"):
        study("processes", "processes").run(num_trials=1, display="none")
    here = study("inline", "inline")
    here.run(num_trials=1, display="none")
    assert here.best_trial.name == "trial-0"


def test_commands_say_it_in_one_line(gone: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del gone
    for command in (["show", "relative"], ["clean", "relative"], ["logs", "relative", "0"]):
        assert main(command) == 2
        assert capsys.readouterr().err.startswith("asyncsearch: The working directory of this process is gone")


def test_paths_in_full_do_without_it(gone: Path) -> None:
    assert open_store(gone / "a" / ".." / "b").shown == str(gone / "b")
    assert import_path(["", "/lib"]) == "/lib"


def test_a_relative_path_is_one_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in ("a", "./a/../b", ".", "..", "/x//y/"):
        assert absolute(path) == os.path.abspath(path)

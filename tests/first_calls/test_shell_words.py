"""What the commands say of a trial that printed nothing, of a total that is too small, and of a guarded script."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import asyncsearch
from asyncsearch import Study, Trainer, uniform
from asyncsearch.cli import main

GUARDED = """
from asyncsearch import Study, uniform

def train(trial):
    return trial.params["x"]

study = Study(train, space={"x": uniform(0, 1)}, metric="loss", mode="min", store="st", backend="processes")
if __name__ == "__main__":
    study.run(num_trials=7)
"""


def train(trial: Any) -> float:
    return float(trial.params["x"])


@pytest.fixture
def searched(tmp_path: Path) -> str:
    store = str(tmp_path / "st")
    study = Study(train, space={"x": uniform(0, 1)}, metric="loss", mode="min", store=store, backend="inline")
    study.run(3, display="none")
    return store


@pytest.mark.parametrize("trial", ["2", "trial-2"])
def test_a_silent_trial_is_called_by_its_name(searched: str, trial: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["logs", searched, trial])
    assert "trial-2 has printed nothing" in capsys.readouterr().err


def test_a_total_below_the_trials_that_there_are_is_said(searched: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["resume", searched, "--num-trials", "2"])
    text = capsys.readouterr().err
    assert "--num-trials 2 is fewer than the 3 trials that the study has" in text
    assert "For 2 more write --num-trials 5." in text


def test_the_run_of_a_guarded_script_is_found_by_preview(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(GUARDED)
    main(["preview", "script.py"])
    assert "     7 " in capsys.readouterr().out


def test_star_imports_have_trainers_and_import_frameworks_when_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = ModuleType("home_of_a_trainer")
    vars(home)["TorchTrainer"] = type("TorchTrainer", (Trainer,), {"answer": 42})
    space: dict[str, Any] = {}
    monkeypatch.setitem(asyncsearch._HOMES, "TorchTrainer", "home_of_a_trainer")
    exec("from asyncsearch import *", space)
    assert {"KerasTrainer", "TorchTrainer", "Study"} <= set(space)
    monkeypatch.setitem(sys.modules, "home_of_a_trainer", home)
    exec("class Mine(TorchTrainer):\n    pass", space)
    assert space["Mine"].__mro__[1] is home.TorchTrainer
    assert issubclass(space["Mine"], space["TorchTrainer"])
    assert isinstance(space["Mine"](), space["TorchTrainer"])
    assert space["TorchTrainer"].answer == 42
    assert asyncsearch.TorchTrainer is home.TorchTrainer, "imported by name it is the class itself"

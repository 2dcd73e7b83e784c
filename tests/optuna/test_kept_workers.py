"""Workers that stay from one ``optimize`` to the next, and those that do not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import optuna
import pytest
from psutil import pid_exists

import asyncsearch.optuna as ours
from asyncsearch import Study
from asyncsearch.optuna.running import RUNS
from tests.shares import takes_long

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _workers(quiet: None, tmp_path: Path) -> None:
    ours.workers(1, backend="processes", store=str(tmp_path / "kept"), display="none")


def objective(trial: Any) -> float:
    trial.set_user_attr("worker", os.getppid())
    if trial.number == 5:
        raise ValueError("the fifth")
    return float(trial.suggest_float("x", 0, 1))


def test_a_loop_of_optimize_keeps_its_workers_and_all_rules(tmp_path: Path) -> None:
    """Optuna's own values; the journal tells the calls apart; another objective or an error gets other workers."""
    study = ours.create_study(study_name="loop", sampler=optuna.samplers.TPESampler(seed=1))
    theirs = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    seen: list[int] = []
    for _ in range(3):
        study.optimize(objective, n_trials=1, callbacks=[lambda _, trial: seen.append(trial.number)])
        theirs.optimize(objective, n_trials=1)
        run = getattr(study, RUNS)._read(f"{tmp_path}/kept/loop/1")
        assert (run.asked, run.ended, run.is_cut_off) == (1, 1, False), "a driver that is killed now was not cut off"
    assert seen == [0, 1, 2]
    assert [trial.params for trial in study.trials] == [trial.params for trial in theirs.trials]
    (kept,) = {trial.user_attrs["worker"] for trial in study.trials}
    assert pid_exists(kept)
    study.optimize(lambda trial: float(trial.suggest_int("y", 0, 9)), n_trials=1)
    assert not pid_exists(kept), "workers of another objective are let go first"
    summary = Study.open(tmp_path / "kept" / "loop" / "1").summary()
    assert "3 configurations tried: 3 trained to the end" in summary, "one that waits for a further call is none"
    with pytest.raises(ValueError, match="the fifth"):
        study.optimize(objective, n_trials=3)
    assert [trial.state.name for trial in study.trials[3:]] == ["COMPLETE", "COMPLETE", "FAIL"]
    assert not pid_exists(study.trials[4].user_attrs["worker"])


def test_ctrl_c_ends_workers_that_were_kept() -> None:
    def endless(trial: Any) -> float:
        trial.set_user_attr("worker", os.getppid())
        if trial.number == 1:
            trial.study.set_user_attr("begun", 1)
        while trial.number == 1:
            trial.report(0.0, 0)
        return 0.0

    study = ours.create_study()
    study.optimize(endless, n_trials=1)
    kept = study.trials[0].user_attrs["worker"]
    set_attribute = study._storage.set_study_user_attr

    def pressed(*arguments: Any) -> None:
        set_attribute(*arguments)
        os.kill(os.getpid(), signal.SIGINT)

    study._storage.set_study_user_attr = pressed
    with pytest.raises(KeyboardInterrupt):
        study.optimize(endless, n_trials=2)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "FAIL"]
    assert study.trials[1].user_attrs["worker"] == kept
    assert not pid_exists(kept)


PROGRAM = """
import os, signal, sys
import asyncsearch.optuna as optuna

optuna.logging.set_verbosity(optuna.logging.CRITICAL)

def objective(trial):
    trial.set_user_attr("worker", os.getppid())
    return trial.suggest_float("x", 0, 1)

def kill(study, trial):
    if sys.argv[1] == "inside" and trial.number == 4:
        os.kill(os.getpid(), signal.SIGKILL)

optuna.workers(1, backend="processes", store="kept", display="none")
study = optuna.create_study(study_name="mine", load_if_exists=True)
before = len([trial for trial in study.trials if trial.state.name == "COMPLETE"])
study.optimize(objective, n_trials=2, callbacks=[kill])
study.optimize(objective, n_trials=3, callbacks=[kill])
if sys.argv[1] == "between":
    os.kill(os.getpid(), signal.SIGKILL)
done = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
print(before, len(done), done[-1].user_attrs["worker"])
"""


@takes_long
@pytest.mark.parametrize(("word", "before", "after"), [("inside", 4, 9), ("between", 5, 10)])
def test_a_driver_killed_with_kept_workers_goes_on(word: str, before: int, after: int, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    runs = [
        subprocess.run(
            [sys.executable, script, one],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        for one in (word, "go on")
    ]
    assert [run.returncode for run in runs] == [-signal.SIGKILL, 0], runs[1].stderr
    first, last, worker = map(int, runs[1].stdout.split())
    assert (first, last) == (before, after)
    assert not pid_exists(worker), "nothing is left at the end of a process"

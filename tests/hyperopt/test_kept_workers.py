"""Workers that wait for the next call of a program, whatever its library."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path
from typing import Any

import optuna as optunas
import pytest
from psutil import pid_exists

import asyncsearch.hyperopt as hyperopt
import asyncsearch.optuna as optuna

pytestmark = pytest.mark.usefixtures("quiet")


def objective(point: dict[str, Any]) -> dict[str, Any]:
    return {"loss": point["x"] ** 2, "status": "ok", "worker": os.getppid()}


def search(trials: Any, points: int = 1) -> int:
    """Evaluate more points in a space that is written anew, and return the last one's worker."""
    space = {"x": hyperopt.hp.uniform("x", 0, 1), "kind": hyperopt.hp.choice("kind", ["a", {"b": 1}])}
    given = {"algo": hyperopt.rand.suggest, "max_evals": len(trials) + points, "verbose": False}
    hyperopt.fmin(objective, space, trials=trials, **given)
    return int(trials.results[-1]["worker"])


def test_workers_stay_until_another_library_or_a_line_needs_them() -> None:
    hyperopt.workers(1, backend="processes")
    trials = hyperopt.Trials()
    kept = search(trials)
    assert search(trials) == kept, "an equal space is no other one"
    optunas.logging.set_verbosity(optunas.logging.CRITICAL)
    optuna.workers(1, backend="processes", display="none")
    assert not pid_exists(kept), "to say where trials run lets go those that wait"
    study = optuna.create_study()
    kept = search(trials)
    study.optimize(lambda trial: trial.set_user_attr("worker", os.getppid()) or 0.0, n_trials=1)
    assert not pid_exists(kept), "workers of another library are let go first"
    kept = study.trials[0].user_attrs["worker"]
    assert pid_exists(kept)
    last = search(trials)
    assert not pid_exists(kept)
    hyperopt.workers()
    assert not pid_exists(last)


def test_a_folder_may_be_removed_while_workers_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing of it is written again or elsewhere, nothing is said, and the next search begins a new one."""
    hyperopt.workers(1, backend="processes", store=tmp_path / "store")
    trials = hyperopt.Trials()
    kept = search(trials)
    shutil.rmtree(tmp_path / "store")
    with caplog.at_level(logging.INFO):
        other = search(trials)
    assert not pid_exists(kept)
    assert other != kept
    assert len(trials) == 2
    shutil.rmtree(tmp_path / "store")
    with caplog.at_level(logging.INFO):
        hyperopt.workers()
    assert not pid_exists(other)
    assert not list(tmp_path.iterdir())
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]

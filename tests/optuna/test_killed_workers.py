"""A grid whose workers are killed: an oracle over the study, and over what its journal tells of it."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path
from typing import Any

import optuna
import psutil
import pytest

import asyncsearch.optuna as ours
from asyncsearch.optuna.running import RUNS
from tests.launch.tools import PATIENCE_S
from tests.shares import takes_long
from tests.spark.cluster import spark_session

AXES: dict[str, list[int]] = {"x": [0, 1, 2], "y": [0, 1, 2, 3]}
POINTS = sorted(itertools.product(*AXES.values()))
KILLED = {2: "runner", 5: "agent", 6: "runner"}
"""The number of a trial, and which process is killed while it runs: that of the objective, or its worker's."""
AGENTS = {"asyncsearch.launch.child_process", "pyspark.daemon"}
"""Modules that a worker's process was started with."""


@pytest.fixture(autouse=True)
def _quiet(quiet: None) -> None:
    """In a folder of its own."""


def searched(backend: str, store: Path, killed: dict[int, str], *, retries_lost: bool) -> Any:
    def objective(trial: Any) -> float:
        x, y = trial.suggest_int("x", 0, 2), trial.suggest_int("y", 0, 3)
        trial.report(float(x), 1)
        above = [one.pid for one in psutil.Process().parents() if AGENTS.intersection(one.cmdline())]
        agent = above[-1 if backend == "processes" else -2]  # above a worker of Spark is its daemon
        trial.set_user_attr("processes", [os.getpid(), agent])
        whom = killed.get(trial.number)
        if whom is not None:
            os.kill(os.getpid() if whom == "runner" else agent, signal.SIGKILL)
            signal.pause()  # its worker's end ends it
        return float(10 * x + y)

    ours.workers(3, backend=backend, store=str(store), display="none", retries_lost=retries_lost)
    study = ours.create_study(study_name="grid", sampler=optuna.samplers.GridSampler(AXES, seed=1))
    study.optimize(objective, n_trials=len(POINTS))
    ours.workers()  # lets them go
    return study


def require_oracle(study: Any, store: Path, killed: dict[int, str], *, retries_lost: bool) -> None:
    trials = study.trials
    assert [trial.number for trial in trials] == list(range(len(POINTS) + len(killed) * retries_lost))
    failed = {trial.number for trial in trials if trial.state.name == "FAIL"}
    assert failed == set(killed)
    assert {trial.state.name for trial in trials if trial.number not in failed} == {"COMPLETE"}, "nothing is RUNNING"
    # By its last entry: on a slow machine a trial that is killed may itself be the repetition of another one.
    again = {
        trial.system_attrs["retry_history"][-1]: trial for trial in trials if "retry_history" in trial.system_attrs
    }
    assert set(again) == (failed if retries_lost else set())
    points = {trial.number: (trial.params["x"], trial.params["y"]) for trial in trials}
    for number, trial in again.items():
        assert points[trial.number] == points[number]
    repeated = {trial.number for trial in again.values()}
    assert sorted(point for number, point in points.items() if number not in repeated) == POINTS, "none twice"
    for trial in trials:
        assert trial.values == ([10.0 * trial.params["x"] + trial.params["y"]] if trial.number not in failed else None)
        assert trial.intermediate_values == {1: float(trial.params["x"])}
    left = {pid for trial in trials for pid in trial.user_attrs["processes"] if psutil.pid_exists(pid)}
    assert not psutil.wait_procs([psutil.Process(pid) for pid in left], timeout=PATIENCE_S)[1], "no worker is left"
    run = getattr(study, RUNS)._read(f"{store}/grid/1")
    assert not run.is_cut_off
    told = [
        (trial.number, trial.state, trial.params, trial.values, trial.intermediate_values) for trial in run.trials()
    ]
    here = [(trial.number, trial.state, trial.params, trial.values, trial.intermediate_values) for trial in trials]
    assert sorted(told) == here


def test_a_grid_outlives_its_killed_workers(tmp_path: Path) -> None:
    killed = {1: "runner", 4: "agent"}
    study = searched("processes", tmp_path, killed, retries_lost=True)
    require_oracle(study, tmp_path, killed, retries_lost=True)


@takes_long
@pytest.mark.spark
@pytest.mark.parametrize("retries_lost", [False, True])
@pytest.mark.parametrize("master", ["local[3]", "local-cluster[3,1,1024]"])
def test_a_grid_outlives_its_killed_workers_on_spark(master: str, retries_lost: bool, tmp_path: Path) -> None:
    with spark_session(master):
        study = searched("spark", tmp_path, KILLED, retries_lost=retries_lost)
        require_oracle(study, tmp_path, KILLED, retries_lost=retries_lost)

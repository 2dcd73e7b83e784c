"""Runners of a worker process are forked, and are what started ones are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import Study, uniform
from asyncsearch.trainable import TrialContext

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks runners")


def look(trial: TrialContext) -> dict[str, float]:
    """Report what the trial's process is like."""
    import os
    import sys

    command = Path("/proc/self/cmdline").read_text()
    return {
        "x": 1.0,
        "is_forked": float("asyncsearch.launch.worker_template" in command),
        "has_own_session": float(os.getsid(0) == os.getpid()),
        "descriptors": float(len([name for name in os.listdir("/proc/self/fd") if int(name) > 2])),
        "threads": float(os.environ["OMP_NUM_THREADS"]),
        "has_grpc": float("grpc" in sys.modules),
        "names_in_main": float(len([name for name in vars(sys.modules["__main__"]) if not name.startswith("__")])),
    }


def die_first(trial: TrialContext) -> dict[str, float]:
    """End the process of the first trial, and look at that of the second."""
    import os

    if trial.name == "trial-0":
        os._exit(3)
    return look(trial)


def metrics(train: Any, folder: Path, trials: int) -> dict[str, float | str]:
    space = {"lr": uniform(0.0, 1.0)}
    study = Study(train, space=space, metric="x", mode="max", store=folder / "study", backend="processes")
    study.run(num_trials=trials, parallelism=1, display="none")
    return dict(study.history(trials - 1)[-1][1])


def test_first_runner_is_forked_without_what_belongs_to_the_agent(tmp_path: Path) -> None:
    seen = metrics(look, tmp_path, 1)
    assert seen["is_forked"] == 1.0
    assert seen["has_own_session"] == 1.0
    assert seen["has_grpc"] == 0.0
    assert seen["names_in_main"] == 0.0


def test_runner_after_it_is_the_same(tmp_path: Path) -> None:
    assert metrics(look, tmp_path / "one", 1) == metrics(die_first, tmp_path / "two", 2)

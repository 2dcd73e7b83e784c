"""What the studies of a cluster train: their processes import this module, and not the tests."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any


def train(trial: Any) -> None:
    counters = {"units": 0}
    for _ in trial.epochs(state={"counters": counters}):
        counters["units"] += 1
        trial.report(loss=trial.params["x"] / counters["units"])


def mute(trial: Any) -> None:
    for _ in trial.epochs(state={"counters": {}}):
        trial.report(other=1.0)


def named(trial: Any) -> None:
    """Leave the name of the study with this process and the one that started it, then train."""
    with (Path(trial.params["folder"]) / "pids").open("a") as file:
        file.write(f"{trial.params['name']} {os.getpid()} {os.getppid()}\n")
    train(trial)


def gated(trial: Any) -> None:
    """Train until a file is there."""
    counters = {"units": 0}
    for _ in trial.epochs(state={"counters": counters}):
        counters["units"] += 1
        while not (Path(trial.params["folder"]) / "open").exists():
            threading.Event().wait(0.01)
        trial.report(loss=trial.params["x"] / counters["units"])

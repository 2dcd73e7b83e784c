"""What trials of the tests train, and the gate at which they wait: their processes import this module alone.

A module travels to a worker with all that it imports, and the whole library takes longer to import than a test trains.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

from asyncsearch.trainable import TrialContext


class Checkpointed:
    """Weights that only grow as they should when each unit is trained once, in order."""

    def __init__(self) -> None:
        self.units: list[int] = []

    def train(self, unit: int) -> None:
        self.units.append(unit)
        assert self.units == list(range(1, unit + 1)), "a unit was trained twice or left out"

    def save(self, path: Path) -> None:
        path.write_bytes(pickle.dumps(self.units))

    def load(self, path: Path) -> None:
        self.units = pickle.loads(path.read_bytes())


def agent_pid() -> int:
    """Return the process of the agent, called by its trial, whose process a template of the agent's has forked."""
    import psutil

    return psutil.Process(os.getppid()).ppid()


class Gate:
    """A place in a trial where it waits for the test. Picklable: it is two paths."""

    def __init__(self, folder: Path) -> None:
        self.said, self.answered = folder / "said", folder / "answered"

    def make(self) -> Gate:
        os.mkfifo(self.said)
        os.mkfifo(self.answered)
        return self

    def wait(self) -> None:
        """Called by the trial: say which processes it and its agent are, and wait."""
        self.said.write_text(f"{os.getpid()} {agent_pid()}")
        self.answered.read_text()

    def pids(self) -> tuple[int, int]:
        """Called by the test: return the runner's and the agent's process, once the trial is there."""
        runner, agent = self.said.read_text().split()
        return int(runner), int(agent)

    def open(self) -> None:
        """Called by the test: let the trial go on."""
        self.answered.write_text("go")


def make_trainable(gate: Gate, at: int = 5, trial_id: int = 0) -> Callable[[TrialContext], None]:
    """Return a trainable that waits at the gate once, in the middle of a unit of one trial."""
    passed = gate.said.with_name("passed")

    def train(trial: TrialContext) -> None:
        model = Checkpointed()
        for unit in trial.epochs(save=model.save, load=model.load):
            if trial.name == f"trial-{trial_id}" and unit == at and not passed.exists():
                passed.write_text("")
                gate.wait()
            model.train(unit)
            trial.report(loss=trial.params["x"] / unit)

    return train

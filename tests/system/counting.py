"""A trainer that writes down each unit that it trains: its processes import this module, and not the studies of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from asyncsearch.trainable import Trainer
from asyncsearch.trial import Params
from tests.system.trained import Gate

FOLDER = "ASYNCSEARCH_TEST_FOLDER"


class Counting(Trainer):
    """Its state is all that it was trained with, so a wrong checkpoint or a gap changes its metrics."""

    def setup(self, hp: Params) -> None:
        self.now = dict(hp)
        self.past: list[list[float]] = []

    def update(self, hp: Params) -> None:
        self.now |= hp

    def train(self) -> None:
        self.past.append([self.now["lr"], self.now.get("batch_size", 32)])
        assert len(self.past) == self.trial.resource + 1, "a unit was left out, or trained twice in a row"
        folder = Path(os.environ[FOLDER])
        with (folder / "units").open("a") as file:
            file.write(json.dumps(self.past) + "\n")
        gate = Gate(folder)
        if self.trial.resource + 1 == int(os.environ.get("STOP_AT", "0")) and not (folder / "passed").exists():
            (folder / "passed").write_text("")
            gate.wait()

    def evaluate(self) -> dict[str, float]:
        return {"loss": sum(lr * (at + 1) + size / 1000 for at, (lr, size) in enumerate(self.past))}

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self.past))

    def load(self, path: Path) -> None:
        self.past = json.loads(path.read_text())

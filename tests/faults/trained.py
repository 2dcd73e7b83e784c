"""What a search of faults trains: its processes import this module, and not the script that searches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from asyncsearch import Trainer
from asyncsearch.trainable import TrialContext
from tests.faults.places import Places
from tests.system.trained import Checkpointed


def make_trainable(places: Places) -> Callable[[TrialContext], None]:
    """Return a trainable that fails when a unit is trained twice or left out, and may die at each place."""

    def train(trial: TrialContext) -> None:
        model = Checkpointed()

        def save(path: Path) -> None:
            places.reach("save")
            path.mkdir()
            model.save(path / "half")
            places.reach("saving")
            model.save(path / "whole")
            places.reach("saved")

        def load(path: Path) -> None:
            places.reach("load")
            model.load(path / "whole")

        for unit in trial.epochs(save=save, load=load):
            places.reach("unit")
            model.train(unit)
            sys.stdout.write(f"unit {unit}, rank {trial.rank}\n")
            trial.report(loss=trial.params["x"] / unit)
            places.reach("reported")

    return train


class Packed(Trainer):
    """Trains several together, and fails likewise."""

    pack_by = ()

    def setup(self, hp: Mapping[str, Any]) -> None:
        self.model = Checkpointed()

    def train(self) -> None:
        self.model.train(self.trial.resource + 1)

    @classmethod
    def train_pack(cls, trainers: Sequence[Any]) -> None:
        for trainer in trainers:
            trainer.train()

    def evaluate(self) -> dict[str, float]:
        return {"loss": self.trial.params["x"] / len(self.model.units)}

    def save(self, path: Path) -> None:
        self.model.save(path)

    def load(self, path: Path) -> None:
        self.model.load(path)

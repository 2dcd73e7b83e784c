"""What a search of faults trains: its processes import this module, and not the script that searches."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

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
            sys.stdout.write(f"unit {unit}\n")
            trial.report(loss=trial.params["x"] / unit)
            places.reach("reported")

    return train

"""A trial that goes on in place, one that pauses there, one that is killed and one that never stops end alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import TrialContext, choice, uniform
from asyncsearch.sequences import multistep
from asyncsearch.trainable import Trainable
from tests.gangs.searches import linear
from tests.shares import takes_long
from tests.system.in_place import TRIALS, Dies, Options, require_alike
from tests.trainers.digits_torch import TorchDigits

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("torch_workers")]


def function(dies: Dies) -> tuple[Trainable, Options]:
    def train(trial: TrialContext) -> None:
        state = {"x": 1.0, "speed": 0.0}
        for unit in trial.epochs(state={"state": state}):
            state["speed"] = 0.9 * state["speed"] - trial.params["lr"] * state["x"]
            state["x"] += state["speed"]
            trial.report(loss=abs(state["x"]), speed=state["speed"])
            dies(trial, unit, "end")

    return train, {"space": {"lr": uniform(0.0, 0.5)}}


def stages(dies: Dies) -> tuple[Trainable, Options]:
    space = {"lr": choice(*(multistep(0.1 * rate, milestones=[at]) for rate in (1, 2) for at in (1, 2, 3)))}
    return function(dies)[0], {"space": space, "searcher": "grid"}


def torch_trainer(dies: Dies) -> tuple[Trainable, Options]:
    class Mortal(TorchDigits):
        def evaluate(self) -> dict[str, Any]:
            dies(self.trial, self.trial.resource + 1, "end")
            return super().evaluate()

    return Mortal, {"space": {"lr": uniform(0.01, 0.2), "momentum": 0.9}}


def packs(dies: Dies) -> tuple[Trainable, Options]:
    return torch_trainer(dies)[0], {"space": {"lr": uniform(0.001, 0.01), "momentum": 0.5}, "pack": 2}


def gang(dies: Dies) -> tuple[Trainable, Options]:
    def happen(trial: TrialContext, unit: int, place: str) -> None:
        if place == "end" and trial.rank == 0:
            dies(trial, unit, place)

    return linear(happen), {"space": {"number": choice(*range(TRIALS))}, "searcher": "grid", "workers_per_trial": 2}


@pytest.mark.parametrize(
    "kind",
    [function, *(pytest.param(kind, marks=takes_long) for kind in (stages, packs, gang, torch_trainer))],
    ids=lambda kind: kind.__name__,
)
def test_pausing_going_on_in_place_and_dying_end_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[[Dies], tuple[Trainable, Options]]
) -> None:
    require_alike(kind, tmp_path, monkeypatch, rel=1e-4 if kind is packs else 0.0)

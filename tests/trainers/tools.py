"""Drives a trainer as the runner does, with values that change from unit to unit and inside of one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from asyncsearch.ablation.left_out import TrialAblation
from asyncsearch.trainers.state.saved_state import SavedState

Values = dict[str, Any]


class Trial:
    """What a trainer sees of its trial: the values of each unit, and those inside of a unit."""

    name = "trial-0"
    rank = 0
    world_size = 1

    def __init__(self, units: Sequence[Values], inside: Callable[[float], Values] | None = None, seed: int = 5) -> None:
        self.seed = seed
        self.ablation = TrialAblation(None)
        self.resource = 0
        self._units = units
        self._inside = inside

    @property
    def params(self) -> Values:
        return self._units[min(self.resource, len(self._units) - 1)]

    @property
    def has_sequences(self) -> bool:
        return self._inside is not None

    @property
    def saved_params(self) -> Values:
        return self._units[max(self.resource - 1, 0)]

    def at(self, fraction: float) -> Values:
        return self.params if self._inside is None else self.params | self._inside(self.resource + fraction)

    def once(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)


class Run:
    """A trainer from one resource to another."""

    def __init__(self, trainer_class: type[Any], trial: Trial, start: int = 0, load: Path | None = None) -> None:
        stir()
        self.trial = trial
        self.reports: list[dict[str, Any]] = []
        trial.resource = start
        self.trainer = trainer_class()
        self.trainer.trial = trial
        self._last = trial.saved_params
        self.trainer.setup(self._last)
        if load is not None:
            self.trainer.load(load)

    def train(self, stop: int) -> Run:
        while self.trial.resource < stop:
            now = self.trial.params
            changed = {name: value for name, value in now.items() if self._last.get(name) != value}
            if changed:
                self.trainer.update(changed)
            self._last = now
            self.trainer.train()
            self.trial.resource += 1
            self.reports.append(dict(self.trainer.evaluate()))
        return self

    def save(self, path: Path) -> bytes:
        """Save, and return all that was saved."""
        self.trainer.save(path)
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        return b"".join(file.read_bytes() for file in files if file.is_file())


def stir() -> None:
    """Leave the generators in a state that nobody knows."""
    random.seed()
    np.random.seed()  # noqa: NPY002


def is_resumed_bit_by_bit(
    trainer_class: type[Any],
    units: Sequence[Values],
    folder: Path,
    inside: Callable[[float], Values] | None = None,
    cut: int = 2,
) -> bool:
    """Compare a training at one go with one that is cut, by all metrics and all that is saved in the end."""
    stop = len(units)
    whole = Run(trainer_class, Trial(units, inside)).train(stop)
    first = Run(trainer_class, Trial(units, inside)).train(cut)
    first.save(folder / "cut")
    second = Run(trainer_class, Trial(units, inside), cut, folder / "cut").train(stop)
    same_content = whole.save(folder / "whole") == second.save(folder / "parts")
    return whole.reports == first.reports + second.reports and same_content


def saved_and_loaded(tmp_path: Path, old: Any, new: Any) -> Any:
    """Return the new object in the state of the old one."""
    tmp_path.mkdir(exist_ok=True)
    SavedState({"it": old}).save(tmp_path / "checkpoint")
    SavedState({"it": new}).load(tmp_path / "checkpoint")
    return new

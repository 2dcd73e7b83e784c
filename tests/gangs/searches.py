"""Searches whose trials train on several workers, in double precision, and what may happen to a rank meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from asyncsearch import Gang, Study, TorchTrainer, TrialContext, choice, loguniform
from asyncsearch.actions import Promote
from asyncsearch.journal.opening import read_records
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.store.base_store import Store
from asyncsearch.trainable import Trainable
from tests.system.tools import agent_pid

UNITS = 4
BATCHES = 3
Happen = Callable[[TrialContext, int, str], None]
"""Called by each rank with the trial, the unit and the place in it: ``begin``, ``step`` or ``end``."""


def nothing(trial: TrialContext, unit: int, place: str) -> None:
    """Let nothing happen."""


def linear(happen: Happen = nothing) -> Trainable:
    """Return a function that fits a line by DDP."""

    def train(trial: TrialContext) -> None:
        torch.set_num_threads(1)
        net = torch.nn.Linear(4, 1, dtype=torch.float64)
        with torch.no_grad():
            net.weight.fill_(0.5)
            net.bias.fill_(0.0)
        parallel = DistributedDataParallel(net, process_group=trial.process_group())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.01 * (1 + trial.params["number"]), momentum=0.9)
        x = torch.randn(24 * BATCHES, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        for unit in trial.epochs(state={"net": net, "optimizer": optimizer}):
            happen(trial, unit, "begin")
            for batch in x.chunk(BATCHES):
                mine = batch[trial.rank :: trial.world_size]
                optimizer.zero_grad()
                ((parallel(mine) - mine.sum(1, keepdim=True)) ** 2).mean().backward()
                happen(trial, unit, "step")
                optimizer.step()
            with torch.no_grad():
                trial.report(loss=float(((net(x) - x.sum(1, keepdim=True)) ** 2).mean()))
            happen(trial, unit, "end")

    return train


class Digits(TorchTrainer):
    """A small network on scikit-learn's digits, in batches that neither two nor four ranks can share evenly."""

    batch_size = 50

    def data(self, hp: Mapping[str, Any]) -> Any:
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        tensors = torch.tensor(x / 16.0), torch.tensor(y)
        return tuple(part[:501] for part in tensors), tuple(part[1200:] for part in tensors)

    def model(self, hp: Mapping[str, Any]) -> Any:
        return torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.Tanh(), torch.nn.Linear(16, 10)).double()

    def optimizer(self, hp: Mapping[str, Any], model: Any) -> Any:
        return torch.optim.Adam(model.parameters(), hp["lr"])


def grid(trainable: Trainable, store: Path, gang: int | Gang | None, trials: int = 4, **options: Any) -> Study:
    """Return a study of ``linear`` over so many numbers."""
    settings: dict[str, Any] = {"backend": "processes", "scheduler": fifo(), "searcher": GridSearch(), "name": "line"}
    settings |= options
    space = {"number": choice(*range(trials))}
    return Study(trainable, space=space, metric="loss", mode="min", store=store, workers_per_trial=gang, **settings)


def digits(store: Path, gang: int | Gang | None, trainable: Trainable = Digits, **options: Any) -> Study:
    """Return a study of ``Digits``."""
    settings: dict[str, Any] = {"backend": "processes", "name": "digits"} | options
    space = {"lr": loguniform(1e-3, 1e-1)}
    return Study(trainable, space=space, metric="loss", mode="min", store=store, workers_per_trial=gang, **settings)


def fifo() -> Any:
    from asyncsearch import FIFO

    return FIFO(max_resource=UNITS)


def once(folder: Path, name: str) -> bool:
    """Return whether this is the first call with a name, in whichever process."""
    try:
        os.close(os.open(folder / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def killing(folder: Path, moments: set[tuple[int, int, int, str]], *, agent: bool = False) -> Happen:
    """Return what kills a rank once at each moment: the trial's number, the unit, the rank and the place."""
    place = str(folder)

    def happen(trial: TrialContext, unit: int, where: str) -> None:
        moment = (trial.params["number"], unit, trial.rank, where)
        if moment in moments and once(Path(place), "-".join(map(str, moment))):
            os.kill(agent_pid() if agent else os.getpid(), signal.SIGKILL)

    return happen


def results(study: Study) -> list[tuple[int, float | None]]:
    """Return what each trial has reached."""
    return [(trial.resource, trial.value) for trial in study.trials]


def promotions(study: Study) -> set[tuple[int, int]]:
    """Return the trials that were promoted, each with its new target."""
    records = read_records(study.store)
    return {(one.trial, one.to_resource) for record in records for one in record.actions if isinstance(one, Promote)}


def require_same(study: Study, other: Study, weights: Callable[[Store], Mapping[Any, Mapping[str, Any]]]) -> None:
    """Require that two studies have promoted the same trials and reached the same weights and values.

    Args:
        weights: returns the arrays in every checkpoint of a store.
    """
    assert promotions(study) == promotions(other)
    found, expected = weights(study.store), weights(other.store)
    assert found
    assert found.keys() == expected.keys()
    for checkpoint, arrays in found.items():
        for name, array in arrays.items():
            np.testing.assert_allclose(array, expected[checkpoint][name], rtol=0.0, atol=1e-9)
    for one, its in zip(study.trials, other.trials, strict=True):
        assert one.value == pytest.approx(its.value, abs=1e-9)

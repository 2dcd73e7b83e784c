"""Searches whose trials train on several workers, in double precision, and what may happen to a rank meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from asyncsearch import Gang, Study, TorchTrainer, TrialContext, choice, loguniform
from asyncsearch.actions import AnyAction, Promote
from asyncsearch.journal.opening import read_records
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.store.base_store import Store
from asyncsearch.trainable import Trainable
from asyncsearch.trainers.state.torch_state import load_without_code
from asyncsearch.trainers.torch.gangs.shards import read_checkpoint
from tests.digits import load_digits
from tests.system.tools import PATIENCE_S
from tests.system.trained import agent_pid

UNITS = 4
BATCHES = 3
NUMBERS = 10
Happen = Callable[[TrialContext, int, str], None]
"""Called by each rank with the trial, the unit and the place in it: ``begin``, ``sum`` before the gradients are summed,
``step`` or ``end``; and with 0 and ``start`` before the ranks meet."""


def nothing(trial: TrialContext, unit: int, place: str) -> None:
    """Let nothing happen."""


def linear(happen: Happen = nothing) -> Trainable:
    """Return a function that fits a line by DDP."""

    def train(trial: TrialContext) -> None:
        happen(trial, 0, "start")
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
                loss = ((parallel(mine) - mine.sum(1, keepdim=True)) ** 2).mean()
                happen(trial, unit, "sum")
                loss.backward()
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
        x, y = load_digits()
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


def counting(folder: Path) -> Happen:
    """Return what writes down each unit that a rank has trained."""
    place = str(folder)

    def happen(trial: TrialContext, unit: int, where: str) -> None:
        if where == "end":
            with (Path(place) / f"{trial.params['number']} {trial.rank}").open("a") as file:
                file.write(f"{unit}\n")

    return happen


def require_same_units(study: Study, folder: Path) -> None:
    """Require that both ranks of each trial have trained the same units, and that some trial was not promoted."""
    assert any(trial.resource < 9 for trial in study.trials), "nothing was stopped"
    for number, trial in enumerate(study.trials):
        first, second = ((folder / f"{number} {rank}").read_text() for rank in (0, 1))
        assert first == second
        units = [int(unit) for unit in first.split()]
        assert units == list(range(1, len(units) + 1))
        assert trial.resource <= len(units), "on a busy machine it may learn of its stop some units later"


def require_lines(study: Study, alone: Study) -> None:
    """Require that each trial has reached what the one with its number has reached on one worker."""
    for trial in study.trials:
        expected = alone.trials[trial.params["number"]]
        assert trial.resource == expected.resource
        assert trial.value == pytest.approx(expected.value, abs=1e-12, rel=1e-9)


def results(study: Study) -> list[tuple[int, float | None]]:
    """Return what each trial has reached."""
    return [(trial.resource, trial.value) for trial in study.trials]


def promotions(study: Study) -> set[tuple[int, int]]:
    """Return the trials that were promoted, each with its new target."""
    records = read_records(study.store)
    return {(one.trial, one.to_resource) for record in records for one in record.actions if isinstance(one, Promote)}


def await_action(study: Study, kind: type[AnyAction]) -> None:
    """Read the journal of a running study until it holds an action of a kind."""
    deadline = time.monotonic() + PATIENCE_S
    while not any(isinstance(one, kind) for record in read_records(study.store) for one in record.actions):
        assert time.monotonic() < deadline, "the journal has no such action"
        time.sleep(0.02)  # a file cannot be waited for; nothing depends on how long this is


def line_weights(store: Store) -> dict[Any, dict[str, torch.Tensor]]:
    """Return weights and momenta in every checkpoint of ``linear``."""
    found = {}
    for checkpoint in store.checkpoints():
        with store.fetch(checkpoint) as folder:
            tensors = load_without_code(folder / "checkpoint" / "tensors.pt", "cpu")
        found[checkpoint] = {str(number): one for number, one in enumerate(tensors) if one.is_floating_point()}
    return found


def digits_weights(store: Store) -> dict[Any, dict[str, torch.Tensor]]:
    """Return the weights in every checkpoint of ``Digits``."""
    found = {}
    for checkpoint in store.checkpoints():
        with store.fetch(checkpoint) as folder:
            found[checkpoint] = read_checkpoint(folder / "checkpoint")["model"]
    return found


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

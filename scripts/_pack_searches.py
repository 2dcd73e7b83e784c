"""Searches of small torch models that benchmarks run packed and unpacked, and what they cost."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from asyncsearch import Study, TorchTrainer


def mlp(width: int = 32) -> Any:
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))


def cnn(channels: int = 8) -> Any:
    few, many = channels, 2 * channels
    return nn.Sequential(
        *(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, few, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(few, many, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * many, 10)),
    )


def digits() -> Any:
    """Return 1,437 digits to train on and 360 to compare trials on."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    first, rest = order[:1437], order[1437:]
    return (x[first], y[first]), (x[rest], y[rest])


class DigitsMLP(TorchTrainer):
    """An MLP 64-32-10 on the digits; a unit is one pass over them."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        return mlp(hp.get("width", 32))

    def optimizer(self, hp: Mapping[str, Any], model: Any) -> Any:
        return torch.optim.SGD(
            model.parameters(), hp["lr"], momentum=hp.get("momentum", 0.0), weight_decay=hp.get("weight_decay", 0.0)
        )

    def data(self, hp: Mapping[str, Any]) -> Any:
        return self.trial.once(digits)


class DigitsCNN(DigitsMLP):
    """A CNN with 8 and 16 channels."""

    def model(self, hp: Mapping[str, Any]) -> Any:
        return cnn()


@dataclass(frozen=True)
class SearchCost:
    """The times of a search."""

    cpu_s: float
    """CPU time of all its processes: the driver, the worker and the process that trains."""
    wall_s: float
    """From the first work to the end, by the journal."""
    study: Any


def run_search(trainable: type[Any], *, trials: int | None, parallelism: int = 1, **settings: Any) -> SearchCost:
    """Run a search on workers of this machine, and return its times."""
    with tempfile.TemporaryDirectory() as name:
        study = Study(
            trainable, metric="accuracy", mode="max", store=Path(name) / "study", backend="processes", **settings
        )
        before = _cpu_s()
        study.run(num_trials=trials, parallelism=parallelism, display="none")
        taken = _cpu_s() - before
        times = [record.t for record in _records(study)]
        return SearchCost(taken, times[-1] - times[0], study)


def _records(study: Any) -> list[Any]:
    from asyncsearch.journal.opening import read_records

    records = list(read_records(study.store))
    first = next(at for at, record in enumerate(records) if type(record.event).__name__ == "WorkerAttached")
    return records[first:]


def _cpu_s() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(os.times()[:2]) + ended.ru_utime + ended.ru_stime

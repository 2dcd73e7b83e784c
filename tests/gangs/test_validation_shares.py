"""Ranks compute the default metrics together: each on its share of the validation data, weighted by its samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from asyncsearch.trainers.torch.gangs import connection
from asyncsearch.trainers.torch.gangs.strategy import TorchStrategy
from tests.gangs.searches import Digits
from tests.trainers.tools import Trial

COUNTS = [1, 3, 501, 1024, 1025, 4097]


class Ranked(Trial):
    """A trial of several workers, whose sums go nowhere."""

    def process_group(self) -> None:
        return None


class Seeing(Digits):
    """Notes how many samples it evaluates in each batch. Its trial is a stand-in: no rank waits for another."""

    def __init__(self, rank: int = 0, size: int = 1, *, is_in_step: bool = False) -> None:
        self.seen: list[int] = []
        self.trial: Any = Ranked([{"lr": 0.01}])
        self.trial.rank, self.trial.world_size = rank, size
        self._device, self._strategy = torch.device("cpu"), TorchStrategy()
        self._strategy.is_in_step = is_in_step

    def _batch(self, data: Any, indices: Any) -> Any:
        self.seen.append(len(indices))
        return super()._batch(data, indices)


def data(count: int) -> Any:
    source = torch.Generator().manual_seed(1)
    return torch.randn(count, 64, dtype=torch.float64, generator=source), torch.arange(count) % 10


def evaluated(rank: Seeing, count: int) -> Any:
    torch.manual_seed(3)
    with torch.no_grad():
        return rank.metrics(rank.model({}), data(count))


@pytest.fixture
def sums(monkeypatch: pytest.MonkeyPatch) -> list[list[float]]:
    """What each rank adds to the sums of all."""
    told: list[list[float]] = []

    def summed(values: list[float], *_: Any) -> list[float]:
        told.append(values)
        return [0.0, 0.0, 1.0]

    monkeypatch.setattr(connection, "summed", summed)
    return told


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("is_in_step", [False, True])
def test_all_ranks_together_have_the_metrics_of_one_worker(
    sums: list[list[float]], size: int, count: int, is_in_step: bool
) -> None:
    for rank in range(size):
        evaluated(Seeing(rank, size, is_in_step=is_in_step), count)
    loss, right, samples = np.sum(sums, axis=0)
    assert samples == count
    alone = evaluated(Seeing(), count)
    assert loss / samples == pytest.approx(alone["loss"], abs=1e-12)
    assert right / samples == pytest.approx(alone["accuracy"], abs=1e-12)


@pytest.mark.usefixtures("sums")
def test_no_rank_evaluates_more_than_its_share() -> None:
    ranks = [Seeing(rank, 4) for rank in range(4)]
    for count, expected in ((501, [[125], [125], [125], [126]]), (3, [[], [1], [1], [1]])):
        for rank, seen in zip(ranks, expected, strict=True):
            rank.seen.clear()
            evaluated(rank, count)
            assert rank.seen == seen


@pytest.mark.usefixtures("sums")
@pytest.mark.parametrize("count", COUNTS)
def test_ranks_that_go_in_step_call_the_model_equally_often(count: int) -> None:
    ranks = [Seeing(rank, 4, is_in_step=True) for rank in range(4)]
    for rank in ranks:
        evaluated(rank, count)
    assert len({len(rank.seen) for rank in ranks}) == 1


def test_one_worker_evaluates_batches_of_1024() -> None:
    alone = Seeing()
    evaluated(alone, 2500)
    assert alone.seen == [1024, 1024, 452]

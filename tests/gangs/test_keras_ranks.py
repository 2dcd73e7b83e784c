"""What the ranks of a ``KerasTrainer`` share: weights when they begin, statistics and seeds at the end of a unit."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
with contextlib.suppress(ImportError):
    import torch._inductor  # noqa: F401  # before TensorFlow: the other way round, its LLVM ends the process
pytest.importorskip("tensorflow")
pytest.importorskip("keras")

import keras

from asyncsearch.trainers.keras.gangs.connection import Ring
from asyncsearch.trainers.keras.gangs.strategy import KerasGang
from tests.gangs.ranks import in_threads
from tests.shares import takes_long

layers: Any = keras.layers


class OwnTest(keras.Sequential):  # type: ignore[misc]
    def test_step(self, data: Any) -> Any:
        return super().test_step(data)


def net_of(kind: type[Any] = keras.Sequential, metric: Any = "accuracy") -> Any:
    net = kind([keras.Input((3,)), layers.Dense(2), layers.BatchNormalization(), layers.Dropout(0.5, seed=7)])
    net.compile(optimizer="sgd", loss="mse", metrics=[metric])
    net.train_on_batch(np.ones((4, 3)), np.zeros((4, 2)))
    return net


@pytest.fixture
def ranks() -> Iterator[list[KerasGang]]:
    """Two ranks in one process, whose models begin with other weights."""
    there, back = socket.socketpair(), socket.socketpair()
    with there[0], there[1], back[0], back[1]:
        rings = [Ring(0, 2, back[1], there[0]), Ring(1, 2, there[1], back[0])]
        yield [KerasGang(SimpleNamespace(net=net_of()), ring) for ring in rings]


def train_units(ranks: list[KerasGang], train: Callable[[KerasGang], None] = lambda rank: None) -> None:
    """Let both ranks train a unit, at the same time."""

    def unit(rank: KerasGang) -> None:
        with rank.unit():
            train(rank)

    for end in in_threads([lambda: unit(ranks[0]), lambda: unit(ranks[1])]):
        end.result()


def weights(rank: KerasGang) -> list[list[float]]:
    return [one.numpy().ravel().tolist() for one in rank._net.trainable_variables]


def moving_mean(rank: KerasGang) -> Any:
    return next(one for one in rank._net.non_trainable_variables if one.path.endswith("moving_mean"))


def seed(rank: KerasGang) -> Any:
    return next(one for one in rank._net.non_trainable_variables if one.name == "seed_generator_state")


def test_all_ranks_begin_with_the_weights_of_rank_0(ranks: list[KerasGang]) -> None:
    first = weights(ranks[0])
    assert weights(ranks[1]) != first
    ranks[1]._net.trainable_variables[0].assign(np.full((3, 2), np.nan))
    train_units(ranks)
    assert weights(ranks[0]) == weights(ranks[1]) == first


def test_they_take_them_over_once_and_not_in_later_units(ranks: list[KerasGang]) -> None:
    train_units(ranks)
    ranks[1]._net.trainable_variables[0].assign(np.zeros((3, 2)))
    train_units(ranks)
    assert weights(ranks[0]) != weights(ranks[1]), "steps keep them equal, and nothing else"


def test_statistics_are_the_means_of_all_ranks_after_a_unit(ranks: list[KerasGang]) -> None:
    train_units(ranks, lambda rank: moving_mean(rank).assign(np.full(2, 1.0 + 2.0 * rank._ring.rank)))
    assert [moving_mean(rank).numpy().tolist() for rank in ranks] == [[2.0, 2.0], [2.0, 2.0]]


def test_seeds_differ_by_rank_inside_a_unit_and_are_rank_0s_after_it(ranks: list[KerasGang]) -> None:
    inside: dict[int, list[int]] = {}
    before = [seed(rank).numpy().tolist() for rank in ranks]
    train_units(ranks, lambda rank: inside.__setitem__(rank._ring.rank, seed(rank).numpy().tolist()))
    assert inside[0] == before[0]
    assert inside[1] != before[1]
    assert [seed(rank).numpy().tolist() for rank in ranks] == before


@pytest.mark.parametrize(
    ("net", "count", "ranges"),
    [
        (net_of, 7, [(0, 3), (3, 7)]),
        pytest.param(net_of, 1, [(0, 1), (0, 1)], marks=takes_long),
        pytest.param(lambda: net_of(OwnTest), 7, [(0, 7), (0, 7)], marks=takes_long),
        (lambda: net_of(metric=keras.metrics.F1Score()), 7, [(0, 7), (0, 7)]),
    ],
    ids=["means of Keras", "fewer samples than ranks", "a test_step of one's own", "another metric"],
)
def test_ranks_evaluate_shares_where_metrics_add_up_and_else_all_samples(
    ranks: list[KerasGang], net: Callable[[], Any], count: int, ranges: list[tuple[int, int]]
) -> None:
    for rank in ranks:
        rank._trainer.net = net()
    assert [rank.range_of_rank(count) for rank in ranks] == ranges

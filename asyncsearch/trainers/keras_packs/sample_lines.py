"""Which trainers see the same samples in the same order, so that each batch is read once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from asyncsearch.trainers.sample_lines import grouped, order_of, places_of


def sample_lines(trainers: Sequence[Any]) -> list[list[Any]]:
    """Return trainers in groups; those of one group have the same batches in their next unit.

    Equal data of several trainers become one object, so they are compared once only.
    """
    _unify(trainers, "_train_data")
    # The seed counts in any case: reading a sample may draw from generators that are seeded by it.
    return grouped(trainers, lambda one: (id(one._train_data), one.trial.seed, order_of(one), places_of(one)))


def by_validation_data(trainers: Sequence[Any]) -> list[list[Any]]:
    """Return trainers in groups; those of one group have one object as validation data."""
    _unify(trainers, "_validation_data")
    return grouped(trainers, lambda one: id(one._validation_data))


def _unify(trainers: Sequence[Any], name: str) -> None:
    different: list[Any] = []
    for trainer in trainers:
        data = getattr(trainer, name)
        same = next((one for one in different if _is_equal(one, data)), None)
        if same is None:
            different.append(data)
        else:
            setattr(trainer, name, same)


def _is_equal(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    if isinstance(one, np.ndarray) and one.dtype.kind in "biufc":
        return one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    if isinstance(one, tf.Tensor):
        return one.dtype == other.dtype and one.shape == other.shape and bool(tf.reduce_all(one == other))
    return False

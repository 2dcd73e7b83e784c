"""Which trainers see the same samples in the same order, so that each batch is read once for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from asyncsearch.trainers.base_trainer import FrameworkTrainer


def sample_lines(trainers: Sequence[Any]) -> list[list[Any]]:
    """Return trainers in groups; those of one group have the same batches in their next unit.

    Equal data of several trainers become one object, so they are compared once only.
    """
    _unify(trainers, "_train_data")
    found: dict[Any, list[Any]] = {}
    for trainer in trainers:
        found.setdefault(_samples_of(trainer), []).append(trainer)
    return list(found.values())


def by_validation_data(trainers: Sequence[Any]) -> list[list[Any]]:
    """Return trainers in groups; those of one group have one object as validation data."""
    _unify(trainers, "_validation_data")
    found: dict[int, list[Any]] = {}
    for trainer in trainers:
        found.setdefault(id(trainer._validation_data), []).append(trainer)
    return list(found.values())


def _unify(trainers: Sequence[Any], name: str) -> None:
    different: list[Any] = []
    for trainer in trainers:
        data = getattr(trainer, name)
        same = next((one for one in different if _is_equal(one, data)), None)
        if same is None:
            different.append(data)
        else:
            setattr(trainer, name, same)


def _samples_of(trainer: Any) -> tuple[Any, ...]:
    start, unit, size = trainer.samples, trainer._unit_samples, trainer._size
    batch_size = trainer._checked_batch_size(size, unit)
    order: Any = None
    if type(trainer).order is not FrameworkTrainer.order:
        order = tuple(trainer._order_of(epoch).tobytes() for epoch in range(start // size, (start + unit) // size + 1))
    # The seed counts in any case: reading a sample may draw from generators that are seeded by it.
    return id(trainer._train_data), trainer.trial.seed, order, start, unit, size, batch_size, trainer.drop_last


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

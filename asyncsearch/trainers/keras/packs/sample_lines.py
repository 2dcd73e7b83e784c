"""Which trainers see the same samples in the same order, so that each batch is read once for all of them.

Lines of different samples may step together where their batches have the same sizes and kinds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from asyncsearch.trainers.sample_lines import grouped, order_of, places_of


def sample_lines(trainers: Sequence[Any]) -> list[list[Any]]:
    """Return trainers in groups; those of one group have the same batches in their next unit.

    Data are compared in each unit, since a trainer may change its own in place.
    """
    numbers = _numbered(trainers, "_train_data")
    # The seed counts in any case: reading a sample may draw from generators that are seeded by it.
    return grouped(trainers, lambda one: (numbers[id(one)], one.trial.seed, order_of(one), places_of(one)))


def in_step(lines: Sequence[list[Any]]) -> list[list[list[Any]]]:
    """Return lines in groups; those of one group have batches of the same shapes and types, one after another."""
    return grouped(lines, lambda line: _batches_of(line[0]))


def _batches_of(trainer: Any) -> tuple[Any, ...]:
    """Return what determines the shapes and types of the batches of a trainer's next unit."""
    # Reading anything but rows of numbers may draw from generators, which are seeded for one line.
    if not has_plain_data(trainer):
        return (id(trainer),)
    start, unit, size, *rest = places_of(trainer)
    kinds = tuple((tuple(part.shape[1:]), str(tf.as_dtype(part.dtype))) for part in trainer._train_data)
    return start % size, unit, size, *rest, kinds


def has_plain_data(trainer: Any) -> bool:
    """Return whether the training data are arrays of numbers, so that nothing is drawn in reading a batch."""
    data = trainer._train_data
    return isinstance(data, tuple | list) and all(map(_is_numbers, data))


def _is_numbers(part: Any) -> bool:
    return isinstance(part, tf.Tensor) or (type(part) is np.ndarray and part.dtype.kind in "biufc")


def by_validation_data(trainers: Sequence[Any]) -> list[list[Any]]:
    """Return trainers in groups; those of one group have equal validation data."""
    numbers = _numbered(trainers, "_validation_data")
    return grouped(trainers, lambda one: numbers[id(one)])


def _numbered(trainers: Sequence[Any], name: str) -> dict[int, int]:
    """Return numbers by the ids of trainers, equal ones for equal data."""
    different: list[Any] = []
    found: dict[int, int] = {}
    for trainer in trainers:
        data = getattr(trainer, name)
        number = next((number for number, one in enumerate(different) if _is_equal(one, data)), len(different))
        different += [data] * (number == len(different))
        found[id(trainer)] = number
    return found


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

"""Which trainers of a pack see the same samples in the same order, so that each batch is read once for all of them.

Trials of one study have one seed, so their order of samples is the same unless batch sizes, data or an ``order`` of
their own differ.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from asyncsearch.trainers.base_trainer import FrameworkTrainer
from asyncsearch.trainers.sample_order import Indices, batches

T = TypeVar("T")
_NUMBERS = "biufc"
"""The kinds of numpy's types that are numbers."""


class TrainerUnit:
    """One trainer in one unit: its place in the stream of samples."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self.start, self.size, self.steps = trainer.samples, trainer._unit_samples, trainer.steps
        self.batch_size = trainer._checked_batch_size(trainer._size, self.size)


U = TypeVar("U", bound=TrainerUnit)


class SampleStream(Generic[U]):
    """Units whose batches have the same samples, at one of these batches."""

    def __init__(self, units: Sequence[U]) -> None:
        self.units = list(units)
        first, trainer = units[0], units[0].trainer
        stop = first.start + first.size
        self._left = batches(
            trainer._order_of, trainer._size, first.start, stop, first.batch_size, drop_last=trainer.drop_last
        )
        self.indices: Indices = np.empty(0, dtype=np.int64)
        self.fraction = 0.0
        """The part of the unit that is over."""

    def advance(self) -> bool:
        """Go to the next batch; False if there is none."""
        at, self.indices = next(self._left, (-1, self.indices))
        self.fraction = (at - self.units[0].start) / self.units[0].size
        return at >= 0


class EqualData:
    """Gives data numbers, the same one to equal data. What was seen must stay alive, and not change.

    Args:
        is_equal_tensor: compares two tensors of the framework.
    """

    def __init__(self, is_equal_tensor: Callable[[Any, Any], bool]) -> None:
        self._is_equal_tensor = is_equal_tensor
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._first: list[Any] = []

    def number(self, data: Any) -> int:
        """Return the number of data; they are compared at the first call only."""
        for number, other in enumerate(self._first):
            if data is other:
                return number
        key = tuple(map(id, _leaves(data)))
        if key not in self._numbers:
            self._numbers[key] = self._compared(data)
        return self._numbers[key]

    def _compared(self, data: Any) -> int:
        for number, other in enumerate(self._first):
            if self._is_equal(data, other):
                return number
        self._first.append(data)
        return len(self._first) - 1

    def _is_equal(self, one: Any, other: Any) -> bool:
        if one is other:
            return True
        if type(one) is not type(other):
            return False
        if isinstance(one, Mapping):
            return list(one) == list(other) and all(self._is_equal(one[name], other[name]) for name in one)
        if isinstance(one, tuple | list):
            return len(one) == len(other) and all(map(self._is_equal, one, other))
        if isinstance(one, np.ndarray):
            is_float = one.dtype.kind in "fc"
            return is_numbers(one) and one.dtype == other.dtype and np.array_equal(one, other, equal_nan=is_float)
        return one == other if isinstance(one, int | float | str) else self._is_equal_tensor(one, other)


def streams_of(units: Iterable[U], equal: EqualData, own: Callable[[Any], Hashable]) -> list[SampleStream[U]]:
    """Return the streams of units, each at its beginning.

    Args:
        units: of trainers of one class.
        equal: knows which data are equal.
        own: returns what else must match in trainers for which one batch is read.
    """

    def key(unit: U) -> Hashable:
        trainer = unit.trainer
        return equal.number(trainer._train_data), _order_of(trainer), places_of(trainer), own(trainer)

    return [SampleStream(same) for same in grouped(units, key)]


def places_of(trainer: Any) -> tuple[Any, ...]:
    """Return which places in the order of samples a trainer's next unit takes, and in batches of which size."""
    size, unit = trainer._size, trainer._unit_samples
    return trainer.samples, unit, size, trainer._checked_batch_size(size, unit), trainer.drop_last


def grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Return items in groups with equal keys, in the order of their first members."""
    found: dict[Hashable, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())


def is_numbers(part: Any) -> bool:
    """Return whether data are an array of numbers."""
    return type(part) is np.ndarray and part.dtype.kind in _NUMBERS


def _order_of(trainer: Any) -> Hashable:
    """Return the cause of the order of samples in a trainer's next unit: its seed, or the order itself."""
    if type(trainer).order is FrameworkTrainer.order:
        return int(trainer.trial.seed)
    start, size = trainer.samples, trainer._size
    epochs = range(start // size, (start + trainer._unit_samples - 1) // size + 1)
    return tuple(trainer._order_of(epoch).tobytes() for epoch in epochs)


def _leaves(data: Any) -> Iterator[Any]:
    """Yield the parts of data, and what holds them."""
    yield data if not isinstance(data, tuple) else type(data)
    if isinstance(data, Mapping):
        data = list(data.values())
    for part in data if isinstance(data, tuple | list) else ():
        yield from _leaves(part)

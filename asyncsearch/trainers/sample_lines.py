"""Which trainers see samples in the same order, so that a pack reads each batch once for all of them.

It knows no framework: whether their data are equal is a question of their framework's tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

from asyncsearch.trainers.base_trainer import FrameworkTrainer

T = TypeVar("T")


def places_of(trainer: Any) -> tuple[Any, ...]:
    """Return which places in the order of samples a trainer's next unit takes, and in batches of which size."""
    size, unit = trainer._size, trainer._unit_samples
    return trainer.samples, unit, size, trainer._checked_batch_size(size, unit), trainer.drop_last


def order_of(trainer: Any) -> Hashable:
    """Return what determines the order of samples in a trainer's next unit: its seed, or the order itself."""
    if type(trainer).order is FrameworkTrainer.order:
        return int(trainer.trial.seed)
    start, size = trainer.samples, trainer._size
    epochs = range(start // size, (start + trainer._unit_samples - 1) // size + 1)
    return tuple(trainer._order_of(epoch).tobytes() for epoch in epochs)


def grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Return items in groups with equal keys, in the order of their first members."""
    found: dict[Hashable, list[T]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.values())

"""The batches of one step: one for each line of samples, which all trainers on that line share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

Tensors = tuple[Any, ...]


class LineBatches:
    """Which batch each trainer sees; all batches of a step have the same shapes and types.

    Args:
        lines: trainers that see the same samples in the same order, for each line.
    """

    def __init__(self, lines: Sequence[Sequence[Any]]) -> None:
        self._line_of = {id(trainer): number for number, line in enumerate(lines) for trainer in line}
        self._batches: Sequence[Tensors] = ()

    def take(self, batches: Sequence[Tensors]) -> None:
        """Go on to the next step, with a batch of tensors for each line."""
        self._batches = batches

    def of(self, trainer: Any) -> Tensors:
        """Return the batch of a trainer."""
        return self._batches[self._line_of[id(trainer)]]

    def is_shared(self, trainers: Sequence[Any]) -> bool:
        """Return whether some trainers are all on one line."""
        return len({self._line_of[id(trainer)] for trainer in trainers}) == 1

    def stacked(self, trainers: Sequence[Any]) -> Tensors:
        """Return the batches of some trainers as one whose tensors are (K, B, ...)."""
        return tuple(tf.stack(parts) for parts in zip(*map(self.of, trainers), strict=True))

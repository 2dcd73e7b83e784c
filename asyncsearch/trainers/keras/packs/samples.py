"""The samples of a pack of ``KerasTrainer``: which streams are read in step, and which batch each trainer sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from asyncsearch.trainers.keras.packs.traced_steps import Tensors, as_tensors
from asyncsearch.trainers.packs.sample_streams import SampleStream, TrainerUnit, grouped, is_numbers, places_of

Streams = list[SampleStream[TrainerUnit]]


def in_step(streams: Streams) -> list[Streams]:
    """Return streams in groups; those of one group have batches of the same shapes and types, one after another."""
    return grouped(streams, lambda stream: _batches_of(stream.units[0].trainer))


def _batches_of(trainer: Any) -> tuple[Any, ...]:
    """Return the causes of the shapes and types of the batches of a trainer's next unit."""
    # Reading anything but rows of numbers may draw from generators, which are seeded for one stream.
    if not has_plain_data(trainer):
        return (id(trainer),)
    start, unit, size, *rest = places_of(trainer)
    kinds = tuple((tuple(part.shape[1:]), str(tf.as_dtype(part.dtype))) for part in trainer._train_data)
    return start % size, unit, size, *rest, kinds


def has_plain_data(trainer: Any) -> bool:
    """Return whether the training data are arrays of numbers, so that nothing is drawn in reading a batch."""
    data = trainer._train_data
    return isinstance(data, tuple | list) and all(isinstance(part, tf.Tensor) or is_numbers(part) for part in data)


def is_equal_tensor(one: Any, other: Any) -> bool:
    """Return whether two tensors are equal; anything else is not."""
    if not isinstance(one, tf.Tensor):
        return False
    return one.dtype == other.dtype and one.shape == other.shape and bool(tf.reduce_all(one == other))


class StreamBatches:
    """The batches of one step, one for each stream of samples; all of them have the same shapes and types."""

    def __init__(self, streams: Streams) -> None:
        self._stream_of = {id(unit.trainer): number for number, one in enumerate(streams) for unit in one.units}
        self._batches: dict[int, Tensors] = {}

    def take(self, streams: Sequence[SampleStream[TrainerUnit]]) -> None:
        """Go on to the next step: read the present batch of each stream."""
        for stream in streams:
            trainer = stream.units[0].trainer
            batch = trainer._batch(trainer._train_data, stream.indices)
            self._batches[self._stream_of[id(trainer)]] = as_tensors(batch)

    def of(self, trainer: Any) -> Tensors:
        """Return the batch of a trainer."""
        return self._batches[self._stream_of[id(trainer)]]

    def is_shared(self, trainers: Sequence[Any]) -> bool:
        """Return whether some trainers are all on one stream."""
        return len({self._stream_of[id(trainer)] for trainer in trainers}) == 1

    def stacked(self, trainers: Sequence[Any]) -> Tensors:
        """Return the batches of some trainers as one whose tensors are (K, B, ...)."""
        return tuple(tf.stack(parts) for parts in zip(*map(self.of, trainers), strict=True))

"""The samples of a pack of ``KerasTrainer``: which streams are read in step, which batch each trainer sees, and seeds.

Seeding TensorFlow takes longer than many a unit: it is put off, or left out where nothing of a trainer draws from it.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from asyncsearch.trainers.keras.batches import Tensors, as_tensors
from asyncsearch.trainers.keras.trainer_state import captured, restore
from asyncsearch.trainers.packs.pack_training import known_of
from asyncsearch.trainers.packs.sample_streams import SampleStream, TrainerUnit, grouped, is_numbers, places_of
from asyncsearch.trainers.turns import train_or_fail

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


_DEFAULTS = ("evaluate", "_metrics", "_count", "_batch")
"""Methods that are called for each trainer by itself where its class has one of its own."""
_HOOKS = ("update", "save", "load", "learning_rate", "order")


def seed_late(trainer: Any, number: int) -> None:
    """Seed the generators for the unit of a pack with this number, those of TensorFlow later where that is enough."""
    known_of(type(trainer)).late_seed = weakref.ref(trainer), trainer._seed_python("unit", number)
    # Reading any other data, and an evaluation that is the user's own, may draw.
    if not has_plain_data(trainer) or may_draw(trainer):
        seed_now(type(trainer))


def seed_now(kind: type) -> None:
    """Make up for a seed that was put off, before something that may draw."""
    late, known_of(kind).late_seed = known_of(kind).late_seed, None
    trainer = None if late is None else late[0]()
    if trainer is not None:
        trainer._seed_framework(late[1])


def train_alone(trainer: Any) -> None:
    """Train a unit as without a pack, which seeds everything itself."""
    known_of(type(trainer)).late_seed = None
    train_or_fail(trainer)


def leave_seeded(trainer: Any, number: int) -> None:
    """Let a trainer find the generators as its own unit leaves them, where that draws from none of them."""
    before = captured(with_framework=False)
    seed = trainer._seed_python("unit", number)
    framework = seed if may_draw(trainer) else None
    trainer._generators = dataclasses.replace(captured(with_framework=False), framework=framework)
    restore(before, trainer)


def may_draw(trainer: Any) -> bool:
    """Return whether code of the user's own that runs beside the steps may draw from TensorFlow's generators."""
    is_own = not all(map(type(trainer).has_default, (*_DEFAULTS, *_HOOKS)))
    is_known = isinstance(trainer.loss, str) or type(trainer.loss).__module__.startswith("keras.")
    layers = trainer.net._flatten_layers()
    return is_own or not is_known or not all(type(one).__module__.startswith("keras.") for one in layers)


_OF_SETUP = frozenset({"model", "optimizer", "data", "__init__"})
"""Methods that run before a unit; an optimizer is made anew at a change, by a pure function of the values."""


def has_default_units(trainer: Any) -> bool:
    """Return whether no code of the user's own runs in a unit, in an evaluation or between them."""
    home = next(base for base in type(trainer).__mro__ if base.__module__.startswith("asyncsearch."))
    own = [vars(base) for base in type(trainer).__mro__ if base not in home.__mro__]
    named = {name: value for one in own for name, value in one.items() if hasattr(home, name)} | vars(trainer)
    return not any(
        callable(getattr(home, name)) or hasattr(value, "__get__")
        for name, value in named.items()
        if hasattr(home, name) and name not in _OF_SETUP and not hasattr(object, name)
    )


def has_default_evaluation(trainer: Any) -> bool:
    """Return whether ``evaluate`` is the trainer's own, which may be computed for all members at once."""
    return all(map(type(trainer).has_default, _DEFAULTS)) and not trainer.run_eagerly

"""The common part of the trainers of both frameworks: one stream of samples, seeds for each unit, changing values.

Rule: everything that determines the next step is a pure function of (seed, samples consumed), or in the checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import operator
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from asyncsearch.errors import UsageError
from asyncsearch.randomness import below, generator
from asyncsearch.trainable import SaveFunction, Trainer
from asyncsearch.trainers.sample_order import Indices, batches, permutation
from asyncsearch.trainers.turns import has_left_states, take_turn
from asyncsearch.trial import Params

EVALUATION_BATCH = 1024
_ABLATION_SAMPLES = 2
"""Samples with which a network is called to learn the shapes of its layers."""
_SEEDS_END = 2**32
"""numpy's and Keras's seeds are below it."""


class FrameworkTrainer(Trainer):
    """A ``Trainer`` that owns data order, generators and counters, while a framework owns the model.

    Pseudocode of a unit of training::

        seed every generator by (trial.seed, number of the unit)
        for each batch of the unit, on the stream of samples:
            apply the values at this fraction of the unit to the optimizer
            step(batch)
    """

    batch_size: int = 32
    """Samples in a batch if the hyper-parameters have no ``batch_size``."""
    samples_per_unit: int | None = None
    """Samples in a unit of training; None for the size of the training data, so that a unit is an epoch."""
    drop_last: bool = False
    """Whether to skip an incomplete batch at the end of an epoch or a unit; its samples count as consumed."""

    hp: dict[str, Any]
    """The current values of the hyper-parameters."""
    samples: int = 0
    """Samples consumed: the position on the stream of samples."""
    steps: int = 0
    """Updates that the optimizer has made."""

    _ordered_data: tuple[type, ...] = ()
    """Classes of data of the framework that have an order of their own."""
    _data_words = ""
    """The data to return instead."""

    @classmethod
    def has_default(cls, name: str) -> bool:
        """Return whether a method is that of the framework's trainer, and not one of the user's own."""
        home = next(base for base in cls.__mro__ if FrameworkTrainer in base.__bases__)
        return getattr(cls, name) is getattr(home, name)

    def data(self, hp: Params) -> tuple[Any, Any]:
        """Return the training data and the validation data; load them with ``self.trial.once``."""
        raise NotImplementedError(f"{type(self).__name__} has no data(): return what to train on and to validate on.")

    def order(self, epoch: int, size: int) -> Indices:
        """Return the order of the samples in an epoch, from 0: a pure function of ``trial.seed`` and the epoch."""
        return permutation(self.trial.seed, epoch, size)

    def model_inputs(self, batch: Any) -> tuple[Any, ...]:
        """Return the arguments with which ``loss`` calls the model for a batch; an ablation study of layers asks it."""
        return (batch[0] if isinstance(batch, tuple | list) else batch,)

    def try_model(self) -> None:
        """Call the model with a few samples and change nothing: it fails where model and data do not fit."""
        with self._untouched():
            self._call(self._few_inputs())

    def setup(self, hp: Params) -> None:
        self.hp = dict(hp)
        self._applied = self.hp
        self._weight, self._weights = 1.0, dict[int, float]()
        self._known_order: tuple[int, Indices] | None = None
        self._seed("setup", 0)
        data = self.data(hp)
        if self.trial.ablation and isinstance(data, tuple | list):
            data = tuple(map(self.trial.ablation.data, data))
        self._train_data, self._validation_data = self._taken(data)
        self._build(self.hp)

    def update(self, hp: Params) -> None:
        """Apply changed values; override it for values outside the optimizer, such as the p of a dropout.

        Args:
            hp: only the changed values.
        """
        self.hp = {**self.hp, **hp}
        self._apply(self.hp)

    def train(self) -> None:
        unit, size = self._unit_samples, self._size
        number, start = self.samples // unit, self.samples
        batch_size = self._checked_batch_size(size, unit)
        self._seed("unit", number)
        found = batches(self._order_of, size, start, start + unit, batch_size, drop_last=self.drop_last)
        before = self.steps
        for at, batch in self._fetched(self._shares(found), number):
            self._follow((at - start) / unit)
            self._weight = self._weights.pop(at, 1.0)
            self._train_batch(batch)
            self.steps += 1
        self.samples = start + unit
        self._note_volume(self.steps - before)

    def evaluate(self) -> Mapping[str, Any]:
        if has_left_states(self):
            take_turn(self)
        with self._untouched():
            return self._metrics()

    def _note_volume(self, steps: int) -> None:
        note = getattr(self.trial, "note_volume", None)  # what stands in for a trial in a user's tests may lack it
        if note is not None:
            note(steps, self._gradient_bytes())

    def _ablated(self, net: Any) -> Any:
        """Return a network without what an ablation study leaves out of the trial."""
        ablation = self.trial.ablation
        return ablation.model(net, *self._few_inputs()) if ablation else net

    def _few_inputs(self) -> tuple[Any, ...]:
        return self.model_inputs(self._batch(self._train_data, np.arange(min(self._size, _ABLATION_SAMPLES))))

    def _shares(self, found: Iterator[tuple[int, Indices]]) -> Iterator[tuple[int, Indices]]:
        """Yield this rank's share of each batch, and keep its weight: the mean of all ranks is that of the batch."""
        rank, size = self.trial.rank, self.trial.world_size
        if size == 1:
            yield from found
            return
        for at, indices in found:
            mine = indices[rank::size]
            self._weights[at] = len(mine) * size / len(indices)
            yield at, mine if len(mine) else indices[:1]  # no share: a step of no weight, for which the others wait

    # The part of the framework

    def _gradient_bytes(self) -> int:
        """Return the bytes of the gradients of a step."""
        raise NotImplementedError

    def _batch(self, data: Any, indices: Indices) -> Any:
        """Return the batch of some samples."""
        raise NotImplementedError

    def _call(self, inputs: tuple[Any, ...]) -> None:
        """Compute the outputs of the model."""
        raise NotImplementedError

    def _build(self, hp: dict[str, Any]) -> None:
        """Build model and optimizer."""
        raise NotImplementedError

    def _put(self, hp: dict[str, Any]) -> None:
        """Apply values to the optimizer without rebuilding it."""
        raise NotImplementedError

    def _train_batch(self, batch: Any) -> None:
        raise NotImplementedError

    def _metrics(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def _fetched(self, found: Iterator[tuple[int, Indices]], number: int) -> Iterator[tuple[int, Any]]:
        """Turn indices into batches, for the unit with this number."""
        raise NotImplementedError

    def _seed_framework(self, seed: int) -> None:
        raise NotImplementedError

    @contextlib.contextmanager
    def _untouched(self) -> Iterator[None]:
        """Restore the states of the generators afterwards."""
        python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002

    # Values

    def _follow(self, fraction: float) -> None:
        """Apply the values at a fraction of the unit to the optimizer, if they have changed."""
        values = self._values_at(fraction)
        if values != self._applied:
            self._apply(values)

    def _values_at(self, fraction: float) -> Params:
        return self.trial.at(fraction) if self.trial.has_sequences else self.hp

    def _apply(self, hp: Mapping[str, Any]) -> None:
        self._applied = dict(hp)
        self._put(self._applied)

    def _checked_batch_size(self, size: int, unit: int) -> int:
        value = self.hp.get("batch_size", self.batch_size)
        try:
            batch_size = operator.index(value)
        except TypeError:
            batch_size = 0
        if batch_size < 1:
            raise UsageError(f"batch_size={value!r} is not a number of samples: it must be an integer from 1.")
        for limit, what in ((size, "the training data"), (unit, "a unit of training")):
            if batch_size > limit:
                raise UsageError(
                    f"batch_size={batch_size} is larger than {what}, which has {limit} samples: search smaller batch "
                    "sizes, or train on more data."
                )
        return batch_size

    # Position, order, seeds

    def _taken(self, data: Any) -> tuple[Any, Any]:
        if not isinstance(data, tuple | list) or len(data) != 2:
            raise UsageError(
                f"{type(self).__name__}.data() must return two things, the data to train on and the data to validate "
                f"on, as in `return (x, y), (x_valid, y_valid)`; it returned {type(data).__name__}."
            )
        self._size = self._count(data[0])
        if self._size < 1:
            raise UsageError(f"{type(self).__name__}.data() returned no sample to train on.")
        self._unit_samples = self._size if self.samples_per_unit is None else self.samples_per_unit
        if self._unit_samples < 1:
            raise UsageError(f"samples_per_unit={self.samples_per_unit!r} must be at least 1, or None for an epoch.")
        return data[0], data[1]

    def _order_of(self, epoch: int) -> Indices:
        if self._known_order is None or self._known_order[0] != epoch:
            self._known_order = (epoch, self.order(epoch, self._size))
        return self._known_order[1]

    def _seed(self, purpose: str, number: int) -> None:
        """Seed every generator, so that none has a state to save: draws in a unit do not depend on earlier units."""
        self._seed_framework(self._seed_python(purpose, number))

    def _seed_python(self, purpose: str, number: int) -> int:
        """Seed the generators of Python and numpy, and return the seed of the framework's."""
        python, numpy, framework = self._seeds(purpose, number)
        random.seed(python)
        np.random.seed(numpy)  # noqa: NPY002
        return framework

    def _seeds(self, purpose: str, number: int) -> tuple[int, int, int]:
        """Return the seeds of the generators of Python, of numpy, and of the framework."""
        # Ranks of a gang draw different dropouts, for their samples differ; they set up the same model.
        own = f".rank-{self.trial.rank}" if self.trial.rank and purpose == "unit" else ""
        source = generator(self.trial.seed, f"trainers.{purpose}{own}", number)
        return below(source, _SEEDS_END), below(source, _SEEDS_END), below(source, _SEEDS_END)

    def _count(self, data: Any) -> int:
        """Return the number of samples.

        Raises:
            UsageError: the trainer cannot own the order of this data.
        """
        if isinstance(data, tuple | list | Mapping):
            counts = {len(part) for part in (data.values() if isinstance(data, Mapping) else data)}
            if len(counts) == 1:
                return counts.pop()
            raise UsageError(
                f"The parts of the data differ in length: {sorted(counts)}. Each sample has its part in all."
            )
        if isinstance(data, self._ordered_data) or not hasattr(data, "__getitem__"):
            raise UsageError(
                f"A {type(data).__name__} has an order of its own, which no checkpoint holds: let data() return "
                f"{self._data_words}, and leave batches and their order to the trainer."
            )
        return len(data)

    # Checkpoints

    def copied_state(self, may_take: Callable[[int], bool]) -> SaveFunction | None:
        # The user's own save is called, and the shards of several workers are written by all at once.
        if not self.has_default("save") or self.trial.world_size > 1:
            return None
        return self._copied_state(may_take)

    def _copied_state(self, may_take: Callable[[int], bool]) -> SaveFunction | None:
        """Return ``copied_state`` of a trainer that trains alone, and saves as the framework's does."""
        raise NotImplementedError

    def _require_same_optimizer(self, saved: str, now: str) -> None:
        if saved != now:
            raise UsageError(
                f"{self.trial.name} continues from a checkpoint of {saved}, and optimizer() now returns {now} for the "
                "same values: restore the former optimizer, or start a new study."
            )

    def _counters(self) -> dict[str, Any]:
        """Return the state that is saved beside model and optimizer, as JSON."""
        return {
            "samples": self.samples,
            "steps": self.steps,
            "size": self._size,
            "unit": self._unit_samples,
            "applied": _texts(self._applied),
        }

    def _restore_counters(self, saved: Mapping[str, Any]) -> None:
        for name, now in (("size", self._size), ("unit", self._unit_samples)):
            if saved[name] != now:
                what = "samples of training data" if name == "size" else "samples in a unit of training"
                raise UsageError(
                    f"{self.trial.name} continues from a checkpoint that was made with {saved[name]} {what}, and now "
                    f"there are {now}: it would continue at another position. Restore the data, or start a new study."
                )
        self.samples, self.steps = saved["samples"], saved["steps"]
        if saved["applied"] != _texts(self.hp):
            self._applied = {}  # the optimizer has values from inside a unit: the first batch applies the current ones


def checked_norm(limit: Any) -> float | None:
    """Return the largest norm of a gradient; None for any.

    Raises:
        UsageError: it is none.
    """
    if limit is None or (isinstance(limit, int | float) and limit > 0):
        return limit
    raise UsageError(f"clip_grad_norm={limit!r} is no norm of a gradient: it must be a positive number, or None.")


def _texts(hp: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(value) for name, value in hp.items()}


def _text(value: Any) -> str:
    """Return the text by which a value is compared; a checkpoint holds every value as text."""
    return json.dumps(value, sort_keys=True, default=repr)

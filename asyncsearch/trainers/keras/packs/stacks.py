"""Alike members as one computation: their variables stacked along a first axis, and one traced step for all.

The step is traced once for a structure and a kind of batch, for any number of members, by ``tf.vectorized_map`` over
the user's own model and loss: for a batch that all share, and for one of each member's own. An operation for which it
knows nothing is computed for each member in a loop inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from asyncsearch.trainers.keras.batches import Tensors, kind_of
from asyncsearch.trainers.keras.clipping import scales
from asyncsearch.trainers.keras.packs.must_match import Structure
from asyncsearch.trainers.keras.packs.samples import StreamBatches
from asyncsearch.trainers.keras.packs.traced_steps import (
    NotStackedError,
    drawing_nothing,
    line_of,
    quiet_vectorizing,
    require_own_state,
)
from asyncsearch.trainers.keras.packs.update_rules import RULES, number_names, numbers_of
from asyncsearch.trainers.packs.pack_training import NotTogetherError, known_of

_LIMIT = "clip_grad_norm"


class StackedMembers:
    """The steps of several alike trainers in one unit."""

    def __init__(self, trainers: Sequence[Any], structure: Structure) -> None:
        self.trainers, self._structure = list(trainers), structure
        first = trainers[0]
        self._rule = RULES[type(first.opt)](first.opt)
        self._names = _names_of(first)
        self._state = [stacked(variables) for variables in zip(*map(self._variables, trainers), strict=True)]
        self._numbers: Any = None
        self._rows = [_row_of(trainer) for trainer in trainers]

    def prepare(self, batches: StreamBatches) -> None:
        """Trace the step of batches like these.

        Raises:
            NotStackedError: the members cannot be one computation.
            NotTogetherError: the members would change each other's results.
        """
        self._function(self._example(batches), batches.is_shared(self.trainers))

    def follow(self, trainer: Any) -> None:
        """Take in that the learning rate of a trainer has changed."""
        row = next(number for number, one in enumerate(self.trainers) if one is trainer)
        self._rows[row] = _row_of(trainer)
        self._numbers = None

    def step(self, batches: StreamBatches) -> None:
        """Train each member by one step."""
        if self._numbers is None:
            self._numbers = tf.constant(np.array(self._rows).T, tf.float64)
        is_shared = batches.is_shared(self.trainers)
        batch = self._example(batches)
        function = self._function(batch, is_shared)
        self._state = list(
            function(*self._state, self._numbers, *(batch if is_shared else batches.stacked(self.trainers)))
        )

    def _example(self, batches: StreamBatches) -> Tensors:
        """Return the batch of the first member, which has the shapes and types of each."""
        return batches.of(self.trainers[0])

    def end(self) -> None:
        """Write the state of each member into its own variables."""
        members = [self._variables(trainer) for trainer in self.trainers]
        for values, variables in zip(self._state, zip(*members, strict=True), strict=True):
            for value, variable in zip(tf.unstack(values, len(members)), variables, strict=True):
                variable.value.assign(value, read_value=False)

    def _variables(self, trainer: Any) -> list[Any]:
        """Return the variables of a member that a step changes, in the order of the step's arguments."""
        net, optimizer = trainer.net, trainer.opt
        slots = [variable for name in self._rule.slots() for variable in getattr(optimizer, name)]
        return [*net.trainable_variables, *net.non_trainable_variables, *slots, optimizer.iterations]

    def _function(self, batch: Tensors, is_shared: bool) -> Any:
        key = self._structure, kind_of(batch), is_shared
        traced = known_of(type(self.trainers[0])).traced
        found = traced.found(key, lambda: self._trace(batch, is_shared))
        if isinstance(found, str):
            raise NotStackedError(found)
        return found

    def _trace(self, batch: Tensors, is_shared: bool) -> Any:
        """Return the concrete function of a step, or why there is none."""
        specs = [tf.TensorSpec([None, *value.shape[1:]], value.dtype) for value in self._state]
        numbers = tf.TensorSpec([len(self._names), None], tf.float64)
        rows = [] if is_shared else [None]
        parts = [tf.TensorSpec([*rows, *part.shape], part.dtype) for part in batch]
        step = tf.function(_TracedStep(self.trainers[0], self._rule, self._names, is_shared), autograph=False)
        try:
            with quiet_vectorizing(), drawing_nothing():
                concrete = step.get_concrete_function(*specs, numbers, *parts)
        except (tf.errors.ResourceExhaustedError, NotTogetherError):
            raise
        except Exception as error:  # whatever the model does that vectorized_map cannot
            words = str(error).strip().partition("\n")[0]
            name, line = type(self.trainers[0].net).__name__, line_of(error)
            return f"tf.vectorized_map fails on {name}{line}: {type(error).__name__}: {words}"
        require_own_state(concrete.graph, set())
        return concrete


class _TracedStep:
    """A step of all members as a function of tensors; it is called to be traced."""

    def __init__(self, trainer: Any, rule: Any, names: tuple[str, ...], is_shared: bool) -> None:
        self._net, self._rule, self._names, self._is_shared = trainer.net, rule, names, is_shared
        self._weights, self._others = trainer.net.trainable_variables, trainer.net.non_trainable_variables

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        count, others, slots = len(self._weights), len(self._others), self._rule.slots()
        ends = np.cumsum([count, others, count * len(slots), 1, 1]).tolist()
        weights, state, held, (iterations,), (numbers,) = (
            list(tensors[start:end]) for start, end in zip([0, *ends], ends, strict=False)
        )
        columns = {name: numbers[row] for row, name in enumerate(self._names)} | {"iterations": iterations}
        grads, state = self._gradients(weights, state, tensors[ends[-1] :])
        if _LIMIT in columns:
            grads = _clipped(grads, columns[_LIMIT])
        for number, (grad, square) in grads.items():
            places = {name: count * place + number for place, name in enumerate(slots)}
            own = {name: held[place] for name, place in places.items()}
            weights[number] = self._updated(number, weights[number], (grad, square), own, columns)
            for name, place in places.items():
                held[place] = own[name]
        return *weights, *state, *held, iterations + 1

    def _gradients(self, weights: list[Any], state: list[Any], batch: tuple[Any, ...]) -> tuple[dict[int, Any], Any]:
        """Return gradients and their squares by the numbers of their weights, and the variables besides weights."""
        numbers: list[int] = []

        def of_member(tensors: tuple[Any, Any, Any]) -> tuple[Any, Any]:
            own, others, mine = tensors
            with tf.GradientTape() as tape:
                tape.watch(own)
                loss, others = self._loss(own, others, mine or batch)
            # A weight that the loss does not depend on has none, and is left as it is.
            grads = {number: grad for number, grad in enumerate(tape.gradient(loss, own)) if grad is not None}
            numbers[:] = grads
            return [(tf.convert_to_tensor(grad), _square(grad)) for grad in grads.values()], others

        rows = (weights, state, () if self._is_shared else batch)
        grads, state = tf.vectorized_map(of_member, rows, warn=False)
        return dict(zip(numbers, grads, strict=True)), list(state)

    def _loss(self, weights: Any, others: Any, batch: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
        mapping = [*zip(self._weights, weights, strict=True), *zip(self._others, others, strict=True)]
        with keras.StatelessScope(state_mapping=mapping, collect_losses=True) as scope:
            found = self._net(x, training=True) if self._net._call_has_training_arg else self._net(x)
            loss = self._net.compute_loss(x=x, y=y, y_pred=found, sample_weight=sample_weight, training=True)
        return loss, [scope.get_current_value(variable) for variable in self._others]

    def _updated(self, number: int, weight: Any, grads: Any, slots: dict[str, Any], columns: dict[str, Any]) -> Any:
        shape = [-1] + [1] * (len(weight.shape) - 1)
        grad, square = (tf.cast(part, weight.dtype) for part in grads)

        def column(name: str, *, is_single: bool = False) -> Any:
            number = tf.reshape(columns[name], shape)
            return tf.cast(tf.cast(number, tf.float32) if is_single else number, weight.dtype)

        if "weight_decay" in columns and self._rule.optimizer._use_weight_decay(self._weights[number]):
            weight = weight - weight * column("weight_decay", is_single=True) * column("learning_rate")
        return self._rule.update(weight, grad, square, slots, column)


def _names_of(trainer: Any) -> tuple[str, ...]:
    """Return the names of the numbers of a member that a step reads."""
    return (*number_names(trainer.opt), *(() if trainer._limit is None else (_LIMIT,)))


def _row_of(trainer: Any) -> list[float]:
    """Return the numbers of a member as they are now."""
    return [*numbers_of(trainer.opt), *(() if trainer._limit is None else (float(trainer._limit),))]


def _clipped(grads: dict[int, tuple[Any, Any]], limits: Any) -> dict[int, tuple[Any, Any]]:
    """Clip the gradients of each member by its own norm, as a trainer does, which makes sparse ones dense."""
    scale = scales([grad for grad, _ in grads.values()], limits, first_axis=1)
    found = {}
    for number, (grad, _) in grads.items():
        own = grad * tf.cast(tf.reshape(scale, [-1] + [1] * (len(grad.shape) - 1)), grad.dtype)
        found[number] = own, tf.square(own)
    return found


def _square(grad: Any) -> Any:
    """Return the square of a gradient as Keras takes it: of each part of a sparse one, before they are added."""
    if not isinstance(grad, tf.IndexedSlices):
        return tf.square(grad)
    return tf.convert_to_tensor(tf.IndexedSlices(tf.square(grad.values), grad.indices, grad.dense_shape))


def stacked(variables: Sequence[Any]) -> Any:
    """Return the values of one variable of all members, (K, ...)."""
    return tf.stack([variable.value.read_value() for variable in variables])

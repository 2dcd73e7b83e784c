"""The metrics of alike trainers on the same data, computed at once: Keras's own ``test_step`` for stacked variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from asyncsearch.trainers.base_trainer import EVALUATION_BATCH
from asyncsearch.trainers.keras.model_state import restored
from asyncsearch.trainers.keras.packs.must_match import Structure
from asyncsearch.trainers.keras.packs.samples import is_equal_tensor
from asyncsearch.trainers.keras.packs.stacks import stacked
from asyncsearch.trainers.keras.packs.traced_steps import (
    NotStackedError,
    as_tensors,
    drawing_in,
    drawing_nothing,
    kind_of,
    quiet_vectorizing,
)
from asyncsearch.trainers.keras.packs.units import by_structure
from asyncsearch.trainers.packs.known_classes import known_of
from asyncsearch.trainers.packs.sample_streams import EqualData, grouped


def metrics_of_stacks(trainers: Sequence[Any]) -> dict[int, Mapping[str, Any]]:
    """Return metrics by the ids of trainers; none of those that need their own ``evaluate``."""
    found: dict[int, Mapping[str, Any]] = {}
    equal = EqualData(is_equal_tensor)
    for same in grouped(trainers, lambda one: equal.number(one._validation_data)):
        for structure, alike in by_structure(same):
            for group in _by_metrics(alike):
                if structure is not None and len(group) > 1:
                    found |= _together(group, structure)
    return found


def _by_metrics(trainers: Sequence[Any]) -> list[list[Any]]:
    """Return trainers in groups; those of one group have the same metrics, all of them by name."""
    found: dict[tuple[str, ...], list[Any]] = {}
    for trainer in trainers:
        # A metric that is an object may be one for all trainers, and holds what was last counted.
        if all(isinstance(metric, str) for metric in trainer.metrics):
            found.setdefault(tuple(trainer.metrics), []).append(trainer)
    return list(found.values())


def _together(trainers: Sequence[Any], structure: Structure) -> dict[int, Mapping[str, Any]]:
    """Return the metrics by the ids of the trainers; nothing where each needs its own ``evaluate``."""
    first = trainers[0]
    data = first._validation_data
    variables = [stacked(same) for same in zip(*(one.net.variables for one in trainers), strict=True)]
    counts: list[Any] | None = None
    logs: dict[str, Any] = {}
    with first._untouched():
        for start in range(0, first._count(data), EVALUATION_BATCH):
            indices = np.arange(start, min(start + EVALUATION_BATCH, first._count(data)))
            batch = as_tensors(first._batch(data, indices))
            evaluation = _evaluation(first, structure, batch)
            if evaluation is None:
                return {}
            if counts is None:
                counts = [tf.repeat(zero[None], len(trainers), axis=0) for zero in evaluation.zeros]
            logs, counts = evaluation(variables, counts, batch)
    columns = {name: values.numpy().tolist() for name, values in logs.items()}
    return {id(one): {name: column[row] for name, column in columns.items()} for row, one in enumerate(trainers)}


def _evaluation(trainer: Any, structure: Structure, batch: tuple[Any, ...]) -> Any:
    """Return the traced evaluation of a stack; None if each of its members is evaluated by itself."""

    def traced() -> Any:
        try:
            return _Evaluation(trainer.net, batch)
        except tf.errors.ResourceExhaustedError:
            raise
        except Exception:  # whatever the model does that vectorized_map cannot
            return None

    key = structure, tuple(trainer.metrics), kind_of(batch)
    return known_of(type(trainer)).traced.found(key, traced)


class _Evaluation:
    def __init__(self, net: Any, batch: tuple[Any, ...]) -> None:
        # Makes the variables of the metrics, and tells their order: a traced function sorts them by name.
        with restored([*net.variables, *net.metrics_variables]):
            self._names = list(net.test_on_batch(*batch, return_dict=True))
        net.reset_metrics()
        self.zeros = [variable.value.read_value() for variable in net.metrics_variables]
        """The variables of the metrics before the first batch."""
        specs = [tf.TensorSpec([None, *one.shape], one.dtype) for one in (*net.variables, *net.metrics_variables)]
        parts = [tf.TensorSpec(part.shape, part.dtype) for part in batch]
        step = tf.function(_traced_step(net), autograph=False)
        with quiet_vectorizing(), drawing_nothing():
            self._function = step.get_concrete_function(*specs, *parts)
        if drawing_in(self._function.graph):
            raise NotStackedError("the evaluation draws from TensorFlow's own generator")

    def __call__(self, variables: list[Any], counts: list[Any], batch: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        logs, found = self._function(*variables, *counts, *batch)
        return {name: logs[name] for name in self._names}, list(found)


def _traced_step(net: Any) -> Any:
    variables = [*net.variables, *net.metrics_variables]
    counting = net.metrics_variables

    def step(*tensors: Any) -> Any:
        batch = tensors[len(variables) :]

        def of_member(own: Any) -> Any:
            with keras.StatelessScope(
                state_mapping=list(zip(variables, own, strict=True)), collect_losses=True
            ) as scope:
                logs = net.test_step(batch)
            return logs, [scope.get_current_value(variable) for variable in counting]

        return tf.vectorized_map(of_member, list(tensors[: len(variables)]), warn=False)

    return step

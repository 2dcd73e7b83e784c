"""Members that are not alike in one traced function: each computes what it would alone, on a batch read once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from asyncsearch.trainers.keras_packs.errors import NotTogetherError
from asyncsearch.trainers.keras_packs.graphs import kind_of, require_own_state


class OneFunction:
    """The steps of several trainers in one unit. The traced function stays with the first of them, for later units."""

    def __init__(self, trainers: Sequence[Any]) -> None:
        self.trainers = list(trainers)

    def prepare(self, batch: tuple[Any, ...]) -> None:
        """Trace what a batch like this one needs.

        Raises:
            NotTogetherError: the members would change each other's results.
        """
        self._function(batch)

    def follow(self, trainer: Any) -> None:
        """Take in that the learning rate of a trainer has changed: the function reads it from its optimizer."""

    def step(self, batch: tuple[Any, ...]) -> None:
        """Train each member by one step."""
        self._function(batch)(batch)

    def end(self) -> None:
        """All state is in the members."""

    def _function(self, batch: tuple[Any, ...]) -> Any:
        kind = ("pack", kind_of(batch))
        steps = [_step_of(trainer, kind, batch) for trainer in self.trainers]
        first = self.trainers[0]
        # Only of those who train together now: a function keeps the models of its members.
        functions: dict[Any, Any]
        known, functions = getattr(first, "_pack_functions", ([], {}))
        if [*map(id, known)] != [*map(id, steps)] and kind in functions:
            functions = {}
        if kind not in functions:
            functions[kind] = _together(steps)
        first._pack_functions = steps, functions
        return functions[kind]


def _step_of(trainer: Any, kind: Any, batch: tuple[Any, ...]) -> Any:
    """Return the traced step of one member; it goes with the trainer's other traced functions."""
    if kind not in trainer._traced:
        net = trainer.net
        step = tf.function(net.train_step, autograph=False, jit_compile=net.jit_compile)
        try:
            concrete = step.get_concrete_function(batch)
        except tf.errors.ResourceExhaustedError:
            raise
        except Exception as error:
            words = str(error).strip().partition("\n")[0]
            raise NotTogetherError(f"train_step of {type(net).__name__} cannot be traced: {words}") from error
        variables = [*net.variables, *net.metrics_variables, *trainer.opt.variables]
        require_own_state(concrete.graph, {id(variable.value) for variable in variables})
        trainer._traced[kind] = step
    return trainer._traced[kind]


def _together(steps: Sequence[Any]) -> Any:
    def together(batch: tuple[Any, ...]) -> None:
        for step in steps:
            step(batch)

    return tf.function(together, autograph=False)

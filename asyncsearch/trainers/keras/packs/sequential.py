"""Members that are not alike: each one's own traced step, one after another, on a batch that is read once.

One traced function of all steps takes longer on a processor than its parts, and has to be traced anew whenever a member
comes or goes. A sequential step saves the work of ``train_on_batch`` around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from asyncsearch.events import is_of_all
from asyncsearch.trainers.keras.packs.samples import StreamBatches
from asyncsearch.trainers.keras.packs.traced_steps import drawing_nothing, kind_of, line_of, require_own_state
from asyncsearch.trainers.packs.pack_training import NotTogetherError
from asyncsearch.trainers.turns import fail


class SequentialSteps:
    """The steps of several trainers in one unit. Each traced step stays with its trainer, for later units."""

    def __init__(self, trainers: Sequence[Any]) -> None:
        self.trainers = list(trainers)

    def prepare(self, batches: StreamBatches) -> None:
        """Trace the steps that batches like these need.

        Raises:
            NotTogetherError: the members would change each other's results.
        """
        for trainer in self.trainers:
            _step_of(trainer, batches.of(trainer))

    def follow(self, trainer: Any) -> None:
        """Take in that the learning rate of a trainer has changed: its step reads it from its optimizer."""

    def step(self, batches: StreamBatches) -> None:
        """Train each member by one step."""
        for trainer in list(self.trainers):
            batch = batches.of(trainer)
            try:
                _step_of(trainer, batch)(batch)
            except Exception as error:  # of its model or its loss
                if is_of_all(error):
                    raise
                fail(trainer, error)
                self.trainers.remove(trainer)

    def end(self) -> None:
        """All state is in the members."""


def _step_of(trainer: Any, batch: tuple[Any, ...]) -> Any:
    """Return the traced step of one member; it goes with the trainer's other traced functions."""
    kind = "pack", kind_of(batch)
    if kind not in trainer._traced:
        net = trainer.net
        step = tf.function(net.train_step, autograph=False, jit_compile=net.jit_compile)
        try:
            with drawing_nothing():
                concrete = step.get_concrete_function(batch)
        except (tf.errors.ResourceExhaustedError, NotTogetherError):
            raise
        except Exception as error:
            words = str(error).strip().partition("\n")[0]
            name, line = type(net).__name__, line_of(error)
            raise NotTogetherError(f"train_step of {name} cannot be traced{line}: {words}") from error
        variables = [*net.variables, *net.metrics_variables, *trainer.opt.variables]
        require_own_state(concrete.graph, {id(variable.value) for variable in variables})
        trainer._traced[kind] = step
    return trainer._traced[kind]

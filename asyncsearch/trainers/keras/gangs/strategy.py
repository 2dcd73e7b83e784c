"""A model of Keras that several workers train together: each trains its share of every batch.

Gradients are averaged over the ranks, each weighted by its share, where the optimizer applies them: so a step, also one
of your own, is that of the whole batch on one worker, within rounding. They are averaged by a ring of sockets:
TensorFlow's own collectives can be set up once in a process, and for one set of workers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from asyncsearch.errors import UsageError
from asyncsearch.trainers.keras.gangs.connection import Ring
from asyncsearch.trainers.keras.trainer_state import without_weights
from asyncsearch.trainers.ranks import share_of

_RIGHT_REDUCTIONS = (None, "sum_over_batch_size", "mean")
_TESTING = ("test_step", "compute_metrics", "get_metrics_result", "reset_metrics")
"""Methods of a model of which one's own may count anything."""
_SEED_BITS = 0x9E3779B9
"""Multiplied by a rank, bits by which its seeds differ from those of rank 0."""
_SEED_MASK = 2**31 - 1


class KerasGang:
    """The common state of the ranks of a trial: gradients, statistics such as those of batch norm, and metrics."""

    def __init__(self, trainer: Any, ring: Ring) -> None:
        self._trainer, self._ring = trainer, ring
        self._sums = 0
        self._has_begun = False
        self._seed_bits = ring.rank * _SEED_BITS & _SEED_MASK

    # Steps

    def average(self, optimizer: Any) -> None:
        """Let an optimizer apply averages over the ranks, before it clips them or looks whether they are finite."""
        apply = optimizer.apply

        def apply_averages(grads: Any, trainable_variables: Any = None) -> Any:
            return apply(self._averaged(list(grads)), trainable_variables)

        optimizer.apply = apply_averages

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Check that a step has applied averages.

        Raises:
            RankLostError: another rank is gone.
            UsageError: the step has applied gradients otherwise, or another rank trains otherwise.
        """
        before = self._sums
        try:
            yield
        except Exception:
            if self._ring.error is not None:  # TensorFlow makes an error of its own of it
                raise self._ring.error from None
            raise
        if self._sums == before and self._net.trainable_variables:
            raise UsageError(
                f"{type(self._net).__name__}.train_step() applies gradients that are not averaged over the workers of "
                "the trial: write self.optimizer.apply(gradients, self.trainable_variables) in it, with the optimizer "
                "that optimizer() returned."
            )

    def _averaged(self, grads: list[Any]) -> list[Any]:
        wide = [None if grad is None else _wide(grad.dtype) for grad in grads]
        # Sorted, since all ranks must sum the same kinds in the same order.
        for kind in sorted({kind for kind in wide if kind is not None}, key=lambda kind: str(kind.name)):
            places = [place for place, one in enumerate(wide) if one == kind]
            found = self._averaged_alike([grads[place] for place in places], kind)
            for place, grad in zip(places, found, strict=True):
                grads[place] = grad
        return grads

    def _averaged_alike(self, grads: list[Any], kind: Any) -> list[Any]:
        dense = [tf.convert_to_tensor(grad) for grad in grads]
        flat = tf.concat([tf.reshape(tf.cast(one, kind), [-1]) for one in dense], 0)
        total = tf.ensure_shape(tf.numpy_function(self._average, [flat], kind), flat.shape)
        parts = tf.split(total, [tf.size(one) for one in dense])
        return [
            tf.cast(tf.ensure_shape(tf.reshape(part, tf.shape(one)), one.shape), one.dtype)
            for part, one in zip(parts, dense, strict=True)
        ]

    def _average(self, mine: Any) -> Any:
        """Return the mean over the ranks, weighted by their shares of the batch; TensorFlow calls it in each step."""
        self._sums += 1
        return self._ring.sum(mine * mine.dtype.type(self._trainer._weight / self._ring.size))

    # Units

    @contextlib.contextmanager
    def unit(self) -> Iterator[None]:
        """Train a unit with random numbers of this rank, and average the statistics that each rank has gathered."""
        if not self._has_begun:
            self._has_begun = True
            self._share(self._floats(self._net.variables), 1.0 if self._ring.rank == 0 else 0.0)
        self._shift_seeds()
        try:
            yield
        finally:
            self._shift_seeds()
        self._share(self._floats(self._statistics()), 1.0 / self._ring.size)

    @property
    def _net(self) -> Any:
        return self._trainer.net

    def _shift_seeds(self) -> None:
        """Change the seeds of layers such as Dropout to those of this rank, or back to those of a checkpoint."""
        for variable in filter(_is_seed, self._net.non_trainable_variables):
            first, *others = variable.numpy().tolist()
            variable.assign([first ^ self._seed_bits, *others])

    def _statistics(self) -> list[Any]:
        """Return the variables that training changes by no gradient: neither weights of a frozen layer nor seeds."""
        return without_weights(self._net, self._net.non_trainable_variables)

    def _floats(self, variables: Any) -> list[Any]:
        return [one for one in variables if keras.backend.is_float_dtype(one.dtype)]

    def _share(self, variables: list[Any], weight: float) -> None:
        """Set variables to their sums over the ranks, each weighted."""
        values = [one.numpy().astype(np.float64) for one in variables]
        if not values:
            return
        mine = np.concatenate([value.ravel() for value in values])
        # Not a product with 0: another rank's NaN is none of this one.
        total = self._ring.sum(mine * weight if weight else np.zeros_like(mine))
        ends = np.cumsum([value.size for value in values])[:-1]
        for variable, part, value in zip(variables, np.split(total, ends), values, strict=True):
            variable.assign(part.reshape(value.shape))

    # Metrics

    def range_of_rank(self, count: int) -> tuple[int, int]:
        """Return which validation samples this rank evaluates: its share where metrics are sums over ranks, or all."""
        parts = self._ring.size if count >= self._ring.size and self._may_share_metrics() else 1
        return share_of(self._ring.rank % parts, parts, count)

    def whole_metrics(self) -> Mapping[str, Any]:
        """Return the metrics of all ranks together, after each has evaluated its share."""
        variables = [one for metric in self._net.metrics for one in metric.variables]
        self._share(variables, 1.0)
        return {name: float(value) for name, value in sorted(self._net.get_metrics_result().items())}

    def _may_share_metrics(self) -> bool:
        own = [name for name in _TESTING if getattr(type(self._net), name) is not getattr(keras.Model, name)]
        compiled = self._net._compile_metrics
        is_known = compiled is None or compiled.built
        return not own and is_known and all(_is_mean(one) for metric in self._net.metrics for one in _parts_of(metric))


def require_averageable(trainer: Any) -> None:
    """Check that a compiled model trains on several workers as on one.

    Raises:
        UsageError: it does not.
    """
    if trainer.jit_compile:
        raise UsageError(jit_words(type(trainer)))
    for loss in keras.tree.flatten(trainer.loss):
        if getattr(loss, "reduction", None) not in _RIGHT_REDUCTIONS:
            raise UsageError(
                f"The loss {loss.name} has reduction={loss.reduction!r}: workers that train a trial together weight "
                'their gradients by their shares of a batch, which is right for reduction="sum_over_batch_size".'
            )
    for layer in trainer.net._flatten_layers():
        if getattr(layer, "synchronized", False):
            raise UsageError(
                f"Layer {layer.name} has synchronized=True, which needs a strategy of TensorFlow: leave it out. Each "
                "worker normalizes by its share of a batch, and the statistics are averaged after each unit."
            )


def jit_words(kind: type) -> str:
    """Return why a trainer class that XLA compiles trains on one worker."""
    return f"{kind.__name__} averages gradients in the middle of what XLA would compile as one: leave out jit_compile."


def _wide(kind: Any) -> Any:
    """Return the type in which gradients are averaged."""
    return tf.float32 if kind in (tf.float16, tf.bfloat16) else kind


def _is_seed(variable: Any) -> bool:
    return variable.name == "seed_generator_state" and tuple(variable.shape) == (2,)


def _parts_of(metric: Any) -> list[Any]:
    """Return the metrics of which one is made that ``compile`` has made."""
    return list(metric.metrics) if type(metric).__name__ == "CompileMetrics" else [metric]


def _is_mean(metric: Any) -> bool:
    return isinstance(metric, keras.metrics.Mean) and type(metric).__module__.startswith("keras.")

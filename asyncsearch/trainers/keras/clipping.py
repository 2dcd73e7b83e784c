"""Gradients of a Keras model whose norm is limited, over all its variables: of one model, or of K stacked ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def clip(optimizer: Any, limit: Callable[[], float | None]) -> None:
    """Let an optimizer apply gradients whose norm is at most the limit; it is read when a step is traced."""
    apply = optimizer.apply

    def apply_clipped(grads: Any, trainable_variables: Any = None) -> Any:
        most = limit()
        return apply(grads if most is None else _clipped(list(grads), most), trainable_variables)

    apply_clipped.clipped = apply  # type: ignore[attr-defined]
    optimizer.apply = apply_clipped


def scales(dense: Sequence[Any], limit: Any, first_axis: int = 0) -> Any:
    """Return the factors of gradients, at most 1, in double precision.

    Args:
        dense: one tensor for each variable; with ``first_axis=1`` they are stacked, (K, ...).
        limit: the largest norm, or those of all members, (K,).
        first_axis: from which axis on a norm is taken.
    """
    # Doubles, since squares of single-precision numbers overflow soon.
    doubles = [tf.cast(one, tf.float64) for one in dense]
    squares = [tf.reduce_sum(tf.square(one), axis=list(range(first_axis, len(one.shape)))) for one in doubles]
    most = tf.convert_to_tensor(limit, tf.float64)  # not a cast, which makes a single-precision number of it first
    return most / tf.maximum(tf.sqrt(tf.add_n(squares)), most)


def _clipped(grads: list[Any], limit: float) -> list[Any]:
    # The parts of a sparse gradient may be of one row: its norm is that of their sum.
    dense = [None if one is None else tf.convert_to_tensor(one) for one in grads]
    scale = scales([one for one in dense if one is not None], limit)
    return [None if one is None else one * tf.cast(scale, one.dtype) for one in dense]

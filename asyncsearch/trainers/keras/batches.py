"""Batches of Keras: tuples of arrays or tensors; and the metrics on some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from asyncsearch.trainers.sample_order import Indices

Tensors = tuple[Any, ...]


def batch_of(data: Any, indices: Indices) -> tuple[Any, ...]:
    """Return the batch of some samples."""
    if isinstance(data, tuple | list):
        return tuple(tf.gather(part, indices) if isinstance(part, tf.Tensor) else part[indices] for part in data)
    samples = [data[index] for index in indices.tolist()]
    return tuple(np.stack(part) for part in zip(*samples, strict=True))


def tested(net: Any, batches: Iterable[tuple[Any, ...]]) -> Mapping[str, Any]:
    """Return the metrics of a model on batches, in which its own metrics count them."""
    found: Mapping[str, Any] = {}
    for number, batch in enumerate(batches):
        if number == 0:
            found = net.test_on_batch(*batch, return_dict=True)
        else:  # test_on_batch forgets the counts of earlier batches
            found = _numbers(net.test_function(iter([(*batch, None)[:3]])))
    return found


def _numbers(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics as numbers, those of each output under their own names."""
    parts = [_numbers(one) if isinstance(one, Mapping) else {name: float(one)} for name, one in sorted(found.items())]
    return {name: value for part in parts for name, value in part.items()}


def as_tensors(batch: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a batch as tensors, once for all members."""
    return tuple(map(tf.convert_to_tensor, batch))


def kind_of(batch: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return shapes and types of a batch of tensors: each has a traced function of its own.

    A function for any size would add in another order, and which one was traced would depend on earlier batches.
    """
    return tuple((tuple(part.shape), part.dtype) for part in batch)

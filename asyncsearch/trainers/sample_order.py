"""The order of training samples: a pure function of seed, epoch and sample offset, so there is no order to save.

Training follows one line of samples: the permutation of epoch 0, then that of epoch 1, and so on. Its position is one
number, the samples consumed. After a change of batch size it continues in the same permutation at the same offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from asyncsearch.randomness import generator

Indices = npt.NDArray[np.int64]


def permutation(seed: int, epoch: int, size: int) -> Indices:
    """Return the order of the samples 0 to ``size - 1`` in an epoch, from 0; costs one sort."""
    # Sorted draws, not Generator.permutation: numpy may change how that method uses the stream.
    return np.argsort(generator(seed, "trainers.order", epoch).random(size), kind="stable").astype(np.int64)


def batches(
    order: Callable[[int], Indices], size: int, start: int, stop: int, batch_size: int, *, drop_last: bool = False
) -> Iterator[tuple[int, Indices]]:
    """Yield batches from one position on the line of samples to another.

    A batch ends at the end of the epoch and at ``stop`` at the latest, so the last batch before these may be smaller.

    Args:
        order: the permutation of an epoch.
        size: samples in an epoch.
        start: samples consumed before.
        stop: samples consumed afterwards.
        batch_size: samples in a batch, from 1.
        drop_last: whether smaller batches are skipped. Their samples count as consumed nevertheless, so that time does
            not depend on the batch size.

    Yields:
        Samples consumed before the batch, and the indices of its samples.
    """
    at = start
    while at < stop:
        epoch, offset = divmod(at, size)
        count = min(batch_size, stop - at, size - offset)
        if count == batch_size or not drop_last:
            yield at, order(epoch)[offset : offset + count]
        at += count

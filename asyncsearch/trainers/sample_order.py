"""The order of training samples: a pure function of seed, epoch and sample offset, so there is no order to save.

Training follows one stream of samples: the permutation of epoch 0, then that of epoch 1, and so on. Its position is one
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
    """Yield batches from one position on the stream of samples to another.

    A batch ends at the end of the epoch and at ``stop`` at the latest, so the last batch before these may be smaller.
    None has a single sample, of which BatchNorm has no variance, unless ``batch_size`` is 1 or there is no other one:
    it is joined with the batch before it or, at the end of an epoch, after it; what is too large is halved.

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
    cuts = _cuts(size, start, stop, batch_size)
    for at, count in (cut for cut in cuts if cut[1] == batch_size) if drop_last else _joined(cuts, batch_size):
        epoch, offset = divmod(at, size)
        indices = order(epoch)[offset : offset + count]
        # A batch that was joined may reach over the end of the epoch.
        more = count - len(indices)
        yield at, np.concatenate([indices, order(epoch + 1)[:more]]) if more else indices


def sizes(size: int, start: int, stop: int, batch_size: int, *, drop_last: bool = False) -> set[int]:
    """Return the sizes of the batches that ``batches`` yields."""
    cuts = _cuts(size, start, stop, batch_size)
    return {batch_size} if drop_last else {count for _, count in _joined(cuts, batch_size)}


def _cuts(size: int, start: int, stop: int, batch_size: int) -> Iterator[tuple[int, int]]:
    """Yield the samples consumed before each batch, and its size."""
    at = start
    while at < stop:
        count = min(batch_size, stop - at, size - at % size)
        yield at, count
        at += count


def _joined(cuts: Iterator[tuple[int, int]], batch_size: int) -> Iterator[tuple[int, int]]:
    """Join each batch of one sample with a neighbour."""
    former: tuple[int, int] | None = None
    for cut in cuts:
        if former is None or batch_size == 1 or 1 not in (former[1], cut[1]):
            if former is not None:
                yield former
            former = cut
            continue
        (at, count), more = former, cut[1]
        half = (count + more) // 2
        if count + more > batch_size and half > 1:
            yield at, count + more - half
            at, count, more = at + count + more - half, half, 0
        former = (at, count + more)
    if former is not None:
        yield former

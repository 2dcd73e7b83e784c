"""Processes that load samples of a ``Dataset`` ahead: new ones for a unit, or some that are kept from unit to unit.

Kept ones have the data as they were when they began, so the data must be such as nothing changes: neither the trainer
between units, nor the loading of a sample. Their generators are seeded for each unit as those of new ones are.
"""

from __future__ import annotations

import functools
import inspect
import random
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, get_worker_info
from torch.utils.data._utils.worker import _generate_state

from asyncsearch.trainers.torch.batches import samples_of

Collate = Callable[[list[Any]], Any]


def load_by_new(data: Any, places: Sequence[Sequence[int]], workers: int, collate: Collate) -> Iterator[Any]:
    """Yield the batches of samples at some places, by processes that end with the last one."""
    loader = DataLoader(
        data, batch_sampler=places, num_workers=workers, collate_fn=collate, generator=_generator_of_unit()
    )
    yield from loader


class KeptLoader:
    """Processes that load samples of some data, until nobody refers to this object."""

    def __init__(self, data: Any, workers: int, collate: Collate) -> None:
        """Start them at the first batch."""
        self.data = data
        self._places: list[_Place] = []
        self._round = 0
        self._loader = DataLoader(
            _SeededBatches(data, collate),
            batch_sampler=self._places,
            num_workers=workers,
            collate_fn=_only_one,
            generator=torch.Generator(),  # else it would draw from that of the training
            persistent_workers=True,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a process that is sent the trainer, with its ``collate``, loads by itself

    def load(self, places: Sequence[Sequence[int]]) -> Iterator[Any]:
        """Yield the batches of samples at some places."""
        self._round += 1
        seed = int(torch.empty((), dtype=torch.int64).random_(generator=_generator_of_unit()).item())
        self._places[:] = [_Place(self._round, seed, indices) for indices in places]
        yield from self._loader


def _generator_of_unit() -> torch.Generator:
    """Return the generator of which the seed of a unit's processes is drawn."""
    return torch.Generator().manual_seed(torch.initial_seed())


class _Place(NamedTuple):
    """The place of the samples of a batch."""

    round: int
    """Counts the units and validations, at each of which new processes would have begun."""
    seed: int
    """That these would have had, together."""
    indices: Sequence[int]


class _SeededBatches:
    """Batches of data. A process seeds its generators when it loads its first one of a round."""

    def __init__(self, data: Any, collate: Collate) -> None:
        self._data = data
        self._round = 0
        # A method of the trainer would keep the trainer, and with it these processes, beyond its training.
        is_method = inspect.ismethod(collate)
        self._collate: Callable[[], Any] = weakref.WeakMethod(collate) if is_method else lambda: collate

    def __reduce__(self) -> tuple[Any, ...]:
        return _SeededBatches, (self._data, functools.partial(self._collate()))  # where it is sent, nobody else has it

    def __getitems__(self, place: _Place) -> list[Any]:
        if place.round != self._round:
            self._round = place.round
            _seed_process(place.seed)
        return [self._collate()(samples_of(self._data, place.indices))]


def _only_one(batches: list[Any]) -> Any:
    [batch] = batches
    return batch


def _seed_process(seed: int) -> None:
    """Seed the generators of this process as torch does when one begins."""
    info = get_worker_info()
    assert info is not None, "it loads for another process"
    random.seed(seed + info.id)
    torch.manual_seed(seed + info.id)
    np.random.seed(_generate_state(seed, info.id))  # noqa: NPY002

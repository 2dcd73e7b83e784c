"""The samples of a unit: trainers that see the same ones in the same order have each batch read once.

Trials of one study have one seed, so their order of samples is the same unless batch sizes, data or an ``order`` of
their own differ.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from asyncsearch.packing.member import Member
from asyncsearch.packing.stack.sample_masks import first_samples
from asyncsearch.packing.unit_generators import UnitGenerators, seeded_states
from asyncsearch.trainers.sample_lines import grouped, order_of, places_of
from asyncsearch.trainers.sample_order import Indices, batches, sizes
from asyncsearch.trainers.torch.packs.unit_beginnings import UnitBeginning
from asyncsearch.trainers.unit_errors import train_or_fail

_aten = torch.ops.aten
_NEW = (
    _aten.full_like,
    _aten.zeros_like,
    _aten.ones_like,
    _aten.empty_like,
    _aten.full,
    _aten.zeros,
    _aten.ones,
    _aten.empty,
)


class UnitSeeds:
    """The seeds of trainers for one unit, each as in its own ``train``; what equal seeds lead to is found once."""

    def __init__(self) -> None:
        self._begins: dict[tuple[int, int, int], Callable[[], Any]] = {}

    def generators(self, trainer: Any, member: Member) -> UnitGenerators:
        """Seed the generator of a member, and return all of its trainer; the process has the seeds of the first one."""
        number = trainer.samples // trainer._unit_samples
        if not self._begins:
            trainer._seed("unit", number)
        seeds = trainer._seeds("unit", number)
        assert member.generator is not None
        member.generator.manual_seed(seeds[2])
        begin = self._begins.setdefault(seeds, functools.cache(functools.partial(seeded_states, *seeds)))
        return UnitGenerators(member.generator, begin, is_at_home=next(iter(self._begins)) == seeds)


class PackedUnit:
    """One trainer in one unit: its place on the line of samples, and its generators."""

    def __init__(self, trainer: Any, member: Member, seeds: UnitSeeds) -> None:
        self.trainer, self.member = trainer, member
        self.start, self.size = trainer.samples, trainer._unit_samples
        self.batch_size = trainer._checked_batch_size(trainer._size, self.size)
        self.generators = seeds.generators(trainer, member)
        member.unit_generators = self.generators
        self._beginning = UnitBeginning(trainer)
        self.is_moved = False
        """Whether the trainer's own model and optimizer are no longer as at the beginning of the unit."""
        self.error: Exception | None = None
        """Why it cannot be trained, not even by itself."""

    def follow(self, fraction: float) -> str:
        """Apply the values at a fraction of the unit to the trainer's optimizer while its weights are in a stack.

        Returns:
            Why it must be trained by itself; empty: it need not.
        """
        with Noticing() as noticing:
            self.trainer._follow(fraction)
        return "optimizer() computes with the model, inside a unit" if noticing.has_computed else ""

    @property
    def sizes(self) -> tuple[Any, ...]:
        """What determines the sizes of the batches."""
        size = self.trainer._size
        return self.batch_size, self.start % size, self.size, size, self.trainer.drop_last

    def batches_of_each_size(self, batch: Any) -> list[Any]:
        """Return the first batch of the unit, and its beginnings of the sizes that smaller batches of the unit have."""
        size, drop_last = self.trainer._size, self.trainer.drop_last
        found = sizes(size, self.start, self.start + self.size, self.batch_size, drop_last=drop_last)
        return [batch, *(first_samples(batch, one) for one in sorted(found) if one < self.batch_size)]

    def train_alone(self) -> None:
        """Train the unit from its beginning as the trainer does without a pack; an error is its own."""
        trainer = self.trainer
        self._beginning.restore()
        pack = vars(trainer).pop("_pack", None)  # which it would leave
        train_or_fail(trainer)
        if pack is not None:
            trainer._pack = pack

    def read(self, indices: Indices) -> Any:
        """Return a batch on the device."""
        return self.trainer._moved(self.trainer._batch(self.trainer._train_data, indices))

    def read_drawing(self, indices: Indices) -> tuple[Any, bool]:
        """Return a batch, and whether reading it has drawn from the generators of this trainer."""
        before = self.generators.drawn
        with self.generators.in_use():
            batch = self.read(indices)
        return batch, self.generators.drawn != before


class Noticing(TorchDispatchMode):  # type: ignore[misc]
    """Notices whether anything is computed with tensors; new ones that an optimizer makes of constants do not count."""

    has_computed = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.has_computed |= func.overloadpacket not in _NEW
        return func(*args, **(kwargs or {}))


class SampleLine:
    """Units whose batches have the same samples."""

    def __init__(self, units: Sequence[PackedUnit]) -> None:
        self.units = list(units)
        first, trainer = units[0], units[0].trainer
        stop = first.start + first.size
        self._left = batches(
            trainer._order_of, trainer._size, first.start, stop, first.batch_size, drop_last=trainer.drop_last
        )
        self._is_plain = is_plain(trainer._train_data)
        self._indices: Indices = np.empty(0, dtype=np.int64)
        self.fraction = 0.0
        """The part of the unit that is over."""

    def advance(self) -> bool:
        """Go to the next batch; False: there is none."""
        at, self._indices = next(self._left, (-1, self._indices))
        self.fraction = (at - self.units[0].start) / self.units[0].size
        return at >= 0

    def batches(self) -> list[Any]:
        """Return the batch of each unit: one object for all where reading it draws nothing."""
        first, *others = self.units
        if self._is_plain:
            return [first.read(self._indices)] * len(self.units)
        batch, drew = first.read_drawing(self._indices)
        return [batch, *(unit.read_drawing(self._indices)[0] if drew else batch for unit in others)]


class EqualData:
    """Gives data numbers, the same one to equal data. What was seen must stay alive, and not change."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._first: list[Any] = []

    def number(self, data: Any) -> int:
        """Return the number of data; they are compared at the first call only."""
        key = type(data), *map(id, _pytree.tree_leaves(data))
        if key not in self._numbers:
            self._numbers[key] = self._compared(data)
        return self._numbers[key]

    def _compared(self, data: Any) -> int:
        for number, other in enumerate(self._first):
            if _is_equal(data, other):
                return number
        self._first.append(data)
        return len(self._first) - 1


def sample_lines(units: Sequence[PackedUnit], equal: EqualData) -> list[SampleLine]:
    """Return the lines of units, each at its beginning."""
    return [SampleLine(same) for same in grouped(units, lambda unit: _samples_of(unit.trainer, equal))]


def is_plain(data: Any) -> bool:
    """Return whether batches of the data are rows of tensors, so that nothing is drawn in reading them."""
    return all(isinstance(part, torch.Tensor | np.ndarray) for part in _pytree.tree_leaves(data))


def _samples_of(trainer: Any, equal: EqualData) -> tuple[Any, ...]:
    """Return what determines the samples of each batch of a trainer's next unit."""
    # A collate of its own may read the hyper-parameters of its trainer.
    is_own = not type(trainer).has_default("collate") and not is_plain(trainer._train_data)
    data = equal.number(trainer._train_data)
    return data, order_of(trainer), places_of(trainer), id(trainer) if is_own else None


def _is_equal(one: Any, other: Any) -> bool:
    (mine, structure), (theirs, its) = _pytree.tree_flatten(one), _pytree.tree_flatten(other)
    return structure == its and all(map(_is_equal_part, mine, theirs))


def _is_equal_part(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.device == other.device and bool(torch.equal(one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return isinstance(one, int | float | str) and one == other

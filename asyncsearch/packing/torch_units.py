"""Units of training of several ``TorchTrainer`` together: each as in its own ``train``, within rounding.

Pseudocode of a unit::

    for each trainer: its generator := the seed of its unit; its batches := those of its own ``train``
    while a trainer has batches left:
        trainers that have none leave until the end of the unit
        each applies its values at this fraction of the unit to its optimizer
        one step of the pack, on a shared batch where all have the same samples
    the state of each is in its own ``net`` and ``opt`` again, so ``evaluate`` and ``save`` are those of the trainer
"""

from __future__ import annotations

import contextlib
import inspect
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree

from asyncsearch.errors import UsageError
from asyncsearch.packing.lone_member import drawing_from
from asyncsearch.packing.member import Member, cross_entropy
from asyncsearch.packing.packs import Pack
from asyncsearch.packing.probe import why_not
from asyncsearch.packing.refusals import padding_refusal
from asyncsearch.trainers.sample_order import Indices, batches
from asyncsearch.trainers.torch import TorchTrainer

_OWN_METHODS = ("step", "train", "autocast", "_train_batch", "_fetched", "_batch", "_moved")
"""What a pack does itself: an overridden one would not be called as its author expects."""


class PackedTrainers:
    """Trainers that train together. Each was set up, and loaded where it continues; its own interface stays usable."""

    def __init__(self, trainers: Sequence[Any]) -> None:
        """Take trainers in.

        Raises:
            UsageError: they cannot be packed, and why.
        """
        words = why_not_together(trainers)
        if words is not None:
            raise UsageError(f"These trainers cannot be packed: {words}.")
        self.trainers: list[Any] = []
        self._members: dict[int, Member] = {}
        self._pack = Pack([])
        self.join(*trainers)

    def join(self, *trainers: Any) -> None:
        """Take more trainers in, in their present state."""
        found = [_member(trainer) for trainer in trainers]
        self._pack.join(*found)
        self._members |= {id(trainer): member for trainer, member in zip(trainers, found, strict=True)}
        self.trainers += trainers

    def leave(self, trainer: Any) -> None:
        """Let a trainer out, as it is after its last unit."""
        self._pack.leave(self._members.pop(id(trainer)))
        self.trainers = [one for one in self.trainers if one is not trainer]

    def load(self, trainer: Any) -> None:
        """Take the state of a trainer anew, after its ``load``; its ``update`` needs nothing."""
        self._pack.reload(self._members[id(trainer)])

    def train(self) -> None:
        """Train each trainer by one unit; afterwards ``evaluate`` and ``save`` of each are as after its own unit."""
        units = [_Unit(trainer, self._members[id(trainer)]) for trainer in self.trainers]
        _require_padding(units)
        self._pack.regroup()
        while active := [unit for unit in units if unit.advance()]:
            self._let_out([unit.member for unit in units if unit not in active])
            for unit in active:
                unit.trainer._follow(unit.fraction)
                if unit.trainer.opt is not unit.member.optimizer:
                    # Another class of optimizer, which begins with an empty state.
                    unit.member = self._replace(unit.trainer)
            active.sort(key=lambda unit: self._pack.members.index(unit.member))
            if _share_samples(active):
                self._pack.step(active[0].batch())
            else:
                self._pack.step_each([unit.batch() for unit in active])
            for unit in active:
                unit.trainer.steps += 1
        self._pack.sync()
        self._pack.join(*(unit.member for unit in units if unit.member not in self._pack.members))
        for unit in units:
            unit.trainer.samples = unit.start + unit.size

    def describe(self) -> list[str]:
        """Return sentences about what trains as one computation, and why the rest does not."""
        return self._pack.describe()

    def _let_out(self, members: Sequence[Member]) -> None:
        for member in members:
            if member in self._pack.members:
                self._pack.leave(member)

    def _replace(self, trainer: Any) -> Member:
        """Let a trainer go on with the optimizer that it has now, and the weights and generator of the pack."""
        former = self._members[id(trainer)]
        self._pack.leave(former)
        member = self._members[id(trainer)] = replace(_member(trainer), generator=former.generator)
        self._pack.join(member)
        return member


class _Unit:
    """The batches of one trainer in one unit, and its generators in it."""

    def __init__(self, trainer: Any, member: Member) -> None:
        self.trainer, self.member = trainer, member
        self.start, self.size = trainer.samples, trainer._unit_samples
        self.batch_size = trainer._checked_batch_size(trainer._size, self.size)
        trainer._seed("unit", self.start // self.size)
        assert member.generator is not None
        member.generator.manual_seed(torch.initial_seed())
        self._states = random.getstate(), np.random.get_state()  # noqa: NPY002
        stop, drop_last = self.start + self.size, trainer.drop_last
        self._left = batches(trainer._order_of, trainer._size, self.start, stop, self.batch_size, drop_last=drop_last)
        self.fraction = 0.0
        self.indices: Indices = np.empty(0, dtype=np.int64)

    def advance(self) -> bool:
        """Go to the next batch; False: there is none."""
        at, self.indices = next(self._left, (-1, self.indices))
        self.fraction = (at - self.start) / self.size
        return at >= 0

    def batch(self) -> Any:
        with contextlib.nullcontext() if _is_plain(self.trainer._train_data) else self._generators():
            return self.trainer._moved(self.trainer._batch(self.trainer._train_data, self.indices))

    @contextlib.contextmanager
    def _generators(self) -> Iterator[None]:
        """Let a data set draw from the generators of this trainer, not from those that the others have used."""
        python, numpy = self._states
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        with drawing_from(self.member.generator):
            yield
        self._states = random.getstate(), np.random.get_state()  # noqa: NPY002


def why_not_together(trainers: Sequence[Any], *, probe: bool = False) -> str | None:
    """Return why trainers cannot be packed, and the line to change; None if they can.

    Args:
        trainers: set up, and loaded.
        probe: also train copies by two steps, which finds what ``forward`` and ``loss`` do.
    """
    first = trainers[0]
    for trainer in trainers:
        if not isinstance(trainer, TorchTrainer):
            return f"{type(trainer).__name__} is no TorchTrainer: derive from asyncsearch.TorchTrainer"
        if type(trainer) is not type(first):
            return f"{type(first).__name__} and {type(trainer).__name__} are different classes"
    words = _class_refusal(first)
    if words is not None:
        return words
    members = [_member(trainer) for trainer in trainers]
    if not probe:
        return why_not(members)
    batch = first._moved(first._batch(first._train_data, np.arange(min(first._size, first.batch_size))))
    return _loss_refusal(trainers, batch) or why_not(members, batch)


def _class_refusal(trainer: Any) -> str | None:
    kind = type(trainer)
    for name in _OWN_METHODS:
        method = getattr(kind, name)
        if method is not getattr(TorchTrainer, name):
            code = inspect.unwrap(method).__code__
            where = f"{Path(code.co_filename).name}, line {code.co_firstlineno}"
            return f"{kind.__name__}.{name} ({where}) is its own, and a pack has one of its own: put it into loss()"
    if trainer.precision is not None:
        return f"precision={trainer.precision!r} of {kind.__name__} is not packed: leave it out"
    if trainer.data_workers:
        return f"data_workers={trainer.data_workers} of {kind.__name__}: a pack fetches its data itself; leave it out"
    return None


def _loss_refusal(trainers: Sequence[Any], batch: Any) -> str | None:
    """Return words if the loss reads a hyper-parameter whose value differs: all members have the loss of the first."""
    first = trainers[0]
    watched = _Watched(first.hp)
    hp, first.hp = first.hp, watched
    try:
        with first._untouched():
            first.loss(first.net, batch)
    finally:
        first.hp = hp
    for name in sorted(watched.read):
        values = [trainer.hp.get(name) for trainer in trainers]
        if any(value != values[0] for value in values):
            return f"loss() of {type(first).__name__} reads hp[{name!r}], which differs between members: make it equal"
    return None


class _Watched(dict[str, Any]):
    """Hyper-parameters that remember which were read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)


def _member(trainer: Any) -> Member:
    is_default = type(trainer).loss is TorchTrainer.loss
    return Member(
        trainer.net,
        trainer.opt,
        cross_entropy if is_default else trainer.loss,
        getattr(trainer, "sample_losses", None),
        torch.Generator(trainer._device),
        hp=trainer.hp,
    )


def _require_padding(units: Sequence[_Unit]) -> None:
    """Refuse batches of different sizes before a step where they cannot be padded."""
    sizes = {(u.batch_size, u.start % u.trainer._size, u.size, u.trainer._size, u.trainer.drop_last) for u in units}
    words = padding_refusal(units[0].member, sorted({size[0] for size in sizes})) if len(sizes) > 1 else None
    if words is not None:
        raise UsageError(words)


def _share_samples(units: Sequence[_Unit]) -> bool:
    first = units[0]
    if not _is_plain(first.trainer._train_data):
        return len(units) == 1
    parts = _pytree.tree_leaves(first.trainer._train_data)
    for unit in units[1:]:
        others = _pytree.tree_leaves(unit.trainer._train_data)
        if len(others) != len(parts) or any(a is not b for a, b in zip(parts, others, strict=True)):
            return False
        if not np.array_equal(unit.indices, first.indices):
            return False
    return True


def _is_plain(data: Any) -> bool:
    """Return whether batches of the data are rows of tensors, so that nothing is drawn in fetching them."""
    return all(isinstance(part, torch.Tensor | np.ndarray) for part in _pytree.tree_leaves(data))

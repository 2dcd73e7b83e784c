"""One trainer for PyTorch in a unit of a pack: its generators, its batches, and its state when the unit began."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from asyncsearch.packing.member import Member
from asyncsearch.packing.stack.sample_masks import first_samples
from asyncsearch.packing.unit_generators import UnitGenerators, seeded_states
from asyncsearch.trainers.packs.sample_streams import SampleStream, TrainerUnit
from asyncsearch.trainers.sample_order import Indices, sizes
from asyncsearch.trainers.turns import train_or_fail

_aten = torch.ops.aten
_PARTS = ("_parameters", "_buffers", "_modules")
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
    """The seeds of trainers for one unit, each as in its own ``train``; the states of equal seeds are found once."""

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


def left_states(generators: UnitGenerators) -> Mapping[str, Any]:
    """Return the states of generators at the end of a unit, by the names of ``trainers.state.global_generators``."""
    (python, numpy, cpu), generator = generators.states, generators.generator
    found = {"python generator": python, "numpy generator": numpy, "torch generator": cpu}
    device, own = generator.device, generator.get_state()
    if device.type == "cpu":
        return found | {"torch generator": own}
    index = torch.cuda.current_device() if device.index is None else device.index
    every = torch.cuda.get_rng_state_all()
    return found | {"cuda generator": [own if number == index else one for number, one in enumerate(every)]}


class PackedUnit(TrainerUnit):
    """One trainer in one unit: its place in the stream of samples, and its generators."""

    def __init__(self, trainer: Any, member: Member, seeds: UnitSeeds) -> None:
        super().__init__(trainer)
        self.member = member
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
            Why it must be trained by itself; empty if it need not.
        """
        with Noticing() as noticing:
            self.trainer._follow(fraction)
        return "optimizer() computes with the model, inside a unit" if noticing.has_computed else ""

    @property
    def sizes(self) -> tuple[Any, ...]:
        """The causes of the sizes of the batches."""
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
        pack = vars(trainer).pop("_pack", None)  # else its own train() would leave the pack
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


def batches_of(stream: SampleStream[PackedUnit]) -> list[Any]:
    """Return the present batch of each unit of a stream: one object for all where reading it draws nothing."""
    first, *others = stream.units
    if is_plain(first.trainer._train_data):
        return [first.read(stream.indices)] * len(stream.units)
    batch, drew = first.read_drawing(stream.indices)
    return [batch, *(unit.read_drawing(stream.indices)[0] if drew else batch for unit in others)]


def is_plain(data: Any) -> bool:
    """Return whether batches of the data are rows of tensors, so that nothing is drawn in reading them."""
    return all(isinstance(part, torch.Tensor | np.ndarray) for part in _pytree.tree_leaves(data))


def own_samples(trainer: Any) -> int | None:
    """Return a mark of trainers whose batches are theirs alone: an own collate may read the values of its trainer."""
    is_own = not type(trainer).has_default("collate") and not is_plain(trainer._train_data)
    return id(trainer) if is_own else None


def is_equal_tensor(one: Any, other: Any) -> bool:
    """Return whether two tensors are equal; anything else is not."""
    if not isinstance(one, torch.Tensor):
        return False
    return one.dtype == other.dtype and one.device == other.device and bool(torch.equal(one, other))


class UnitBeginning:
    """The state of a trainer at the beginning of a unit: one that fails out of a stack begins the unit anew.

    Weights, buffers and rows of the optimizer are those of the beginning anyway, since the stack has its own.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer, self._own = trainer, dict(vars(trainer))
        self._scaler = dict(trainer.scaler.state_dict())
        # Where values change inside a unit, ``optimizer()`` is called there with the trainer's own model.
        is_changing = trainer.trial.has_sequences
        self._settings = _settings_of(trainer.opt) if is_changing else []
        self._layers = [_Layer(module) for module in trainer.net.modules()] if is_changing else []

    def restore(self) -> None:
        """Undo the changes since then: the trainer's attributes, its optimizer's settings, its model's layers."""
        own = vars(self._trainer)
        own.clear()
        own.update(self._own)
        for group, settings in zip(self._trainer.opt.param_groups, self._settings, strict=False):
            group.update(settings)
        self._trainer.scaler.load_state_dict(self._scaler)
        for layer in self._layers:
            layer.restore()


class _Layer:
    """A module: its attributes, the names of its parts, and which of its parameters are trained."""

    def __init__(self, module: Any) -> None:
        self._module, self._own = module, dict(vars(module))
        self._parts = [(parts, dict(parts)) for parts in map(self._own.__getitem__, _PARTS)]
        self._trained = [(one, one.requires_grad) for one in self._own["_parameters"].values() if one is not None]

    def restore(self) -> None:
        for now, former in ((vars(self._module), self._own), *self._parts):
            now.clear()
            now.update(former)
        for parameter, is_trained in self._trained:
            parameter.requires_grad_(is_trained)


def _settings_of(optimizer: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]

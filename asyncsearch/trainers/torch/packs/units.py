"""Several ``TorchTrainer`` that train together: each unit as in its own ``train``, within rounding.

Before the first step of a unit alike trainers become one computation, as ``must_match`` says; the others step beside
them. ``packs.pack_training`` has the loop over the unit. Their metrics are computed at once where they are the default
ones on the same data.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree

from asyncsearch.errors import UsageError
from asyncsearch.packing.member import Member
from asyncsearch.packing.member_stack import MemberStack
from asyncsearch.packing.packs import Pack
from asyncsearch.packing.step_failures import FailedStep
from asyncsearch.trainers.packs.pack_training import PackTraining, with_own_metrics
from asyncsearch.trainers.packs.sample_streams import EqualData, SampleStream, streams_of
from asyncsearch.trainers.torch.batches import length_of
from asyncsearch.trainers.torch.packs.must_match import MustMatch
from asyncsearch.trainers.torch.packs.samples import (
    PackedUnit,
    UnitSeeds,
    batches_of,
    is_equal_tensor,
    is_plain,
    left_states,
    own_samples,
)
from asyncsearch.trainers.torch.packs.trainer_refusals import has_own_hooks, is_member_of, member_of, why_not_together
from asyncsearch.trainers.turns import end_turn, fail, leave_states


class PackedTrainers(PackTraining[PackedUnit]):
    """Trainers that train together. Each was set up, and loaded where it continues; its own interface stays usable."""

    def __init__(self, trainers: Sequence[Any]) -> None:
        """Take trainers in.

        Raises:
            UsageError: they cannot be packed, and why.
        """
        words = why_not_together(trainers)
        if words:
            raise UsageError(f"These trainers cannot be packed: {words}.")
        self.trainers: list[Any] = []
        self._members: dict[int, Member] = {}
        self._pack = Pack([])
        self._equal = EqualData(is_equal_tensor)
        self._must_match = MustMatch(self._pack, type(trainers[0]))
        self.join(*trainers)

    def join(self, *trainers: Any) -> None:
        """Take more trainers in, in their present state."""
        found = [member_of(trainer) for trainer in trainers]
        self._pack.join(*found)
        self._members |= {id(trainer): member for trainer, member in zip(trainers, found, strict=True)}
        self.trainers += trainers
        for trainer in trainers:
            trainer._pack = self

    def leave(self, *trainers: Any) -> None:
        """Let trainers out, between two units: what counts is what each has."""
        self._pack.forget([self._members.pop(id(trainer)) for trainer in trainers], is_between=True)
        self.trainers = [one for one in self.trainers if id(one) in self._members]
        self._equal = EqualData(is_equal_tensor)  # it knows data by their ids, and those of the others may end

    def evaluate(self) -> list[Mapping[str, Any]]:
        """Return the metrics of each trainer after a unit, as its own ``evaluate`` does, within rounding."""
        found = with_own_metrics(self.trainers, self.common_metrics())
        for one in found:
            if isinstance(one, Exception):
                raise one
        return [one for one in found if not isinstance(one, Exception)]

    def common_metrics(self) -> dict[int, Mapping[str, Any]]:
        """Return the metrics that are computed for all members of a stack at once, by the ids of their trainers."""
        owners = {member: trainer for trainer in self.trainers for member in [self._members[id(trainer)]]}
        stacks = [(stack, [owners[member] for member in stack.members]) for stack in self._pack.stacks()]
        # Only where losses read what they have read in the unit are they known to be one.
        seen = [(stack, found) for stack, found in stacks if all(map(self._must_match.has_loss_as_trained, found))]
        return metrics_of_stacks(seen, self._equal)

    def unfit(self) -> list[tuple[Any, str]]:
        """Return the trainers that train by themselves whomever they are with, and why; known after a unit."""
        words = self._pack.unfit()
        own = [(trainer, words.get(self._members[id(trainer)])) for trainer in self.trainers]
        return [(trainer, reason) for trainer, reason in own if reason is not None]

    def apart(self) -> str:
        """Return why not all trainers train as one computation, of one of them; empty if they do."""
        return self._pack.apart()

    def describe(self) -> list[str]:
        """Return sentences about who trains as one computation, and why the rest does not."""
        return self._pack.describe()

    # A unit

    def begin(self) -> list[SampleStream[PackedUnit]]:
        end_turn()
        self._retake()
        seeds = UnitSeeds()
        self._units = [PackedUnit(trainer, self._members[id(trainer)], seeds) for trainer in self.trainers]
        self._resting = list[Member]()
        return streams_of(self._units, self._equal, own_samples)

    def rest(self, units: Sequence[PackedUnit]) -> None:
        members = [unit.member for unit in units]
        self._pack.leave_together(members)
        self._resting += members

    def follow(self, unit: PackedUnit, fraction: float) -> None:
        trainer = unit.trainer
        is_away = self.has_stepped and self._pack.is_in_stack(unit.member)
        words = unit.follow(fraction) if is_away else trainer._follow(fraction)
        unit.member.clip_grad_norm = trainer._largest_norm()
        has_other = trainer.opt is not unit.member.optimizer
        if is_away and (words or has_other or not self._pack.is_current(unit.member)):
            unit.member.by_itself = words or unit.member.by_itself
            self._pack.forget([unit.member])
            self.failed.append(unit)
        elif has_other:  # of another class, which begins with an empty state
            unit.member, unit.is_moved = self._replace(trainer), self.has_stepped

    def step(self, streams: Sequence[SampleStream[PackedUnit]]) -> None:
        found = [pair for stream in streams for pair in zip(stream.units, batches_of(stream), strict=True)]
        units, batches = [unit for unit, _ in found], {unit.member: batch for unit, batch in found}
        if not self.has_stepped:
            self._must_match.begin(self._units, batches)
            self._units = []  # they know their trainers, whose models are to be freed as they leave
        self.has_stepped = True
        failures = self._pack.step_possible([batches[member] for member in self._pack.members])
        for unit in units:
            unit.trainer.steps += 1
        for step in failures:
            self._note_failed(step, [unit for unit in units if unit.member in step.members])

    def sync(self) -> None:
        self._pack.join(*self._resting)
        self._resting = []
        self._pack.sync()

    def end(self, unit: PackedUnit) -> None:
        # Not a method of the unit, which knows the trainer: in a circle, its model would outlive it.
        leave_states(unit.trainer, functools.partial(left_states, unit.generators))

    def train_alone(self, unit: PackedUnit) -> None:
        if unit.error is None:
            unit.train_alone()
        else:
            fail(unit.trainer, unit.error)
        self._pack.join(unit.member)

    def _retake(self) -> None:
        """Take the trainers as they are: their own code may have changed anything since the last unit."""
        for trainer in self.trainers:
            member = self._members[id(trainer)]
            if not is_member_of(member, trainer):
                self._members[id(trainer)] = replace(member_of(trainer), by_itself=member.by_itself)
            elif member.watch is not None:
                member.watch.renew()
        if any(map(has_own_hooks, self.trainers)):
            self._equal = EqualData(is_equal_tensor)
        self._pack.retake([self._members[id(trainer)] for trainer in self.trainers])

    def _note_failed(self, step: FailedStep, units: Sequence[PackedUnit]) -> None:
        """Take in that a step could not train some units."""
        if step.is_stack:
            self._must_match.note_trap(step)
        for unit in units:
            if unit.is_moved or not step.is_stack:
                unit.error = UsageError(f"{step.words}.") if step.is_stack else step.error
        self.failed += units

    def _replace(self, trainer: Any) -> Member:
        """Let a trainer go on with the optimizer that it has now; its own model has its weights."""
        former = self._members[id(trainer)]
        self._pack.forget([former])
        member = self._members[id(trainer)] = replace(
            member_of(trainer),
            generator=former.generator,
            unit_generators=former.unit_generators,
            must_match=former.must_match,
            by_itself=former.by_itself,
        )
        self._pack.join(member)
        return member


_DEFAULTS = ("evaluate", "metrics", "batches", "_metrics", "_count")
"""Methods that are called for each trainer by itself where its class has one of its own."""


def metrics_of_stacks(
    stacks: Sequence[tuple[MemberStack, Sequence[Any]]], equal: EqualData
) -> dict[int, Mapping[str, Any]]:
    """Return metrics by the ids of trainers; none of those that need their own ``evaluate``.

    Args:
        stacks: with the trainers of their members, whose losses are known to be one.
        equal: knows which data are equal.
    """
    found: dict[int, Mapping[str, Any]] = {}
    for stack, trainers in stacks:
        if _has_defaults(trainers, equal):
            found |= dict(zip(map(id, trainers), _stack_metrics(stack, trainers[0]), strict=False))
    return found


def _has_defaults(trainers: Sequence[Any], equal: EqualData) -> bool:
    kind: Any = type(trainers[0])
    if not all(map(kind.has_default, _DEFAULTS)):
        return False
    if any(name in vars(trainer) for trainer in trainers for name in (*_DEFAULTS, "loss")):
        return False
    return len({equal.number(trainer._validation_data) for trainer in trainers}) == 1 and _is_known(trainers[0])


def _is_known(trainer: Any) -> bool:
    """Return whether the data are tensors and, for the default loss, pairs with one class for each sample."""
    data = trainer._validation_data
    if not is_plain(data):
        return False
    if not type(trainer).has_default("loss"):
        return True
    parts = _pytree.tree_leaves(data)
    return isinstance(data, tuple | list) and len(parts) == 2 and not _is_floating(parts[1])


def _is_floating(part: Any) -> bool:
    return part.is_floating_point() if isinstance(part, torch.Tensor) else not np.issubdtype(part.dtype, np.integer)


def _stack_metrics(stack: MemberStack, trainer: Any) -> list[Mapping[str, Any]]:
    """Return the metrics of each member, those of ``TorchTrainer.metrics``; none where that needs each by itself."""
    count, losses, right = 0, np.zeros(len(stack.members)), np.zeros(len(stack.members), dtype=np.int64)
    has_accuracy, before = True, stack.state_of_all()
    try:
        for batch in trainer.batches(trainer._validation_data):
            found, right_answers = stack.validated(batch)
            size = length_of(batch)
            losses += np.array(found.tolist()) * size
            count += size
            has_accuracy = right_answers is not None
            right += np.array(right_answers.tolist()) if has_accuracy else 0
    except (RuntimeError, UsageError):  # a loss that does another thing in evaluation mode
        return []
    if not stack.is_as(before):  # its model has changed a buffer
        for member in stack.members:
            stack.sync(member)
    columns = {"loss": (losses / count).tolist()} | ({"accuracy": (right / count).tolist()} if has_accuracy else {})
    return [{name: column[row] for name, column in columns.items()} for row in range(len(stack.members))]

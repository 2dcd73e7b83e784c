"""Several members that are trained together; alike ones as one computation, the others beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch.utils import _pytree

from asyncsearch.errors import UsageError
from asyncsearch.events import is_of_all
from asyncsearch.packing.alike.model_refusals import conflict
from asyncsearch.packing.member import Member
from asyncsearch.packing.member_groups import MemberGroups
from asyncsearch.packing.member_stack import MemberStack
from asyncsearch.packing.stack.sample_masks import copied_batch
from asyncsearch.packing.step_failures import FailedStep


class Pack:
    """Members in training: each as if it trained alone, within rounding.

    The same members in the same order give the same bits. While they are in the pack, their state is here: ``sync``,
    ``leave`` and ``free`` write it into their own models and optimizers.
    """

    members: list[Member]
    """Those in training now, in the order in which they joined."""
    left: list[Member]
    """Those that have left, the first to leave first."""

    def __init__(self, members: Sequence[Member]) -> None:
        """Take members in.

        Args:
            members: in the state of their own models and optimizers.
        """
        self.members, self.left = [], []
        self._groups = MemberGroups()
        self._is_free = False
        self._last: list[tuple[list[Member], Any]] = []
        self._device_of: tuple[Member | None, Any] = None, None
        self.join(*members)

    def step(self, batch: Any) -> Any:
        """Train each member by one step on a batch that all share, and return their losses.

        A member whose ``batch_size`` is smaller than the batch takes its first samples. Members that have made their
        number of steps leave.

        Args:
            batch: what ``loss(model, batch)`` takes; it is moved to the device of the models, once.

        Returns:
            The loss of each member before the update, (K,), in the order of ``members`` before the step.

        Raises:
            UsageError: something in the model or the loss cannot be computed for several members at once.
        """
        return self._step([self._moved(batch)])

    def step_each(self, batches: Sequence[Any]) -> Any:
        """Train each member by one step on a batch of its own, as ``step`` does.

        Smaller batches are padded to the largest one, and the padding does not count.
        """
        if len(batches) != len(self.members):
            raise UsageError(
                f"step_each takes one batch for each of the {len(self.members)} members; it was given {len(batches)}."
            )
        if all(batch is batches[0] for batch in batches):
            return self.step(batches[0])
        return self._step([self._moved(batch) for batch in batches])

    def join(self, *members: Member) -> None:
        """Take members in, in the state of their own models and optimizers.

        Raises:
            UsageError: a member is in a pack already, or shares something with another one.
        """
        self._require_open()
        if not members:  # to look for what members share takes longer than some steps
            return
        for member in members:
            if member in self.members:
                raise UsageError("A member is in this pack already: let it leave before it joins again.")
        words = conflict([*self.members, *members])
        if words is not None:
            raise UsageError(f"These members cannot be in one pack: {words}.")
        self._groups.place(members)
        self.members += members

    def leave(self, member: Member | int) -> Member:
        """Let a member out, its state in its own model and optimizer, and return it."""
        found = self._member(member)
        self._require_open()
        self._let_out([found])
        return found

    def leave_together(self, members: Sequence[Member]) -> None:
        """Let several members out at once."""
        self._require_open()
        self._let_out([self._member(member) for member in members])

    def forget(self, members: Sequence[Member], *, is_between: bool = False) -> None:
        """Let several members out whose state in the pack does not count.

        Args:
            members: they leave; their own models and optimizers stay as they are.
            is_between: whether the own models and optimizers of all others have their state.
        """
        self._groups.remove(members, is_written=False, is_between=is_between)
        self.members = [one for one in self.members if one not in members]

    def stacks(self) -> list[MemberStack]:
        """Return the groups that train as one computation."""
        return self._groups.stacks()

    def sync(self) -> None:
        """Write the state of all members into their own models and optimizers; they stay."""
        self._groups.sync()

    def member_state(self, member: Member | int) -> dict[str, Any]:
        """Return a copy of the state of a member, as ``TorchTrainer`` saves an unpacked one.

        Returns:
            ``model``, ``optimizer`` and ``scaler`` are their ``state_dict()``, the last one empty without a scaler;
            ``buffers`` has the buffers that the first one omits.
        """
        found = self._member(member)
        self._groups.of(found).sync(found)
        model = found.model.state_dict()
        buffers = {name: buffer for name, buffer in found.model.named_buffers() if name not in model}
        scaler = {} if found.scaler is None else found.scaler.state_dict()
        state = {"model": model, "buffers": buffers, "optimizer": found.optimizer.state_dict(), "scaler": scaler}
        copied: dict[str, Any] = _pytree.tree_map(_copied, state)
        return copied

    def load_member_state(self, member: Member | int, state: Mapping[str, Any]) -> None:
        """Give a member a state that ``member_state`` returned, or that a checkpoint of ``TorchTrainer`` holds."""
        found = self._member(member)
        group = self._groups.of(found)
        group.sync(found)
        found.model.load_state_dict(state["model"])
        buffers = dict(found.model.named_buffers())
        for name, value in state["buffers"].items():
            buffers[name].copy_(value)
        found.optimizer.load_state_dict(state["optimizer"])
        if found.scaler is not None:
            found.scaler.load_state_dict(state["scaler"])
        group.load(found)

    def is_in_stack(self, member: Member) -> bool:
        """Return whether the state of a member is elsewhere than in its own model and optimizer."""
        return isinstance(self._groups.of(member), MemberStack)

    def is_current(self, member: Member) -> bool:
        """Return whether a member's own model and optimizer have the structure with which it joined."""
        return self._groups.of(member).is_current(member)

    def retake(self, members: Sequence[Member]) -> None:
        """Take members in the place of all present ones, in the state of their own models and optimizers.

        Raises:
            UsageError: they cannot be in one pack.
        """
        is_other = list(members) != self.members
        if is_other or not self._groups.retake():
            words = conflict(members)
            if words is not None:
                raise UsageError(f"These members cannot be in one pack: {words}.")
            self._groups.clear()
            self._groups.place(members)
            self.members = list(members)

    def regroup(self) -> None:
        """See again who is like whom, where something has changed since members joined."""
        self.sync()
        self._groups.clear()
        self._groups.place(self.members)

    def diverged(self) -> list[Member]:
        """Return the members whose last loss is not a finite number. They harm no other, and stay until they leave."""
        infinite = {
            member
            for members, losses in self._last
            for member, is_finite in zip(members, losses.isfinite().tolist(), strict=True)
            if not is_finite
        }
        return [member for member in self.members if member in infinite]

    def unfit(self) -> dict[Member, str]:
        """Return the members that train by themselves whomever they are with, and why."""
        return self._groups.unfit(self.members)

    def apart(self) -> str:
        """Return why not all members train as one computation, of one of them; empty if they do."""
        return self._groups.apart(self.members)

    def describe(self) -> list[str]:
        """Return sentences about who trains as one computation, and why the rest does not."""
        return self._groups.describe(self.members)

    def free(self) -> None:
        """Let all members out; more than once does no harm."""
        if not self._is_free:
            self.sync()
            self.left += self.members
            self._groups.clear()
            self.members, self._is_free = [], True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()

    def step_possible(self, batches: Sequence[Any]) -> list[FailedStep]:
        """Train as ``step_each`` does each member for which that is possible.

        Returns:
            The groups for which it is not; their members have left the pack.

        Raises:
            Exception: one that concerns all members, such as too little memory.
        """
        failed: list[FailedStep] = []
        is_one = all(batch is batches[0] for batch in batches)
        self._step([self._moved(batch) for batch in (batches[:1] if is_one else batches)], failed)
        return failed

    def _step(self, batches: list[Any], failed: list[FailedStep] | None = None) -> Any:
        self._require_open()
        if not self.members:
            raise UsageError("The pack has no member: let some join, or make a new pack.")
        found: list[tuple[list[Member], Any]] = []
        groups = list(self._groups)
        for group, stream in self._groups.on_streams(self._device()):
            try:
                with stream:
                    chosen = self._chosen(batches, group.members)
                    if group is not groups[-1]:  # it may change the batch in place
                        copies = {id(batch): copied_batch(batch) for batch in chosen}
                        chosen = [copies[id(batch)] for batch in chosen]
                    found.append((group.members, group.step(chosen)))
            except Exception as error:
                if failed is None or is_of_all(error):
                    raise
                failed.append(FailedStep(group.members, error, is_stack=isinstance(group, MemberStack)))
        self._last = found
        lost = [member for step in failed or () for member in step.members]
        self._groups.drop(lost)
        self.members = [one for one in self.members if one not in lost]
        result = self._in_order(found)
        self._let_out([one for one in self.members if one.steps is not None and one.taken >= one.steps])
        return result

    def _chosen(self, batches: list[Any], members: list[Member]) -> list[Any]:
        """Return the batches of some members: one where all of them have the same."""
        if len(batches) == 1:
            return batches
        if members != self.members:
            places = {member: place for place, member in enumerate(self.members)}
            batches = [batches[places[member]] for member in members]
        return batches[:1] if all(batch is batches[0] for batch in batches) else batches

    def _in_order(self, found: list[tuple[list[Member], Any]]) -> Any:
        if not found:
            return torch.empty(0)
        if len(found) == 1 and found[0][0] == self.members:
            return found[0][1]
        losses = {member: loss for members, row in found for member, loss in zip(members, row.unbind(), strict=True)}
        return torch.stack([losses[member] for member in self.members])

    def _let_out(self, members: list[Member]) -> None:
        if not members:
            return
        self._groups.remove(members)
        self.members = [one for one in self.members if one not in members]
        self.left += members

    def _member(self, member: Member | int) -> Member:
        if isinstance(member, int):
            if not 0 <= member < len(self.members):
                raise UsageError(f"There is no member {member}: the pack has members 0 to {len(self.members) - 1}.")
            return self.members[member]
        if member not in self.members:
            raise UsageError("This member is not in the pack: it never joined, or has left.")
        return member

    def _moved(self, batch: Any) -> Any:
        self._require_open()
        device = self._device()
        if device is None or device.type == "cpu":
            return batch
        return _pytree.tree_map(lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, batch)

    def _device(self) -> Any:
        """Return the device of the first parameter, which is asked twice a step: a model takes long to find it."""
        first = self.members[0] if self.members else None
        if first is not self._device_of[0]:
            found = None if first is None else next((p.device for p in first.model.parameters()), None)
            self._device_of = first, found
        return self._device_of[1]

    def _require_open(self) -> None:
        if self._is_free:
            raise UsageError("The pack is freed: make a new one of its members, which have their state again.")


def _copied(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf

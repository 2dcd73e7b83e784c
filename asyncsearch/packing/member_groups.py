"""Which members of a pack train as one computation: groups of alike ones, and each of the others by itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from asyncsearch.packing.alike.member_marks import MemberMarks
from asyncsearch.packing.alike.model_refusals import refusal
from asyncsearch.packing.alike.structure import difference_between
from asyncsearch.packing.member import Member, autocast_of, cross_entropy
from asyncsearch.packing.member_stack import MemberStack
from asyncsearch.packing.stack.sample_masks import first_samples
from asyncsearch.packing.unit_generators import drawing_from


class LoneMember:
    """Has the interface of a ``MemberStack`` with one member; its state is in its own model and optimizer."""

    def __init__(self, member: Member) -> None:
        """Begin in the state of the member, which stays in its own model and optimizer."""
        self.members = [member]
        self._marks = MemberMarks(member)
        self._is_plain = member.loss is cross_entropy and all(
            type(module).__module__.startswith("torch.nn.modules.") for module in member.model.modules()
        )
        """Whether nothing in a step can draw from a generator outside torch."""

    def sync(self, member: Member) -> None:
        """Nothing is elsewhere."""

    def is_current(self, member: Member) -> bool:
        """Return whether the member has the structure with which it joined."""
        return self._marks.is_current()

    def retake(self) -> bool:
        """Nothing is elsewhere; False if it is perhaps like others now."""
        return self._marks.is_current()

    def load(self, member: Member) -> None:
        """Nothing is elsewhere."""

    def step(self, batches: Sequence[Any]) -> Any:
        """Train by one step, and return the loss, (1,)."""
        (member,) = self.members
        batch = batches[0] if member.batch_size is None else first_samples(batches[0], member.batch_size)
        member.optimizer.zero_grad()
        own = member.unit_generators
        with drawing_from(member.generator) if own is None or self._is_plain else own.in_use():
            loss = self._backward(batch)
        if member.clip_grad_norm is not None:
            if member.scaler is not None:
                member.scaler.unscale_(member.optimizer)
            parameters = [parameter for group in member.optimizer.param_groups for parameter in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, member.clip_grad_norm)
        if member.scaler is None:
            member.optimizer.step()
        else:
            member.scaler.step(member.optimizer)
            member.scaler.update()
        member.taken += 1
        return loss.detach()[None]

    def _backward(self, batch: Any) -> Any:
        """Add the gradients of a batch to those of the model, and return its loss."""
        (member,) = self.members
        with autocast_of(member):
            loss = member.loss(member.model, batch)
        (loss if member.scaler is None else member.scaler.scale(loss)).backward()
        return loss


Group = MemberStack | LoneMember


class MemberGroups:
    """The groups of one pack, which hold the state of its members."""

    def __init__(self) -> None:
        self._groups: list[Group] = []
        self._streams: dict[Group, Any] = {}
        self._unfit: dict[Member, str] = {}
        self._unlike: dict[Member, str] = {}

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups)

    def of(self, member: Member) -> Group:
        """Return the group of a member."""
        return next(group for group in self._groups if member in group.members)

    def stacks(self) -> list[MemberStack]:
        """Return the groups that train as one computation."""
        return [group for group in self._groups if isinstance(group, MemberStack)]

    def place(self, members: Sequence[Member]) -> None:
        """Put each member with those that it is like, and alone if there are none."""
        clusters: list[tuple[Group | None, list[Member]]] = [(group, []) for group in self._groups]
        for member in members:
            own = refusal(member)
            if own is not None:
                self._unfit[member] = own
            joined = None if own is not None else self._cluster_for(member, clusters)
            clusters.append((None, [member])) if joined is None else joined.append(member)
        self._groups = [
            group if not new and group is not None else self._grouped(group, new) for group, new in clusters
        ]

    def remove(self, members: Sequence[Member], *, is_written: bool = True, is_between: bool = False) -> None:
        """Let members out.

        Args:
            members: they leave.
            is_written: whether their state is written into their own models and optimizers.
            is_between: whether the own models and optimizers of those that stay have their state, too.
        """
        groups: list[Group] = []
        for group in self._groups:
            rest = [one for one in group.members if one not in members]
            if len(rest) == len(group.members):
                groups.append(group)
            elif isinstance(group, MemberStack) and len(rest) > 1:
                group.leave([one for one in group.members if one in members], is_written=is_written)
                groups.append(group)
            else:  # one member alone is faster without a stack
                for one in group.members:
                    if is_written if one in members else not is_between:
                        group.sync(one)
                groups += map(LoneMember, rest)
        self._groups = groups

    def drop(self, members: Sequence[Member]) -> None:
        """Let all members of some groups out without writing their state."""
        self._groups = [group for group in self._groups if group.members[0] not in members]

    def retake(self) -> bool:
        """Take the state of all members from their own models and optimizers; False if some may be like others now."""
        return all(group.retake() for group in self._groups)

    def clear(self) -> None:
        """Forget all groups, and who is like whom."""
        self._groups, self._unfit, self._unlike = [], {}, {}

    def sync(self) -> None:
        """Write the state of all members into their own models and optimizers."""
        for group in self._groups:
            for member in group.members:
                group.sync(member)

    def on_streams(self, device: Any) -> Iterator[tuple[Group, contextlib.AbstractContextManager[Any]]]:
        """Yield each group with the stream of the device that computes it: unlike groups may overlap on CUDA."""
        if device is None or device.type != "cuda" or len(self._groups) == 1:
            for group in self._groups:
                yield group, contextlib.nullcontext()
            return
        # What a stream has freed is kept for this stream: with new ones, each step would take new memory.
        known = self._streams
        self._streams = {group: known.get(group) or torch.cuda.Stream(device) for group in self._groups}
        current = torch.cuda.current_stream(device)
        try:
            for group, stream in self._streams.items():
                stream.wait_stream(current)
                yield group, torch.cuda.stream(stream)
        finally:  # after an error, too, what the others have computed is read
            for stream in self._streams.values():
                current.wait_stream(stream)

    def unfit(self, members: Sequence[Member]) -> dict[Member, str]:
        """Return which members train by themselves whomever they are with, and why."""
        return {member: self._unfit[member] for member in members if member in self._unfit}

    def apart(self, members: Sequence[Member]) -> str:
        """Return why not all members train as one computation, of one of them; empty if they do."""
        if len(self._groups) < 2:
            return ""
        found = [self._unfit.get(member) or self._unlike.get(member, "") for member in members]
        return next(filter(None, found), "no member is like another one")

    def describe(self, members: Sequence[Member]) -> list[str]:
        """Return sentences about who trains as one computation, and why the rest does not."""
        lines = []
        for group in self._groups:
            numbers = [members.index(member) for member in group.members]
            if isinstance(group, MemberStack):
                lines.append(f"Members {', '.join(map(str, numbers))} train as one computation.")
                continue
            first = group.members[0]
            reason = self._unfit.get(first) or self._unlike.get(first) or "no other member is like it"
            lines.append(f"Member {numbers[0]} trains by itself and shares only the input: {reason}.")
        return lines

    def _cluster_for(self, member: Member, clusters: list[tuple[Group | None, list[Member]]]) -> list[Member] | None:
        for group, new in clusters:
            first = new[0] if group is None else group.members[0]
            if first not in self._unfit:
                words = difference_between(first, member)
                if words is None:
                    return new
                self._unlike.setdefault(member, words)
        return None

    @staticmethod
    def _grouped(group: Group | None, members: list[Member]) -> Group:
        """Return a group with more members; None for a group of these alone."""
        if isinstance(group, MemberStack):
            group.join(members)
            return group
        every = [*(group.members if group is not None else []), *members]
        return LoneMember(every[0]) if len(every) == 1 else MemberStack(every)

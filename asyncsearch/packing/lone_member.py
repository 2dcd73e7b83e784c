"""A member that no other one is like: it shares the input of the pack, and trains as it would alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from asyncsearch.packing.alike.member_marks import MemberMarks
from asyncsearch.packing.member import Member, cross_entropy
from asyncsearch.packing.stack.mixed_precision import autocast_of
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
        """Nothing is elsewhere; False: it is perhaps like others now."""
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

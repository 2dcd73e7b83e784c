"""Members trained together, and the same ones trained alone, as torch does it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch

from asyncsearch.packing.member import Member

Batches = Callable[[int], Any]
"""The batch of a step, or a list with one for each member."""


def clone(member: Member) -> Member:
    """Return an independent member in the same state."""
    model, optimizer = copy.deepcopy((member.model, member.optimizer))
    generator = None
    if member.generator is not None:
        generator = torch.Generator()
        generator.set_state(member.generator.get_state())
    return Member(
        model, optimizer, member.loss, member.sample_losses, generator, member.steps, member.batch_size,
        member.clip_grad_norm, dict(member.hp), member.taken, member.precision, copy.deepcopy(member.scaler),
    )  # fmt: skip


def step_alone(member: Member, batch: Any) -> float:
    """Make one step as a training loop in torch does."""
    if member.generator is not None:
        torch.set_rng_state(member.generator.get_state())
    member.optimizer.zero_grad()
    scaler = member.scaler or torch.amp.GradScaler("cpu", enabled=False)
    kind = getattr(torch, member.precision or "bfloat16")
    with torch.autocast("cpu", dtype=kind, enabled=member.precision is not None):
        loss = member.loss(member.model, batch)
    scaler.scale(loss).backward()
    if member.clip_grad_norm is not None:
        scaler.unscale_(member.optimizer)
        parameters = [p for group in member.optimizer.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(parameters, member.clip_grad_norm)
    scaler.step(member.optimizer)
    scaler.update()
    if member.generator is not None:
        member.generator.set_state(torch.get_rng_state())
    member.taken += 1
    return float(loss.detach())


def difference(one: Any, other: Any) -> float:
    """Return the largest difference between two states; infinite where their structures differ."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        if one.shape != other.shape or one.dtype != other.dtype:
            return float("inf")
        if torch.equal(one.isnan(), other.isnan()):
            gaps = (one.detach().double() - other.detach().double()).nan_to_num(0.0).abs()
            return float(gaps.max()) if gaps.numel() else 0.0
        return float("inf")
    if isinstance(one, dict) and isinstance(other, dict) and list(one) == list(other):
        return max((difference(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list | tuple) and type(one) is type(other) and len(one) == len(other):
        return max((difference(a, b) for a, b in zip(one, other, strict=True)), default=0.0)
    return 0.0 if one == other else float("inf")


def state_of(member: Member) -> Any:
    buffers = dict(member.model.named_buffers())
    drawn = None if member.generator is None else member.generator.get_state()
    return {"model": dict(member.model.state_dict()), "buffers": buffers, "drawn": drawn} | {
        "optimizer": member.optimizer.state_dict(), "taken": member.taken,
        "scaler": {} if member.scaler is None else member.scaler.state_dict(),
    }  # fmt: skip


def largest(pairs: Sequence[tuple[Member, Member]]) -> float:
    return max(difference(state_of(one), state_of(other)) for one, other in pairs)

"""Mixed precision of members: the context of a forward pass, and its refusals."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from asyncsearch.packing.member import Member


def autocast_of(member: Member) -> contextlib.AbstractContextManager[Any]:
    """Return the context in which the loss of a member is computed in training; a step is outside of it."""
    if member.precision is None:
        return contextlib.nullcontext()
    kind = next(member.model.parameters()).device.type
    context: contextlib.AbstractContextManager[Any] = torch.autocast(kind, dtype=getattr(torch, member.precision))
    return context


def has_scaler(member: Member) -> bool:
    """Return whether the loss of a member is multiplied by a scale."""
    return member.scaler is not None and bool(member.scaler.is_enabled())


def precision_refusals(member: Member) -> Iterator[str]:
    """Yield why the mixed precision of a member cannot be that of a pack."""
    if not has_scaler(member):
        return
    kind = type(member.scaler)
    if kind is not torch.amp.GradScaler:
        yield f"its scaler is a {kind.__module__}.{kind.__qualname__}, whose rule is its own: use torch.amp.GradScaler"
    halves = [name for name, parameter in member.model.named_parameters() if parameter.dtype == torch.float16]
    if halves:
        yield f"parameter {halves[0]!r} is float16, whose gradient torch does not unscale: let it be float32"


def precision_differences(one: Member, other: Member) -> Iterator[str]:
    """Yield how the mixed precision of two members differs; the numbers of their scalers may."""
    if one.precision != other.precision:
        yield f"precision is {one.precision} in one and {other.precision} in the other"
    if has_scaler(one) != has_scaler(other):
        yield "only one of them has a gradient scaler"

"""Whether trainers can be packed: what a pack would not call, and what differs where it may not."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from asyncsearch.packing.alike.refusals import conflict
from asyncsearch.packing.member import Member, cross_entropy
from asyncsearch.trainers.torch.packs.loss_reads import LossWatch, has_default_loss, reads_of

_OWN_METHODS = ("step", "train", "autocast", "_train_batch", "_fetched", "_batch", "_moved")
"""What a pack does itself: an overridden one would not be called as its author expects."""
_HOOKS = ("update", "evaluate", "metrics", "save", "load")
_INSTEAD = {"autocast": "set precision to 'float16' or 'bfloat16', or enter torch.autocast in loss()"}
"""What to do in place of some of them."""


def why_not_together(trainers: Sequence[Any]) -> str | None:
    """Return why trainers cannot be in one pack, alike or not, and the line to change; None if they can.

    Args:
        trainers: set up, and loaded.
    """
    first = trainers[0]
    for trainer in trainers:
        if type(trainer) is not type(first):
            return f"{type(first).__name__} and {type(trainer).__name__} are different classes"
    return _class_refusal(first) or conflict([member_of(trainer) for trainer in trainers])


def _class_refusal(trainer: Any) -> str | None:
    kind = type(trainer)
    for name in _OWN_METHODS:
        if not kind.has_default(name):
            code = inspect.unwrap(getattr(kind, name)).__code__
            where = f"{Path(code.co_filename).name}, line {code.co_firstlineno}"
            instead = _INSTEAD.get(name, "put it into loss()")
            return f"{kind.__name__}.{name} ({where}) is its own, and a pack has one of its own: {instead}"
    if trainer.data_workers:
        return f"data_workers={trainer.data_workers} of {kind.__name__}: a pack fetches its data itself; leave it out"
    return None


def has_own_hooks(trainer: Any) -> bool:
    """Return whether code of the user runs between the units of a trainer, other than that of its model and loss."""
    return any(not type(trainer).has_default(name) or name in vars(trainer) for name in _HOOKS)


def is_member_of(member: Member, trainer: Any) -> bool:
    """Return whether a member is what ``member_of`` would return for a trainer now."""
    is_loss = member.loss is cross_entropy if has_default_loss(trainer) else member.loss == trainer.loss
    return (
        is_loss
        and member.model is trainer.net
        and member.optimizer is trainer.opt
        and member.precision == trainer.precision
        and member.scaler is (trainer.scaler if trainer.scaler.is_enabled() else None)
        and member.sample_losses == getattr(trainer, "sample_losses", None)
    )


def member_of(trainer: Any) -> Member:
    """Return a trainer's model and optimizer as a member of a pack."""
    is_default = has_default_loss(trainer)
    return Member(
        trainer.net,
        trainer.opt,
        cross_entropy if is_default else trainer.loss,
        getattr(trainer, "sample_losses", None),
        torch.Generator(trainer._device),
        clip_grad_norm=trainer._largest_norm(),
        precision=trainer.precision,
        scaler=trainer.scaler if trainer.scaler.is_enabled() else None,
        hp=trainer.hp,
        keeps_grads=has_own_hooks(trainer),
        watch=None if is_default else LossWatch(trainer, reads_of(type(trainer))),
    )

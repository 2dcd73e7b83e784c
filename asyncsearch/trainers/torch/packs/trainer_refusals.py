"""Whether trainers for PyTorch can be in one pack, and why not; and each of them as a member of it.

Asked in this order: the study (``study.asked.packing_option``: the trainable, the scheduler), this module (the class,
and what trainers share), ``packing.alike.model_refusals`` (the model and the optimizer of each), ``must_match`` (loss
and first batch of a unit) and ``packing.probe`` (one step of the stack). The first two refuse the whole pack. By the
others a trainer trains sequentially in its pack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from asyncsearch.packing.alike.model_refusals import conflict
from asyncsearch.packing.member import Member, cross_entropy
from asyncsearch.trainers.packs.pack_training import class_refusal
from asyncsearch.trainers.torch.packs.loss_reads import LossWatch, has_default_loss, reads_of

_INSTEAD = {
    **dict.fromkeys(("step", "train", "_train_batch", "_fetched", "_batch", "_moved"), "put it into loss()"),
    "autocast": "set precision to 'float16' or 'bfloat16', or enter torch.autocast in loss()",
}
"""Methods that a pack does itself -> the replacement of one's own."""
_HOOKS = ("update", "evaluate", "metrics", "save", "load")


def why_not_together(trainers: Sequence[Any]) -> str:
    """Return why trainers cannot be in one pack, alike or not, and the line to change; empty if they can.

    Args:
        trainers: set up, and loaded.
    """
    words = class_refusal(trainers, _INSTEAD)
    workers, name = trainers[0].data_workers, type(trainers[0]).__name__
    if not words and workers:
        words = f"data_workers={workers} of {name}: a pack fetches its data itself; leave it out"
    return words or conflict([member_of(trainer) for trainer in trainers]) or ""


def has_own_hooks(trainer: Any) -> bool:
    """Return whether code of the user runs between the units of a trainer, other than that of its model and loss."""
    return any(not type(trainer).has_default(name) or name in vars(trainer) for name in _HOOKS)


def is_member_of(member: Member, trainer: Any) -> bool:
    """Return whether a member is the one that ``member_of`` would return for a trainer now."""
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

"""Whether trainers can be packed: what a pack would not call, and what differs where it may not."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from asyncsearch.packing.member import Member, cross_entropy
from asyncsearch.packing.probe import why_not
from asyncsearch.trainers.torch import TorchTrainer

_OWN_METHODS = ("step", "train", "autocast", "_train_batch", "_fetched", "_batch", "_moved")
"""What a pack does itself: an overridden one would not be called as its author expects."""
_INSTEAD = {"autocast": "set precision to 'float16' or 'bfloat16', or enter torch.autocast in loss()"}
"""What to do in place of some of them."""
_MOST_TRIED = 4
"""Members of which copies are trained: more of them would find nothing else."""


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
    members = [member_of(trainer) for trainer in trainers]
    words = why_not(members)
    if words is not None or not probe:
        return words
    batch = first._moved(first._batch(first._train_data, np.arange(min(first._size, first.batch_size))))
    return _loss_refusal(trainers, batch) or why_not(members[:_MOST_TRIED], batch)


def _class_refusal(trainer: Any) -> str | None:
    kind = type(trainer)
    for name in _OWN_METHODS:
        method = getattr(kind, name)
        if method is not getattr(TorchTrainer, name):
            code = inspect.unwrap(method).__code__
            where = f"{Path(code.co_filename).name}, line {code.co_firstlineno}"
            instead = _INSTEAD.get(name, "put it into loss()")
            return f"{kind.__name__}.{name} ({where}) is its own, and a pack has one of its own: {instead}"
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


def member_of(trainer: Any) -> Member:
    """Return a trainer's model and optimizer as a member of a pack."""
    is_default = type(trainer).loss is TorchTrainer.loss
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
    )

"""A unit of each of several ``TorchTrainer``, packed where that is possible; else one after another, in words why."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.packing.torch_units import PackedTrainers, why_not_together

_probed: dict[type, str | None] = {}
"""Trainer classes of which copies were trained in this process, with what keeps them from being packed."""


def train_pack(trainers: Sequence[Any]) -> None:
    """Train one unit of each trainer; one that was not among those of the last call joins, one that was leaves."""
    pack = _pack_of(trainers)
    if pack is None:
        for trainer in trainers:
            trainer.train()
        return
    for trainer in [one for one in pack.trainers if not _is_among(one, trainers)]:
        pack.leave(trainer)
    pack.join(*(one for one in trainers if not _is_among(one, pack.trainers)))
    pack.train()


def _pack_of(trainers: Sequence[Any]) -> PackedTrainers | None:
    """Return the pack that the first trainer is in, or a new one; None: they cannot be packed."""
    first = trainers[0]
    if not hasattr(first, "_pack"):
        pack = _made(trainers)
        for trainer in trainers:
            trainer._pack = pack
    found: PackedTrainers | None = first._pack
    return found


def _made(trainers: Sequence[Any]) -> PackedTrainers | None:
    kind = type(trainers[0])
    if kind not in _probed:
        _probed[kind] = why_not_together(trainers, probe=True)
        if _probed[kind] is not None:
            sys.stderr.write(f"asyncsearch: these trainings are not packed: {_probed[kind]}.\n")
    if _probed[kind] is not None:
        return None
    try:
        return PackedTrainers(trainers)
    except UsageError as error:
        sys.stderr.write(f"asyncsearch: {error}\n")
        return None


def _is_among(trainer: Any, others: Sequence[Any]) -> bool:
    return any(other is trainer for other in others)

"""A unit of each of several ``TorchTrainer``, packed where that is possible; else one after another, in words why."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.events import PackCompiled
from asyncsearch.packing.torch_units import PackedTrainers
from asyncsearch.packing.trainer_refusals import why_not_together

_refused: dict[type, str] = {}
"""Trainer classes that were last trained one after another, with the reason."""
_probed: dict[type, str | None] = {}
"""Trainer classes of which copies were trained in this process, with what keeps them from being packed."""

_compiled: dict[type, PackCompiled | None] = {}
"""Trainer classes that have trained together in this process, with the compiled step that their last pack used."""


def train_pack(trainers: Sequence[Any]) -> None:
    """Train one unit of each trainer; one that was not among those of the last call joins, one that was leaves."""
    pack = _pack_of(trainers)
    if pack is None:
        for trainer in trainers:
            trainer.train()
        return
    gone = [one for one in pack.trainers if not _is_among(one, trainers)]
    if gone:
        pack.leave(*gone)
        for trainer in gone:
            del trainer._pack
    new = [one for one in trainers if not _is_among(one, pack.trainers)]
    pack.join(*new)
    for trainer in new:
        trainer._pack = pack
    pack.train()
    _compiled[type(trainers[0])] = pack.compiled()


def refusal_of(kind: type) -> str:
    """Return why trainers of a class are not packed in this process; empty: they are, or none was trained."""
    return _refused.get(kind) or ""


def compiled_of(kind: type) -> PackCompiled | None:
    """Return the compiled step that the last pack of a class used; None: it used none."""
    return _compiled.get(kind)


def let_out(trainer: Any, pack: PackedTrainers | None = None) -> None:
    """Let a trainer out of any pack but this one: what that has of its state would be older than what it trains now."""
    former = getattr(trainer, "_pack", None)
    if former is not None and former is not pack:
        if _is_among(trainer, former.trainers):
            former.leave(trainer)
        del trainer._pack


def evaluate_pack(trainers: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Return the metrics of each trainer, all of whom ``train_pack`` has just trained."""
    found: dict[int, Mapping[str, Any]] = {}
    for trainer in trainers:
        pack: PackedTrainers | None = getattr(trainer, "_pack", None)
        if id(trainer) in found:
            continue
        if pack is None:
            found[id(trainer)] = trainer.evaluate()
        else:
            found |= {id(one): metrics for one, metrics in zip(pack.trainers, pack.evaluate(), strict=True)}
    return [found[id(trainer)] for trainer in trainers]


def _pack_of(trainers: Sequence[Any]) -> PackedTrainers | None:
    """Return the pack that the first trainer is in, or a new one; None: they cannot be packed."""
    first = trainers[0]
    if not hasattr(first, "_pack"):
        for trainer in trainers:
            let_out(trainer)
        first._pack = _made(trainers)
    found: PackedTrainers | None = first._pack
    for trainer in trainers:
        let_out(trainer, found)
        trainer._pack = found
    return found


def _made(trainers: Sequence[Any]) -> PackedTrainers | None:
    kind = type(trainers[0])
    if kind not in _probed:
        _probed[kind] = why_not_together(trainers, probe=True)
        if _probed[kind] is not None:
            sys.stderr.write(f"asyncsearch: these trainings are not packed: {_probed[kind]}.\n")
    _refused[kind] = _probed[kind] or ""
    if _probed[kind] is not None:
        return None
    try:
        return PackedTrainers(trainers)
    except UsageError as error:
        _refused[kind] = str(error)
        sys.stderr.write(f"asyncsearch: {error}\n")
        return None


def _is_among(trainer: Any, others: Sequence[Any]) -> bool:
    return any(other is trainer for other in others)

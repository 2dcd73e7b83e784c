"""A unit of each of several ``TorchTrainer``, packed where that is possible; else one after another, in words why."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.trainers.torch.packs.refusals import why_not_together
from asyncsearch.trainers.torch.packs.units import PackedTrainers
from asyncsearch.trainers.unit_errors import evaluated, train_or_fail

_refused: dict[type, str] = {}
"""Trainer classes that were last trained one after another, with the reason."""
_in_turn: dict[type, str] = {}
"""Trainer classes that have trained together in this process, with why not all of their last pack were alike."""
_printed: set[tuple[type, str]] = set()
"""What was said in this process."""


def train_pack(trainers: Sequence[Any]) -> None:
    """Train one unit of each trainer; one that was not among those of the last call joins, one that was leaves."""
    pack = _pack_of(trainers)
    if pack is None:
        _train_in_turn(trainers)
        return
    try:
        _train(pack, trainers)
    except UsageError as error:
        if pack.has_stepped:
            raise
        _refuse(type(trainers[0]), str(error).rstrip("."))
        for trainer in trainers:  # whose own models and optimizers are as before the unit
            trainer._pack = None
        _train_in_turn(trainers)


def _train(pack: PackedTrainers, trainers: Sequence[Any]) -> None:
    pack.has_stepped = False
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
    _note_refusals(pack)
    kind = type(trainers[0])
    _in_turn[kind] = "" if _refused[kind] else pack.apart()


def _train_in_turn(trainers: Sequence[Any]) -> None:
    """Train a unit of each by itself; an error is that of its trainer, so its ``evaluate`` raises it."""
    for trainer in trainers:
        train_or_fail(trainer)


def refusal_of(kind: type) -> str:
    """Return why trainers of a class are not packed in this process; empty: they are, or none was trained."""
    return _refused.get(kind) or ""


def in_turn_of(kind: type) -> str:
    """Return why trainers of a class stepped in turn in the last pack of this process; empty: none did."""
    return _in_turn.get(kind, "")


def let_out(trainer: Any, pack: PackedTrainers | None = None) -> None:
    """Let a trainer out of any pack but this one: what that has of its state would be older than what it trains now."""
    former = getattr(trainer, "_pack", None)
    if former is not None and former is not pack:
        if _is_among(trainer, former.trainers):
            former.leave(trainer)
        del trainer._pack


def evaluate_pack(trainers: Sequence[Any]) -> list[Mapping[str, Any] | Exception]:
    """Return the metrics of each trainer, all of whom ``train_pack`` has just trained, or its error."""
    found: dict[int, Mapping[str, Any] | Exception] = {}
    for trainer in trainers:
        pack: PackedTrainers | None = getattr(trainer, "_pack", None)
        if id(trainer) in found:
            continue
        if pack is None:
            found[id(trainer)] = evaluated(trainer)
        else:
            found |= {id(one): metrics for one, metrics in zip(pack.trainers, pack.evaluated(), strict=True)}
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
    words = why_not_together(trainers)
    try:
        if words is None:
            return PackedTrainers(trainers)
    except UsageError as error:
        words = str(error).rstrip(".")
    _refuse(type(trainers[0]), words)
    return None


def _refuse(kind: type, words: str) -> None:
    _refused[kind], _in_turn[kind] = words, ""
    _say(kind, f"these trainings are not packed: {words}.")


def _note_refusals(pack: PackedTrainers) -> None:
    """Say who trains by itself. It is a refusal where nobody could train with any other, and not where two differ."""
    kind, unfit = type(pack.trainers[0]), pack.unfit()
    if len(unfit) == len(pack.trainers):
        _refuse(kind, unfit[0][1])
        return
    _refused[kind] = ""
    for trainer, words in unfit:
        _say(kind, f"{trainer.trial.name} trains by itself in its pack: {words}.", words)


def _say(kind: type, text: str, words: str = "") -> None:
    """Say it once in a process; ``words``: what is new in it."""
    if (kind, words or text) not in _printed:
        _printed.add((kind, words or text))
        sys.stderr.write(f"asyncsearch: {text}\n")


def _is_among(trainer: Any, others: Sequence[Any]) -> bool:
    return any(other is trainer for other in others)

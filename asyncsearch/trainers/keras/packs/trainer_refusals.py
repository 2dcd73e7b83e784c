"""Trainers that cannot be in one pack: their own methods would not be called, or they share variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asyncsearch.trainers.keras.packs.must_match import CALLED_ALONE
from asyncsearch.trainers.packs.pack_training import class_refusal, place_of

_INSTEAD = dict.fromkeys(
    ("train", "_train_batch", "_fetched", "_batch", "_follow", "_put", "_build", "_compile"), "put it into the model"
)
"""Methods that a pack does itself -> the replacement of one's own."""


def why_not_together(trainers: Sequence[Any]) -> str:
    """Return why trainers train one after another, and the line to change; empty if that is not known yet."""
    first = trainers[0]
    if words := class_refusal(trainers, _INSTEAD):
        return words
    if first.run_eagerly:
        return f"run_eagerly=True of {type(first).__name__} traces nothing: leave it out"
    for trainer in trainers:
        for name in CALLED_ALONE:
            method = vars(trainer.net).get(name) or getattr(type(trainer.net), name)
            if not method.__module__.startswith("keras."):
                where = f"{type(trainer.net).__name__}.{name} ({place_of(method)})"
                return f"{where} is its own, and a pack does not call it: put it into layers, or into train_step"
    return _shared(trainers)


def _shared(trainers: Sequence[Any]) -> str:
    owners: dict[int, Any] = {}
    for trainer in trainers:
        for variable in (*trainer.net.variables, *trainer.opt.variables):
            if owners.setdefault(id(variable), trainer) is not trainer:
                return f"two models share variable {variable.path}: build each in model(), and each optimizer too"
    return ""

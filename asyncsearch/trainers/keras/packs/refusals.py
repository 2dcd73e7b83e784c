"""What a pack would not call, or what members share: such trainers train one after another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asyncsearch.trainers.keras.packs.structure import CALLED_ALONE
from asyncsearch.trainers.keras.packs.user_lines import place_of

_OWN_METHODS = ("train", "_train_batch", "_fetched", "_batch", "_follow", "_put", "_build", "_compile")
"""What a pack does itself: an overridden one would not be called as its author expects."""


def why_not_together(trainers: Sequence[Any]) -> str | None:
    """Return why trainers train one after another, and the line to change; None if that is not known yet."""
    first = trainers[0]
    kind: Any = type(first)
    for trainer in trainers:
        if type(trainer) is not kind:
            return f"{kind.__name__} and {type(trainer).__name__} are different classes"
    for name in _OWN_METHODS:
        if not kind.has_default(name):
            where = place_of(getattr(kind, name))
            return f"{kind.__name__}.{name} ({where}) is its own, and a pack has one of its own: put it into the model"
    if first.run_eagerly:
        return f"run_eagerly=True of {kind.__name__} traces nothing: leave it out"
    for trainer in trainers:
        for name in CALLED_ALONE:
            method = vars(trainer.net).get(name) or getattr(type(trainer.net), name)
            if not method.__module__.startswith("keras."):
                where = f"{type(trainer.net).__name__}.{name} ({place_of(method)})"
                return f"{where} is its own, and a pack does not call it: put it into layers, or into train_step"
    return _shared(trainers)


def _shared(trainers: Sequence[Any]) -> str | None:
    owners: dict[int, Any] = {}
    for trainer in trainers:
        for variable in (*trainer.net.variables, *trainer.opt.variables):
            if owners.setdefault(id(variable), trainer) is not trainer:
                return f"two models share variable {variable.path}: build each in model(), and each optimizer too"
    return None

"""Trainables by name: ``register_trainable("mine", train)``, then ``tune.run("mine")``."""

from __future__ import annotations

from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.ray.trial.trainables import require_trainable, unwrapped

_registered: dict[str, Any] = {}


def register_trainable(name: str, trainable: Any, warn: bool = True) -> None:
    """Give a trainable a name; ``warn``: whether one that is no trainable is refused at once."""
    if warn:
        require_trainable(unwrapped(trainable)[0])
    _registered[name] = trainable


def register_env(name: str, _env_creator: Any) -> None:
    """Refuse an environment of RLlib."""
    raise UsageError(
        f"register_env({name!r}) is of RLlib, which has no counterpart here: make the environment in the trial."
    )


def registered(trainable: Any) -> Any:
    """Return the trainable of a name; any other value is itself.

    Raises:
        UsageError: the name is not known.
    """
    if not isinstance(trainable, str):
        return trainable
    if trainable not in _registered:
        raise UsageError(
            f"There is no trainable {trainable!r}: give the function or class itself, or "
            f"register_trainable({trainable!r}, "
            "train) first. Algorithms of RLlib are not here."
        )
    return _registered[trainable]

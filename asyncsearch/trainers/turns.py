"""Several trainers of a pack in one process: whose the global generators are, and whose an error is.

Alone, each hook of a trainer sees the generators of Python, of numpy and of the framework as its own training, or its
own hook before, has left them. In a pack, others train between its hooks. So whoever calls a hook takes the turn of its
trainer before: the states of the one whose turn it was are kept, and those of this one are restored.

An error in the unit or the evaluation of one trainer is its own: that trainer fails, and those beside it do not.

Rule: this module imports no framework, since the runner imports it.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from asyncsearch.events import is_of_all
from asyncsearch.trainers.state.global_generators import capture, restore

_KEPT = "_left_states"
"""The attribute of a trainer with the states that it has left, or with what returns them."""
_BETWEEN_UNITS = ("save", "load", "update")


class _Turn:
    """Whose states the global generators of this process have; nobody's if nobody needs them."""

    def __init__(self) -> None:
        self._trainer: weakref.ref[Any] | None = None

    def is_of(self, trainer: Any) -> bool:
        return self._trainer is not None and self._trainer() is trainer

    def begin(self, trainer: Any) -> None:
        self._trainer = weakref.ref(trainer)

    def end(self) -> Any:
        """Return the trainer whose turn it was; None if it was nobody's, or the trainer is gone."""
        ended, self._trainer = self._trainer, None
        return None if ended is None else ended()


_turn = _Turn()


def take_turn(trainer: Any) -> None:
    """Let the generators have the states that this trainer has left."""
    if not _turn.is_of(trainer):
        begin_turn(trainer)
        kept = vars(trainer).pop(_KEPT, None)
        if kept is not None:
            restore(kept() if callable(kept) else kept)


def begin_turn(trainer: Any) -> None:
    """Begin the turn of a trainer that sets the generators itself, as its ``setup`` and ``train`` do."""
    if not _keeps_its_own(trainer) and not _turn.is_of(trainer):
        end_turn()
        _turn.begin(trainer)


def keep_turn(trainer: Any) -> None:
    """Let the states be those of a trainer whose ``setup`` or ``train`` has just ended."""
    if _keeps_its_own(trainer):
        trainer._keep_generators()
    else:
        begin_turn(trainer)


def end_turn() -> None:
    """Keep the present states for the trainer whose turn it was."""
    trainer = _turn.end()
    if trainer is not None:
        vars(trainer)[_KEPT] = capture()


def leave_states(trainer: Any, states: Callable[[], Mapping[str, Any]]) -> None:
    """Note the states that a trainer has left without a turn of its own, as one that trained in a stack."""
    if _turn.is_of(trainer):
        _turn.end()
    vars(trainer)[_KEPT] = states


def has_left_states(trainer: Any) -> bool:
    """Return whether others have had their turns since that of this trainer."""
    return _KEPT in vars(trainer)


def turn_of(trainer: Any) -> contextlib.AbstractContextManager[None]:
    """Return the context of a call of a trainer's hook beside others."""
    if _keeps_its_own(trainer):
        own: contextlib.AbstractContextManager[None] = trainer._own_generators()
        return own
    take_turn(trainer)
    return contextlib.nullcontext()


def turn_between_units(trainer: Any) -> contextlib.AbstractContextManager[None]:
    """Return the context of the hooks between two units: ``save``, ``load`` and ``update``."""
    if _keeps_its_own(trainer) or _has_hooks_between_units(trainer):
        return turn_of(trainer)
    return contextlib.nullcontext()


def fail(trainer: Any, error: Exception) -> None:
    """Let an error be that of a trainer: its ``evaluate`` raises it."""
    trainer.evaluate = functools.partial(_raise, error)


def train_or_fail(trainer: Any) -> None:
    """Train a unit by itself, in its own turn; an error is its own."""
    begin_turn(trainer)
    try:
        trainer.train()
    except Exception as error:
        if is_of_all(error):
            raise
        fail(trainer, error)
    keep_turn(trainer)


def evaluated(trainer: Any) -> Mapping[str, Any] | Exception:
    """Return the result of a trainer's ``evaluate`` in its own turn, or its error, which is its own.

    Raises:
        Exception: one that concerns all.
    """
    try:
        with turn_of(trainer):
            found: Mapping[str, Any] = trainer.evaluate()
    except Exception as error:
        if is_of_all(error):
            raise
        return error
    return found


def _keeps_its_own(trainer: Any) -> bool:
    """Return whether a trainer itself keeps the states that it leaves: to set TensorFlow's costs more than to draw."""
    return hasattr(trainer, "_own_generators")


def _has_hooks_between_units(trainer: Any) -> bool:
    """Return whether a hook that is called between units, other than ``evaluate``, is the user's own."""
    has_default = getattr(type(trainer), "has_default", None)  # a Trainer with a train_pack of its own has none
    return has_default is None or any(name in vars(trainer) or not has_default(name) for name in _BETWEEN_UNITS)


def _raise(error: Exception) -> None:
    raise error

"""TensorFlow's own generators, seeded for a unit of a pack only once something may draw from them.

To seed them discards every function that TensorFlow has prepared, and to prepare one again takes longer than many a
unit. The traced steps of a pack draw from none, and neither does an evaluation of all members at once.
"""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

from asyncsearch.trainers.keras.left_generators import captured, restore
from asyncsearch.trainers.keras.packs.samples import has_plain_data
from asyncsearch.trainers.packs.known_classes import known_of
from asyncsearch.trainers.turns import train_or_fail

_DEFAULTS = ("evaluate", "_metrics", "_count", "_batch")
"""Methods that are called for each trainer by itself where its class has one of its own."""
_HOOKS = ("update", "save", "load", "learning_rate", "order")


def seed_late(trainer: Any, number: int) -> None:
    """Seed the generators for the unit of a pack with this number, those of TensorFlow later where that is enough."""
    known_of(type(trainer)).late_seed = weakref.ref(trainer), trainer._seed_python("unit", number)
    # Reading any other data, and an evaluation that is the user's own, may draw.
    if not has_plain_data(trainer) or may_draw(trainer):
        seed_now(type(trainer))


def seed_now(kind: type) -> None:
    """Make up for a seed that was put off, before something that may draw."""
    late, known_of(kind).late_seed = known_of(kind).late_seed, None
    trainer = None if late is None else late[0]()
    if trainer is not None:
        trainer._seed_framework(late[1])


def train_alone(trainer: Any) -> None:
    """Train a unit as without a pack, which seeds everything itself."""
    known_of(type(trainer)).late_seed = None
    train_or_fail(trainer)


def leave_seeded(trainer: Any, number: int) -> None:
    """Let a trainer find the generators as its own unit leaves them, where that draws from none of them."""
    before = captured(with_framework=False)
    seed = trainer._seed_python("unit", number)
    framework = seed if may_draw(trainer) else None
    trainer._generators = dataclasses.replace(captured(with_framework=False), framework=framework)
    restore(before, trainer)


def may_draw(trainer: Any) -> bool:
    """Return whether code of the user's own that runs beside the steps may draw from TensorFlow's generators."""
    is_own = not all(map(type(trainer).has_default, (*_DEFAULTS, *_HOOKS)))
    is_known = isinstance(trainer.loss, str) or type(trainer.loss).__module__.startswith("keras.")
    layers = trainer.net._flatten_layers()
    return is_own or not is_known or not all(type(one).__module__.startswith("keras.") for one in layers)


def has_default_evaluation(trainer: Any) -> bool:
    """Return whether ``evaluate`` is the trainer's own, which may be computed for all members at once."""
    return all(map(type(trainer).has_default, _DEFAULTS)) and not trainer.run_eagerly

"""Steps of Keras models that are traced for a pack, and their limits where several members share one."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from asyncsearch.trainers.keras.kept_traces import drawing_in
from asyncsearch.trainers.keras.trainer_state import drawn_state
from asyncsearch.trainers.packs.pack_training import NotTogetherError

_OTHERS = tuple(str(Path(one).parent) for one in (__file__, keras.__file__, tf.__file__))
"""Folders of lines that a user cannot change."""


class NotStackedError(Exception):
    """Members cannot be one computation, and why; they may still share each batch, and be sequential."""


def require_own_state(graph: Any, known: set[int]) -> None:
    """Refuse a traced step that draws from a generator of the process, or has a variable of the process.

    Args:
        graph: of a concrete function.
        known: the ids of the variables of one member.

    Raises:
        NotTogetherError: its members would change each other's results.
    """
    drawing = drawing_in(graph)
    if drawing:
        raise NotTogetherError(
            f"the training draws by {drawing} from TensorFlow's own generator, which is one for all: draw with a "
            "keras.random.SeedGenerator of the layer"
        )
    for variable in graph.variables:
        if id(variable) not in known:
            raise NotTogetherError(
                f"the training changes or reads variable {variable.name!r}, which is in no model: keep a "
                "keras.random.SeedGenerator in the layer that draws, and make other variables by add_weight()"
            )


@contextlib.contextmanager
def quiet_vectorizing() -> Iterator[None]:
    """Leave out what TensorFlow logs of operations that it cannot compute at once, errors too: the pack says it."""
    logger = tf.get_logger()
    before = logger.level
    logger.setLevel("CRITICAL")
    try:
        yield
    finally:
        logger.setLevel(before)


@contextlib.contextmanager
def drawing_nothing() -> Iterator[None]:
    """Refuse draws while a step is traced: each member, and each unit, would have its own draws.

    Raises:
        NotTogetherError: something was drawn from Python's or numpy's generator.
    """
    before = drawn_state()
    yield
    if drawn_state() != before:
        raise NotTogetherError(
            "the model or the loss draws from the generator of Python or numpy, which a traced step holds for ever: "
            "draw with a keras.random.SeedGenerator of the layer"
        )


def line_of(error: BaseException) -> str:
    """Return the innermost line of the user in a traceback, to follow a word; empty if there is none."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OTHERS)]
    if not frames:
        return ""
    return f", at {Path(frames[-1].filename).name}, line {frames[-1].lineno}, `{(frames[-1].line or '').strip()}`"

"""The generators of Python, numpy, TensorFlow and Keras as one trainer leaves them, where others train beside it."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sys
from typing import Any, ClassVar

import numpy as np
import tensorflow as tf

from asyncsearch.trainers.state import global_generators


@dataclasses.dataclass(frozen=True)
class OwnGenerators:
    """The states of the generators of a process that are those of one trainer."""

    is_of_no_training: ClassVar[bool] = True  # each unit is seeded anew, so a check of the trainer leaves them out
    python: Any
    numpy: Any
    framework: Any
    """The seed of TensorFlow's and Keras's, their states, or None: nothing of this trainer draws from them."""


def captured(*, with_framework: bool) -> OwnGenerators:
    """Return the states as they are now."""
    framework = None
    if with_framework:
        states = [None if one is None else one.numpy().tolist() for one in _variables()]
        framework = global_generators.tensorflow_state(), states
    return OwnGenerators(random.getstate(), np.random.get_state(), framework)  # noqa: NPY002


def restore(states: OwnGenerators, trainer: Any) -> None:
    """Set the generators to states that the same trainer left."""
    random.setstate(states.python)
    np.random.set_state(states.numpy)  # noqa: NPY002
    if isinstance(states.framework, int):
        trainer._seed_framework(states.framework)
    elif states.framework is not None and states.framework != captured(with_framework=True).framework:
        # Seeding discards what TensorFlow has prepared, and with it the counters of its operations.
        (seed, source), values = states.framework
        tf.random.set_seed(seed)
        global_generators.set_tensorflow_state((seed, source))
        for variable, value in zip(_variables(), values, strict=True):
            if variable is not None and value is not None:
                variable.assign(value)


def seed_tensorflow(seed: int, threads: int | None, *, is_deterministic: bool) -> None:
    """Seed TensorFlow's generators, and the one from which ``keras.random`` draws without a seed."""
    if threads is not None:
        # TensorFlow refuses this once it has started, which is right: the number must not change between trials.
        with contextlib.suppress(RuntimeError):
            tf.config.threading.set_intra_op_parallelism_threads(threads)
            tf.config.threading.set_inter_op_parallelism_threads(threads)
    if is_deterministic:
        tf.config.experimental.enable_op_determinism()
    tf.random.set_seed(seed)
    try:
        tf.random.get_global_generator().reset_from_seed(seed)
    except RuntimeError:  # with determinism it must be made explicitly, once: traced functions keep it
        tf.random.set_global_generator(tf.random.Generator.from_seed(seed))
    keras_own = _of_keras()
    if keras_own is not None:
        keras_own.state.assign([seed % 2**32, 0])


def _variables() -> list[Any]:
    """Return the variables of generators: TensorFlow's global one, and Keras's."""
    source = None
    with contextlib.suppress(RuntimeError):  # with determinism there is none before it is made
        source = tf.random.get_global_generator().state
    keras_own = _of_keras()
    return [source, None if keras_own is None else keras_own.state.value]


def _of_keras() -> Any:
    """Return Keras's global generator, which is made here if need be; None if this version of Keras hides it."""
    module: Any = sys.modules.get("keras.src.random.seed_generator")
    make = getattr(module, "global_seed_generator", None)
    if make is None:
        return None
    python = random.getstate()  # to make it draws from Python's
    try:
        return make()
    finally:
        random.setstate(python)

"""The state of a ``KerasTrainer``: its model, its optimizer and its traces, and the generators as it leaves them.

It is kept over an evaluation, given away or forgotten; generators are kept where others train beside the trainer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf

from asyncsearch.errors import UsageError
from asyncsearch.trainers.state import global_generators


@contextlib.contextmanager
def restored(variables: Sequence[Any]) -> Iterator[None]:
    """Restore the values of variables afterwards: an LSTM with dropout advances its seeds also where it drops nothing.

    Variables that are made inside have no former value, and are left.
    """
    # To read a value copies nothing until the variable is changed.
    before = [(variable, variable.value.read_value()) for variable in variables]
    try:
        yield
    finally:
        for variable, value in before:
            variable.value.assign(value, read_value=False)


def without_weights(net: Any, variables: Iterable[Any]) -> list[Any]:
    """Return the variables of a model that are no weights, of a frozen layer neither."""
    weights = {id(one) for layer in net._flatten_layers() for one in layer._trainable_variables}
    return [one for one in variables if id(one) not in weights]


def drawn_state() -> Any:
    """Return the states of Python's and numpy's generators, to be compared."""
    numpy: Any = np.random.get_state(legacy=True)  # noqa: NPY002
    return random.getstate(), np.asarray(numpy[1]).tobytes(), numpy[2:]


def give_state(former: Any, fresh: Any) -> None:
    """Give the state of an optimizer to another one of its class, which is built for other variables.

    Its numbers, such as that of its steps, are given, and the state of each variable that both have.
    """
    if type(former) is not type(fresh):
        return
    rows = {id(variable): row for row, variable in enumerate(former._trainable_variables)}
    for name, theirs in vars(fresh).items():
        mine = vars(former).get(name)
        if isinstance(theirs, keras.Variable) and isinstance(mine, keras.Variable) and mine.shape == theirs.shape:
            theirs.assign(mine)
        elif isinstance(theirs, list | tuple) and isinstance(mine, list | tuple) and len(mine) == len(rows):
            for variable, slot in zip(fresh._trainable_variables, theirs, strict=False):
                row = rows.get(id(variable))
                if row is not None and isinstance(slot, keras.Variable) and isinstance(mine[row], keras.Variable):
                    slot.assign(mine[row])


def inner(optimizer: Any) -> Any:
    """Return the optimizer inside one that scales the loss."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def kind(optimizer: Any) -> str:
    """Return the properties that two optimizers must share to exchange states: class and number of variables."""
    found = inner(optimizer)
    return f"{type(found).__qualname__} of {len(found.variables)} variables"


def write_state(path: Path, state: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Make a folder with a state, which is plain, and the values of variables, each under its name."""
    path.mkdir()
    with (path / "variables.npz").open("wb") as file:
        np.savez(file, **{name: _bytes_of(value) for name, value in values.items()})
    (path / "state.json").write_text(json.dumps(state, indent=1), encoding="utf-8")


def read_variables(path: Path, named: Iterable[tuple[str, Any]]) -> None:
    """Give variables their values in a file.

    Raises:
        UsageError: one of them has another size there, or none.
    """
    with np.load(path) as saved:
        for name, variable in named:
            _assign(name, variable, saved)


def _bytes_of(value: Any) -> Any:
    """Return an array as bytes: numpy does not have all of TensorFlow's types."""
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def _assign(name: str, variable: Any, saved: Mapping[str, Any]) -> None:
    now = variable.value.numpy()
    data = saved[name].tobytes() if name in saved else b""
    if name not in saved or len(data) != now.nbytes:
        raise UsageError(
            f"The checkpoint does not fit variable {variable.path} of shape {tuple(variable.shape)}: model() and "
            "optimizer() must build for a trial what they built when it was saved."
        )
    variable.assign(np.frombuffer(data, dtype=now.dtype).reshape(now.shape))


def has_own(net: Any, method: str) -> bool:
    """Return whether a method of a model is not that of Keras."""
    return method in vars(net) or not getattr(type(net), method).__module__.startswith("keras.")


def forget_traces(function: Any) -> None:
    """Let a ``tf.function`` be traced anew at its next call."""
    for one in [function, *getattr(function, "_descriptor_cache", {}).values()]:  # a method has one for each object
        cache = getattr(one, "_function_cache", None)
        if cache is not None:
            cache.clear()


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

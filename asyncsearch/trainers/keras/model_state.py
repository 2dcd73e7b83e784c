"""The state of a Keras model, its optimizer and its traces: kept over an evaluation, given away, or forgotten."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from asyncsearch.errors import UsageError


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


def bytes_of(variable: Any) -> Any:
    """Return a variable as bytes: numpy does not have all of TensorFlow's types."""
    value = np.ascontiguousarray(variable.value.numpy())
    return np.frombuffer(value.tobytes(), dtype=np.uint8)


def assign(name: str, variable: Any, saved: Mapping[str, Any]) -> None:
    """Give a variable its saved value.

    Raises:
        UsageError: it has another size, or none.
    """
    now = variable.value.numpy()
    data = saved[name].tobytes() if name in saved else b""
    if name not in saved or len(data) != now.nbytes:
        raise UsageError(
            f"The checkpoint does not fit variable {variable.path} of shape {tuple(variable.shape)}: model() and "
            "optimizer() must build for a trial what they built when it was saved."
        )
    variable.assign(np.frombuffer(data, dtype=now.dtype).reshape(now.shape))


def forget_traces(function: Any) -> None:
    """Let a ``tf.function`` be traced anew at its next call."""
    for one in [function, *getattr(function, "_descriptor_cache", {}).values()]:  # a method has one for each object
        cache = getattr(one, "_function_cache", None)
        if cache is not None:
            cache.clear()

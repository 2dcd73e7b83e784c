"""Objects of a program on their way between driver and worker, as pickles."""

from __future__ import annotations

import io
import pickle
import sys
import types
from typing import Any, cast

import cloudpickle

_INSTALLED = ("asyncsearch", "builtins", "cloudpickle", "hyperopt", "optuna")
"""What both processes import, so that its pickle is its name."""


def pickled(value: Any) -> bytes:
    """Return the pickle of a value: its functions and classes are those of the receiver, if that has them by name."""
    buffer = io.BytesIO()
    _NamePickler(buffer).dump(value)
    return buffer.getvalue()


class _NamePickler(cloudpickle.Pickler):  # type: ignore[misc]
    """A program's own code has come by value, and as another object: by its name the driver finds the original."""

    def reducer_override(self, obj: Any) -> Any:
        has_name = isinstance(obj, type | types.FunctionType) and "<" not in obj.__qualname__
        if has_name and str(obj.__module__).partition(".")[0] not in _INSTALLED:
            return _named, (obj.__module__, obj.__qualname__, cloudpickle.dumps(obj))
        if isinstance(obj, BaseException) and type(obj).__reduce__ is BaseException.__reduce__:
            kind, args, *state = cast("tuple[Any, ...]", obj.__reduce__())
            return _error, (kind, args), *state
        return super().reducer_override(obj)


def _named(module: str, name: str, by_value: bytes) -> Any:
    """Return a function or class of this process, else the one that was sent."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return pickle.loads(by_value) if found is None else found  # noqa: S301  # a part of such a pickle


def _error(kind: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    """Return an exception; one that has given its base other arguments than its own cannot be made by a call."""
    try:
        return kind(*args)
    except TypeError:
        return kind.__new__(kind, *args)


def unpickled(content: bytes) -> Any:
    """Return the value of a pickle that has come behind the seal of a launch (``runner.seal``)."""
    return pickle.loads(content)  # noqa: S301  # the driver and its launches alone can make that seal

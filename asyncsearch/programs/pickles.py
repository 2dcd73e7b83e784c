"""Objects of a program on their way between driver and worker, as pickles."""

from __future__ import annotations

import hashlib
import hmac
import io
import pickle
import sys
import types
from typing import Any

import cloudpickle

from asyncsearch.errors import UsageError

_INSTALLED = ("asyncsearch", "builtins", "cloudpickle", "hyperopt", "optuna")
"""What both processes import, so that its pickle is its name."""
_SEAL_BYTES = hashlib.sha256().digest_size


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
        return super().reducer_override(obj)


def _named(module: str, name: str, by_value: bytes) -> Any:
    """Return a function or class of this process, else the one that was sent."""
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return pickle.loads(by_value) if found is None else found  # noqa: S301  # a part of a sealed pickle


def sealed(value: Any, key: bytes) -> bytes:
    """Return the pickle of a value behind a seal, which only a process with the run's code can make."""
    data = pickled(value)
    return hmac.digest(key, data, "sha256") + data


def unsealed(content: bytes, key: bytes) -> Any:
    """Return the value of a sealed pickle.

    Raises:
        UsageError: its seal is not of this key, so that anybody may have sent it.
    """
    seal, data = content[:_SEAL_BYTES], content[_SEAL_BYTES:]
    if not hmac.compare_digest(seal, hmac.digest(key, data, "sha256")):
        raise UsageError("A message of a trial is not sealed with the key of its run, and is not unpickled.")
    return pickle.loads(data)  # noqa: S301  # sealed by a process that has this run's code

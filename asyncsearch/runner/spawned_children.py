"""Functions and classes of the user's own in processes that a trial starts by ``spawn`` or ``forkserver``.

``multiprocessing`` names a function by its module, which such a child imports. Of a trial's process it can import
neither ``__main__``, which is the runner, nor modules that were sent with the trainable and are on no path of this
machine: the child would fail at each task, and a pool would wait for ever. So what they define is sent by value, there
and back. ``backend="inline"`` trains with copies of functions, which ``multiprocessing`` refuses to name; these are
sent by value while a trial trains.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import sys
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from types import FunctionType, ModuleType
from typing import Any


def send_by_value() -> None:
    """Let this process send definitions that its children cannot import."""
    # Looked up by the pickler when it is made; Python's own ForkingPickler has none.
    setattr(ForkingPickler, "reducer_override", _reduced)  # noqa: B010


@contextlib.contextmanager
def sending_copies() -> Iterator[None]:
    """Let this process meanwhile send definitions that are not what their name stands for."""
    before = vars(ForkingPickler).get("reducer_override")
    setattr(ForkingPickler, "reducer_override", _reduced_copy)  # noqa: B010
    try:
        yield
    finally:
        if before is None:
            delattr(ForkingPickler, "reducer_override")
        else:
            setattr(ForkingPickler, "reducer_override", before)  # noqa: B010


def received(data: bytes) -> Any:
    """Return a definition that was sent by value; this process sends such ones back by value, too."""
    send_by_value()
    # From this process's parent or child, through the pipe between them, as all that multiprocessing sends.
    return pickle.loads(data)  # noqa: S301


def _reduced(_pickler: ForkingPickler, value: Any) -> Any:
    if not isinstance(value, type | FunctionType) or _can_be_imported(value.__module__):
        return NotImplemented
    import cloudpickle

    _register_modules(len(sys.modules))
    # The same class however often it is sent: cloudpickle knows the classes of a process by their ids.
    return received, (cloudpickle.dumps(value),)


def _reduced_copy(_pickler: ForkingPickler, value: Any) -> Any:
    if not isinstance(value, type | FunctionType) or _is_what_its_name_says(value):
        return NotImplemented
    import cloudpickle

    return received, (cloudpickle.dumps(value),)


def _is_what_its_name_says(value: type | FunctionType) -> bool:
    found: Any = sys.modules.get(value.__module__ or "")
    for name in value.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is value


@functools.cache
def _can_be_imported(module: str | None) -> bool:
    """Return whether a child, which has this process's path, can import a module by its name."""
    if module in ("__main__", "__mp_main__"):
        return False
    if module is None:
        return True  # not for this module to say
    top = module.partition(".")[0]
    # Not those of asyncsearch, which know what was sent to this process alone.
    finders = (finder for finder in sys.meta_path if not type(finder).__module__.startswith("asyncsearch."))
    return any(finder.find_spec(top, None) is not None for finder in finders)


@functools.lru_cache(maxsize=1)
def _register_modules(_known: int) -> None:
    """Let cloudpickle send what is defined in modules that no child can import."""
    import cloudpickle

    for name, module in sys.modules.copy().items():
        if type(module) is ModuleType and module.__name__ == name and not _can_be_imported(name) and name != "__main__":
            cloudpickle.register_pickle_by_value(module)

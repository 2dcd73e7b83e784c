"""Functions and classes of the user's own in processes that a trial starts by ``spawn`` or ``forkserver``.

``multiprocessing`` names a function by its module, which such a child imports. Of a trial's process it can import
neither ``__main__``, which is the runner, nor modules that were sent with the trainable and are on no path of this
machine: the child would fail at each task, and a pool would wait for ever. So what they define is sent by value, there
and back. The functions of one module have one dictionary of globals there, too, whenever each was sent: what a pool's
initializer sets is what its tasks read. ``backend="inline"`` trains with copies of functions, which ``multiprocessing``
refuses to name; these are sent by value while a trial trains.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import pickle
import sys
import uuid
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from types import FunctionType, ModuleType
from typing import Any


class KnownGlobals:
    """The dictionaries of globals that are one in a trial's process and in its children."""

    def __init__(self) -> None:
        self.origins = [uuid.uuid4().hex]
        """The processes that this one is forked from, and itself, the last."""
        self.here: dict[tuple[str, int], dict[str, Any]] = {}
        """The process in which a dictionary began and its address there -> the one that stands for it here."""

    def note_fork(self) -> None:
        """Take a name of its own in a child: the addresses of what it makes from now on are not the parent's."""
        self.origins.append(uuid.uuid4().hex)


_known = KnownGlobals()
os.register_at_fork(after_in_child=_known.note_fork)


def send_by_value() -> None:
    """Let this process send definitions that its children cannot import."""
    _know(vars(sys.modules["__main__"]))
    # Looked up by the pickler when it is made; Python's own ForkingPickler has none.
    setattr(ForkingPickler, "reducer_override", _reduced)  # noqa: B010


@contextlib.contextmanager
def sending_copies(trainable: object = None) -> Iterator[None]:
    """Let this process meanwhile send definitions that are not what their name stands for: those of ``trainable``."""
    known = dict(_known.here)
    _know({"trainable": trainable, **_attributes(trainable)})
    before = vars(ForkingPickler).get("reducer_override")
    setattr(ForkingPickler, "reducer_override", _reduced_copy)  # noqa: B010
    try:
        yield
    finally:
        _known.here.clear()  # the data of each trainable would stay in a notebook's process
        _known.here.update(known)
        if before is None:
            delattr(ForkingPickler, "reducer_override")
        else:
            setattr(ForkingPickler, "reducer_override", before)  # noqa: B010


def received(data: bytes) -> Any:
    """Return a definition that was sent by value; this process sends such ones back by value, too."""
    setattr(ForkingPickler, "reducer_override", _reduced)  # noqa: B010
    # From this process's parent or child, through the pipe between them, as all that multiprocessing sends.
    return pickle.loads(data)  # noqa: S301


def _reduced(_pickler: ForkingPickler, value: Any) -> Any:
    if not isinstance(value, type | FunctionType) or _can_be_imported(value.__module__):
        return NotImplemented
    _register_modules(len(sys.modules))
    # The same class however often it is sent: cloudpickle knows the classes of a process by their ids.
    return received, (_dumps(value),)


def _reduced_copy(_pickler: ForkingPickler, value: Any) -> Any:
    if not isinstance(value, type | FunctionType) or _is_what_its_name_says(value):
        return NotImplemented
    return received, (_dumps(value),)


def _dumps(value: object) -> bytes:
    file = io.BytesIO()
    _pickler_class()(file).dump(value)
    return file.getvalue()


@functools.cache
def _pickler_class() -> Any:
    """Return the class of picklers; cloudpickle is imported only where something is sent."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, _Globals):
                return shared_globals, (*obj.key, obj.names)
            if isinstance(obj, FunctionType):
                self.globals_ref[id(obj.__globals__)] = _Globals(obj.__globals__)
            reduced = super().reducer_override(obj)
            if not isinstance(obj, FunctionType) or not isinstance(reduced, tuple):
                return reduced
            *made, fill = reduced
            return *made, functools.partial(fill_function, fill)

    return Pickler


class _Globals:
    """The globals of a function that is sent."""

    def __init__(self, globals_: dict[str, Any]) -> None:
        here = (_known.origins[-1], id(globals_))
        self.key = next((key for key, one in _known.here.items() if one is globals_), here)
        _known.here[self.key] = globals_
        self.names = {name: globals_[name] for name in ("__package__", "__name__", "__file__") if name in globals_}


def shared_globals(origin: str, address: int, names: dict[str, Any]) -> dict[str, Any]:
    """Return the globals that stand here for those of a function that was sent."""
    module = sys.modules.get(names.get("__name__", ""))
    # Only in a process that is forked from the origin does an address there mean the same dictionary here.
    if origin in _known.origins and module is not None and id(vars(module)) == address:
        _known.here[origin, address] = vars(module)
    return _known.here.setdefault((origin, address), dict(names))


def fill_function(fill: Any, function: FunctionType, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """Complete a function; a global that is there already may have been set by an initializer, and stays."""
    attributes, slots = state
    for name, value in slots["__globals__"].items():
        function.__globals__.setdefault(name, value)
    fill(function, (attributes, {**slots, "__globals__": {}}))


def _know(named: dict[str, Any]) -> None:
    """Remember the globals of functions now: a process that is forked later has them under the same addresses."""
    functions = [one for one in list(named.values()) if isinstance(one, FunctionType)]
    for globals_ in {id(one.__globals__): one.__globals__ for one in functions}.values():
        inside = [one for one in list(globals_.values()) if isinstance(one, FunctionType)]
        for one in (globals_, *(each.__globals__ for each in inside)):
            _Globals(one)


def _attributes(trainable: object) -> dict[str, Any]:
    """Return the functions of an object, a method, a partial function or a class."""
    found = getattr(trainable, "func", trainable)
    found = getattr(found, "__func__", found)
    kind = found if isinstance(found, type) else type(found)
    return {"itself": found, **vars(kind)}


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
def _register_modules(_modules: int) -> None:
    """Let cloudpickle send the definitions of modules that no child can import."""
    import cloudpickle

    for name, module in sys.modules.copy().items():
        if type(module) is ModuleType and module.__name__ == name and not _can_be_imported(name) and name != "__main__":
            cloudpickle.register_pickle_by_value(module)

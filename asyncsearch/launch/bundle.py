"""Packs the trainable for the runners, and explains why it cannot be sent.

The search's own code is sent by value: all of ``__main__``, and every module that is not installed. So workers need
the same packages, not the same folders.
"""

from __future__ import annotations

import types
from collections.abc import Collection
from typing import Any, NamedTuple

from asyncsearch.errors import NotPicklableError
from asyncsearch.launch.code_pickler import CodePickler
from asyncsearch.launch.pickle_captures import parts
from asyncsearch.launch.unshipped_modules import sent_by_value

_MB = 1_000_000
WARN_BYTES = 10 * _MB
MAX_BYTES = 100 * _MB
_MAX_DEPTH = 6
_MAX_LOOKED_AT = 2_000
_SHOWN = 3
_ADVICE = "Create it inside the function, or load it there with trial.once(...)"


class Bundle(NamedTuple):
    """A packed trainable, ready to send."""

    data: bytes
    """Pickle for ``pickle.loads``, which needs cloudpickle installed."""
    warnings: tuple[str, ...]
    """Warnings for the user, in sentences."""
    by_name: tuple[str, ...] = ()
    """Packages that would have been sent by value and could not; they are imported where it is unpickled."""
    files: frozenset[str] = frozenset()
    """Files that its functions are from, as their code names them, installed ones among them."""


class _TooLargeError(Exception):
    """The pickle would exceed ``MAX_BYTES``."""


def pack(trainable: object) -> Bundle:
    """Pickle a trainable.

    Raises:
        NotPicklableError: a captured value cannot be pickled, or is larger than ``MAX_BYTES``; names the value.
    """
    with sent_by_value() as modules:
        try:
            data, files = _dumps(trainable, modules)
        except _TooLargeError:
            raise NotPicklableError(_too_large(trainable, modules)) from None
        except Exception as error:
            failure, found = error, _culprit(trainable, modules)
        else:
            return Bundle(data, _size_warnings(trainable, data, modules), files=files)
    try:
        # A module may hold a value that cannot be sent, such as a lock, and still be installed on the workers.
        data, files = _dumps(trainable, ())
    except Exception:
        raise NotPicklableError(_not_picklable(trainable, found, failure)) from failure
    named = _named_in(data, modules)
    return Bundle(data, (_by_name(trainable, found, named),), named, files)


class _Counter:
    """Counts the written bytes and keeps none."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: Any) -> int:
        length = memoryview(data).nbytes
        self.size += length
        if self.size > MAX_BYTES:
            raise _TooLargeError
        return length


class _Buffer(_Counter):
    """Counts the written bytes and keeps them."""

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()

    def write(self, data: Any) -> int:
        length = super().write(data)
        self.data += data
        return length


class _Pickler(CodePickler):
    """Sends modules by value even if they refer to each other in a cycle, as those of a package do."""

    def __init__(self, file: Any, modules: Collection[str]) -> None:
        super().__init__(file)
        self._modules = modules
        self.files: set[str] = set()

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, types.FunctionType):
            self.files.add(obj.__code__.co_filename)
        if isinstance(obj, types.ModuleType) and _is_sent(obj, self._modules):
            left_out = ("__builtins__", "__loader__", "__spec__", "__cached__")
            content = {name: value for name, value in vars(obj).items() if name not in left_out}
            return types.ModuleType, (obj.__name__,), content, None, None, _fill
        return super().reducer_override(obj)


def _fill(module: types.ModuleType, content: dict[str, Any]) -> None:
    vars(module).update(content)


def _is_sent(module: types.ModuleType, modules: Collection[str]) -> bool:
    return any(module.__name__ == name or module.__name__.startswith(f"{name}.") for name in modules)


def _dumps(value: object, modules: Collection[str]) -> tuple[bytes, frozenset[str]]:
    """Return the pickle of a value, and the files that its functions are from."""
    buffer = _Buffer()
    pickler = _Pickler(buffer, modules)
    pickler.dump(value)
    return bytes(buffer.data), frozenset(pickler.files)


def _tried(value: object, modules: Collection[str]) -> tuple[int, Exception | None]:
    """Return the pickled size of a value, up to the first error, and the error."""
    counter = _Counter()
    try:
        _Pickler(counter, modules).dump(value)
    except Exception as error:
        return counter.size, None if isinstance(error, _TooLargeError) else error
    return counter.size, None


class _Culprit(NamedTuple):
    """A value that cannot be pickled: the path to it, the value and the error."""

    path: tuple[str, ...]
    value: object
    error: Exception


def _culprit(trainable: object, modules: Collection[str]) -> _Culprit | None:
    """Return the innermost part that fails by itself; None: no part fails alone."""
    found, seen = None, {id(trainable)}
    inner: object = trainable
    path: tuple[str, ...] = ()
    for _ in range(_MAX_DEPTH):
        for words, part in parts(inner, lambda module: _is_sent(module, modules)):
            if id(part) in seen:
                continue
            seen.add(id(part))
            _, error = _tried(part, modules)
            if error is not None:
                path, inner = (*path, words), part
                found = _Culprit(path, part, error)
                break
        else:
            break
    return found


def _sizes(trainable: object, modules: Collection[str]) -> list[tuple[int, tuple[str, ...]]]:
    """Return the sizes of captured values, the largest first; a function or module counts as its own captures."""
    sizes: list[tuple[int, tuple[str, ...]]] = []
    seen = {id(trainable)}
    waiting: list[tuple[tuple[str, ...], object]] = [((), trainable)]
    while waiting and len(seen) < _MAX_LOOKED_AT:
        path, value = waiting.pop()
        for words, part in parts(value, lambda module: _is_sent(module, modules)):
            if id(part) in seen:
                continue
            seen.add(id(part))
            if isinstance(part, types.FunctionType | types.MethodType | types.ModuleType | type) and len(path) < 3:
                waiting.append(((*path, words), part))
            else:
                sizes.append((_tried(part, modules)[0], (*path, words)))
    return sorted(sizes, key=lambda pair: -pair[0])


def _name(trainable: object) -> str:
    return str(getattr(trainable, "__qualname__", None) or type(trainable).__qualname__)


def _not_picklable(trainable: object, found: _Culprit | None, failure: Exception) -> str:
    if found is None:
        return f"{_name(trainable)} cannot be sent to workers: {_in_short(failure)}. {_ADVICE}."
    path = ", in it ".join(found.path)
    return (
        f"{_name(trainable)} cannot be sent to workers: {path} is of type {_type_name(found.value)}, which cannot be "
        f"pickled ({_in_short(found.error)}). {_ADVICE}."
    )


def _named_in(data: bytes, modules: Collection[str]) -> tuple[str, ...]:
    """Return the packages, out of those that would have been sent by value, that a pickle names."""
    return tuple(sorted({name.partition(".")[0] for name in modules if name.encode() in data}))


def _by_name(trainable: object, found: _Culprit | None, named: Collection[str]) -> str:
    what = f" because of {', in it '.join(found.path)} ({_type_name(found.value)})" if found else ""
    return (
        f"{_name(trainable)} cannot be sent by value{what}, so by name: each worker must be able to import "
        f"{' and '.join(named) or 'its module'}. On a cluster, ship it with sc.addPyFile(...) or install it there."
    )


def _too_large(trainable: object, modules: Collection[str]) -> str:
    return (
        f"{_name(trainable)} captures more than {MAX_BYTES // _MB} MB, which would be sent to each worker: "
        f"{_largest(trainable, modules)}. Load data inside the function with trial.once(...), from a place that all "
        "workers see."
    )


def _size_warnings(trainable: object, data: bytes, modules: Collection[str]) -> tuple[str, ...]:
    if len(data) <= WARN_BYTES:
        return ()
    text = (
        f"{_name(trainable)} captures {len(data) / _MB:.0f} MB, which are sent to each worker: "
        f"{_largest(trainable, modules)}. Better load data inside the function with trial.once(...)."
    )
    return (text,)


def _largest(trainable: object, modules: Collection[str]) -> str:
    return "; ".join(
        f"{', in it '.join(path)}: {'more than ' if size > MAX_BYTES else ''}{min(size, MAX_BYTES) / _MB:.0f} MB"
        for size, path in _sizes(trainable, modules)[:_SHOWN]
        if size >= _MB
    )


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _in_short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".")

"""Why a trainable cannot be sent to workers, and what makes it large, with the path to the value in it."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from asyncsearch.errors import in_a_line
from asyncsearch.launch.module_plan import type_name
from asyncsearch.launch.own_modules import OwnModules
from asyncsearch.launch.reach import parts
from asyncsearch.launch.value_pickler import UnsendableError, ValuePickler

_MB = 1_000_000
WARN_BYTES = 10 * _MB
MAX_BYTES = 100 * _MB
_MAX_DEPTH = 6
_MAX_LOOKED_AT = 2_000
_SHOWN = 3
_ADVICE = "Create it inside the function, or load it there with trial.once(...)"


class TooLargeError(Exception):
    """The pickle would exceed ``MAX_BYTES``."""


class SizeCounter:
    """Counts the written bytes and keeps none."""

    def __init__(self, most: int | None = None) -> None:
        self.size = 0
        self._most = MAX_BYTES if most is None else most

    def write(self, data: Any) -> int:
        length = memoryview(data).nbytes
        self.size += length
        if self.size > self._most:
            raise TooLargeError
        return length


def tried(value: object, own: OwnModules, most: int | None = None, *, alone: bool = False) -> PickleAttempt:
    """Return the pickled size of a value, up to the first error, and the error.

    Args:
        most: bytes at which to end. None for ``MAX_BYTES``.
        alone: whether the members of own modules that it refers to do not count.
    """
    counter = SizeCounter(MAX_BYTES if most is None else most)
    try:
        ValuePickler(counter, own, value if alone else None).dump(value)
    except Exception as error:
        return PickleAttempt(counter.size, None if isinstance(error, TooLargeError) else error)
    return PickleAttempt(counter.size, None)


class PickleAttempt(NamedTuple):
    """The result of an attempt to pickle."""

    size: int
    error: Exception | None


class Culprit(NamedTuple):
    """A value that cannot be pickled: the path to it, the value and the error."""

    path: tuple[str, ...]
    value: object
    error: Exception


def culprit_in(trainable: object, own: OwnModules) -> Culprit | None:
    """Return the innermost part that fails by itself. None if no part fails alone."""
    found, seen = None, {id(trainable)}
    inner: object = trainable
    path: tuple[str, ...] = ()
    for _ in range(_MAX_DEPTH):
        for words, part in parts(inner, lambda module: own.get(module.__name__) is module):
            if id(part) in seen:
                continue
            seen.add(id(part))
            error = tried(part, own).error
            if error is not None:
                path, inner = (*path, words), part
                found = Culprit(path, part, error)
                if isinstance(error, UnsendableError) and error.value is part:
                    return found
                break
        else:
            break
    return found


def _sizes(trainable: object, own: OwnModules) -> list[tuple[int, tuple[str, ...]]]:
    """Return the sizes of captured values, the largest first; a function or module counts as its own captures."""
    sizes: list[tuple[int, tuple[str, ...]]] = []
    seen = {id(trainable)}
    waiting: list[tuple[tuple[str, ...], object]] = [((), trainable)]
    while waiting and len(seen) < _MAX_LOOKED_AT:
        path, value = waiting.pop()
        for words, part in parts(value, lambda module: own.get(module.__name__) is module):
            if id(part) in seen:
                continue
            seen.add(id(part))
            if isinstance(part, types.FunctionType | types.MethodType | types.ModuleType | type) and len(path) < 3:
                waiting.append(((*path, words), part))
            else:
                sizes.append((tried(part, own).size, (*path, words)))
    return sorted(sizes, key=lambda pair: -pair[0])


def _name(trainable: object) -> str:
    return str(getattr(trainable, "__qualname__", None) or type(trainable).__qualname__)


def not_picklable(trainable: object, found: Culprit | None, failure: Exception) -> str:
    """Return why a trainable cannot be pickled."""
    if found is None:
        return f"{_name(trainable)} cannot be sent to workers: {in_a_line(failure)}. {_ADVICE}."
    path = ", in it ".join(found.path)
    if isinstance(found.error, UnsendableError):
        words = found.error.words.format(name=_short_name(found.path[-1]))
        return f"{_name(trainable)} cannot be sent to workers: {path} is {words}."
    return (
        f"{_name(trainable)} cannot be sent to workers: {path} is of type {type_name(found.value)}, which cannot be "
        f"pickled ({in_a_line(found.error)}). {_ADVICE}."
    )


def _short_name(words: str) -> str:
    """Return the name in words such as ``the global variable 'rows'``."""
    _, quote, rest = words.partition("'")
    return rest.rpartition("'")[0] if quote else "it"


def executed_warnings(trainable: object, own: OwnModules) -> Iterator[str]:
    """Yield a warning for each module that workers execute or import because of one of its values."""
    for name, words in own.reasons.items():
        if own.executed[name] is None:
            yield (
                f"{_name(trainable)} cannot be sent by value because of {words or 'a class'}, so by name: each "
                f"worker must be able to import {name}. On a cluster, ship it with sc.addPyFile(...) or install it "
                "there."
            )
        elif words:
            yield f"Each worker runs the module {name} again, because of {words}, which cannot be sent."


def too_large(trainable: object, own: OwnModules) -> str:
    """Return why a trainable is not sent, with its largest values."""
    return (
        f"{_name(trainable)} captures more than {MAX_BYTES // _MB} MB, which would be sent to each worker: "
        f"{_largest(trainable, own)}. Load data inside the function with trial.once(...), from a place that all "
        "workers see."
    )


def size_warnings(trainable: object, data: bytes, own: OwnModules) -> tuple[str, ...]:
    """Return a warning if a trainable is large."""
    if len(data) <= WARN_BYTES:
        return ()
    text = (
        f"{_name(trainable)} captures {len(data) / _MB:.0f} MB, which are sent to each worker: "
        f"{_largest(trainable, own)}. Better load data inside the function with trial.once(...)."
    )
    return (text,)


def _largest(trainable: object, own: OwnModules) -> str:
    return "; ".join(
        f"{', in it '.join(path)}: {'more than ' if size > MAX_BYTES else ''}{min(size, MAX_BYTES) / _MB:.0f} MB"
        for size, path in _sizes(trainable, own)[:_SHOWN]
        if size >= _MB
    )

"""Packs the trainable for the runners, and explains why it cannot be sent.

The search's own code is sent by value: all of ``__main__``, and every module that is not installed. So workers need
the same packages, not the same folders.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from asyncsearch.errors import NotPicklableError
from asyncsearch.launch.module_plan import (
    LARGE_BYTES,
    UsedGlobalError,
    content_of,
    decide,
    execute_importers,
    state_of_executed,
    type_name,
)
from asyncsearch.launch.own_modules import OwnModules, is_own_source, sent_by_value
from asyncsearch.launch.reach import Reach, parts
from asyncsearch.launch.value_pickler import UnsendableError, ValuePickler
from asyncsearch.runner.process.sent_code import (
    WithSources,
    alias_modules,
    execute_modules,
    fill_module,
    last_of,
    set_state,
)

_MB = 1_000_000
WARN_BYTES = 10 * _MB
MAX_BYTES = 100 * _MB
_MAX_DEPTH = 6
_MAX_SEARCHED = 5 * _MB
"""Size up to which a pickle is searched for names of modules."""
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
    """Pickle a trainable, with the modules of the user's own that it uses.

    Raises:
        NotPicklableError: a captured value cannot be pickled, or is larger than ``MAX_BYTES``; names the value.
    """
    with sent_by_value() as own:
        try:
            data, files = _settled(trainable, own)
        except _TooLargeError:
            raise NotPicklableError(_too_large(trainable, own)) from None
        except UsedGlobalError as used:
            culprit = _Culprit((used.words,), used.value, used.error)
            raise NotPicklableError(_not_picklable(trainable, culprit, used)) from used.error
        except Exception as error:
            raise NotPicklableError(_not_picklable(trainable, _culprit(trainable, own), error)) from error
        return Bundle(data, (*_executed(trainable, own), *_size_warnings(trainable, data, own)), _nameless(own), files)


def _settled(trainable: object, own: OwnModules) -> tuple[bytes, frozenset[str]]:
    """Return the pickle with all that it needs, and the files that its functions are from."""
    reach: Reach | None = None
    while True:
        data, files, mentioned = _dumps(_Parcel(trainable, own) if own.sent else trainable, own)
        if len(data) <= _MAX_SEARCHED:
            mentioned |= {name for name in own.loaded() if name not in own.sent and _names_module(data, name)}
        found = own.with_packages(mentioned) - own.sent.keys()
        if not found:
            return data, files
        reach = reach or Reach(own, trainable)
        while found:
            for name in found:
                decide(own, name, reach, _size_or_error)
            execute_importers(own, _mentions)
            found = _found_in(found, own)


def _found_in(names: set[str], own: OwnModules) -> set[str]:
    """Return the modules that others bring along, which are still to be decided on: without a pickle of all for each.

    Where some are executed, what is sent of the others may still change: the pickle of all finds what is missing.
    """
    if own.executed:
        return set()
    modules = [module for name in names if (module := own.get(name)) is not None]
    content = [content_of(own, module, is_data=part) for part in (False, True) for module in modules]
    return own.with_packages(_dumps(content, own)[2]) - own.sent.keys()


def _names_module(data: bytes, name: str) -> bool:
    """Return whether a pickle has the name of a module as a word, as settings of other libraries do: ``mine.Net``."""
    text = name.encode()
    at = data.find(text)
    while at >= 0:
        after = data[at + len(text) : at + len(text) + 1]
        if not _is_of_word(after) and (not _is_of_word(data[at - 1 : at]) or _begins_text(data, at, len(text))):
            return True
        at = data.find(text, at + 1)
    return False


def _is_of_word(character: bytes) -> bool:
    return character.isalnum() or character == b"_"


def _begins_text(data: bytes, at: int, length: int) -> bool:
    """Return whether a text of at least this length begins here: the length before it may look like a letter."""
    return (data[at - 2 : at - 1] == pickle.SHORT_BINUNICODE and data[at - 1] >= length) or (
        data[at - 5 : at - 4] == pickle.BINUNICODE and int.from_bytes(data[at - 4 : at], "little") >= length
    )


class _Parcel:
    """A trainable with the modules of the user's own; unpickled, it is the trainable."""

    def __init__(self, trainable: object, own: OwnModules) -> None:
        self._trainable, self._own = trainable, own

    def __reduce__(self) -> tuple[Any, ...]:
        # In this order: modules may refer to each other, making a value may call a function of any module, and executed
        # modules may import those that come by value, which never refer to them.
        modules = self._own.by_value()
        steps: list[Any] = [modules]
        for part in (False, True):
            steps += [_Call(fill_module, module, content_of(self._own, module, is_data=part)) for module in modules]
        if self._own.executed:
            steps.append(_Call(execute_modules, self._own.sources()))
            steps.append(_Call(set_state, state_of_executed(self._own, _size_or_error)))
        steps.append(_Call(alias_modules, self._own.aliases()))
        return last_of, (*steps, self._trainable)


class _Call:
    """A call where it is unpickled."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self._function, self._arguments = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self._function, self._arguments


class _Counter:
    """Counts the written bytes and keeps none."""

    def __init__(self, most: int | None = None) -> None:
        self.size = 0
        self._most = MAX_BYTES if most is None else most

    def write(self, data: Any) -> int:
        length = memoryview(data).nbytes
        self.size += length
        if self.size > self._most:
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


def _dumps(value: object, own: OwnModules) -> tuple[bytes, frozenset[str], set[str]]:
    """Return the pickle of a value, the files that its functions are from, and the own modules that it mentions."""
    buffer = _Buffer()
    pickler = ValuePickler(buffer, own)
    pickler.dump(value)
    return bytes(buffer.data), frozenset(pickler.files), pickler.mentioned


def _tried(value: object, own: OwnModules, most: int | None = None, *, alone: bool = False) -> _Try:
    """Return the pickled size of a value, up to the first error, and the error.

    Args:
        most: bytes at which to end. None for ``MAX_BYTES``.
        alone: whether the members of own modules that it refers to do not count.
    """
    counter = _Counter(MAX_BYTES if most is None else most)
    try:
        ValuePickler(counter, own, value if alone else None).dump(value)
    except Exception as error:
        return _Try(counter.size, None if isinstance(error, _TooLargeError) else error)
    return _Try(counter.size, None)


class _Try(NamedTuple):
    """The result of an attempt to pickle."""

    size: int
    error: Exception | None


def _size_or_error(value: object, own: OwnModules, most: int) -> tuple[int, Exception | None]:
    return _tried(value, own, most, alone=True)


def _mentions(value: object, own: OwnModules) -> set[str]:
    pickler = ValuePickler(_Counter(LARGE_BYTES), own, value)
    with contextlib.suppress(Exception):  # what cannot be pickled is said by others
        pickler.dump(value)
    return pickler.mentioned


class _Culprit(NamedTuple):
    """A value that cannot be pickled: the path to it, the value and the error."""

    path: tuple[str, ...]
    value: object
    error: Exception


def _culprit(trainable: object, own: OwnModules) -> _Culprit | None:
    """Return the innermost part that fails by itself. None if no part fails alone."""
    found, seen = None, {id(trainable)}
    inner: object = trainable
    path: tuple[str, ...] = ()
    for _ in range(_MAX_DEPTH):
        for words, part in parts(inner, lambda module: own.get(module.__name__) is module):
            if id(part) in seen:
                continue
            seen.add(id(part))
            error = _tried(part, own).error
            if error is not None:
                path, inner = (*path, words), part
                found = _Culprit(path, part, error)
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
                sizes.append((_tried(part, own).size, (*path, words)))
    return sorted(sizes, key=lambda pair: -pair[0])


def _name(trainable: object) -> str:
    return str(getattr(trainable, "__qualname__", None) or type(trainable).__qualname__)


def _not_picklable(trainable: object, found: _Culprit | None, failure: Exception) -> str:
    if found is None:
        return f"{_name(trainable)} cannot be sent to workers: {_in_short(failure)}. {_ADVICE}."
    path = ", in it ".join(found.path)
    if isinstance(found.error, UnsendableError):
        words = found.error.words.format(name=_short_name(found.path[-1]))
        return f"{_name(trainable)} cannot be sent to workers: {path} is {words}."
    return (
        f"{_name(trainable)} cannot be sent to workers: {path} is of type {type_name(found.value)}, which cannot be "
        f"pickled ({_in_short(found.error)}). {_ADVICE}."
    )


def _short_name(words: str) -> str:
    """Return the name in words such as ``the global variable 'rows'``."""
    _, quote, rest = words.partition("'")
    return rest.rpartition("'")[0] if quote else "it"


def _executed(trainable: object, own: OwnModules) -> Iterator[str]:
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


def _nameless(own: OwnModules) -> tuple[str, ...]:
    return tuple(name for name, words in own.reasons.items() if words)


def _too_large(trainable: object, own: OwnModules) -> str:
    return (
        f"{_name(trainable)} captures more than {MAX_BYTES // _MB} MB, which would be sent to each worker: "
        f"{_largest(trainable, own)}. Load data inside the function with trial.once(...), from a place that all "
        "workers see."
    )


def _size_warnings(trainable: object, data: bytes, own: OwnModules) -> tuple[str, ...]:
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


def _in_short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".")


MAX_CHARS = 1_000_000
"""Of all files together; the largest ones are left out, and their tracebacks show no lines."""
_PACKAGE = f"{Path(__file__).parent.parent}{os.sep}"


def with_sources(bundle: Bundle) -> bytes:
    """Return the pickle of the trainable with the text of its files, read now, and the arguments of this process."""
    texts = {file: "".join(linecache.getlines(file)) for file in bundle.files if _is_users(file)}
    found: dict[str, str] = {}
    room = MAX_CHARS
    for file, text in sorted(texts.items(), key=lambda one: (len(one[1]), one[0])):
        room -= len(text)
        if text and room >= 0:
            found[file] = text
    return pickle.dumps(WithSources(bundle.data, found, sys.argv))


def _is_users(file: str) -> bool:
    """Whether a worker may lack a file: also ``<ipython-input-1-...>``, whose lines IPython keeps."""
    linecache.checkcache(file)
    return not file.startswith(_PACKAGE) and (file.startswith("<") or is_own_source(file))

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
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from asyncsearch.errors import NotPicklableError
from asyncsearch.launch.installed_modules import is_own_source
from asyncsearch.launch.module_plan import (
    LARGE_BYTES,
    UsedGlobalError,
    content_of,
    decide,
    execute_importers,
    state_of_executed,
)
from asyncsearch.launch.own_modules import OwnModules, sent_by_value
from asyncsearch.launch.reach import Reach
from asyncsearch.launch.unsendable import (
    Culprit,
    SizeCounter,
    TooLargeError,
    culprit_in,
    executed_warnings,
    not_picklable,
    size_warnings,
    too_large,
    tried,
)
from asyncsearch.launch.value_pickler import ValuePickler
from asyncsearch.runner.process.sent_code import (
    WithSources,
    alias_modules,
    execute_modules,
    fill_module,
    last_of,
    set_state,
)

_MAX_SEARCHED = 5_000_000
"""Size up to which a pickle is searched for names of modules."""


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


def pack(trainable: object) -> Bundle:
    """Pickle a trainable, with the modules of the user's own that it uses.

    Raises:
        NotPicklableError: a captured value cannot be pickled, or is larger than ``MAX_BYTES``; names the value.
    """
    with sent_by_value() as own:
        try:
            data, files = _settled(trainable, own)
        except TooLargeError:
            raise NotPicklableError(too_large(trainable, own)) from None
        except UsedGlobalError as used:
            culprit = Culprit((used.words,), used.value, used.error)
            raise NotPicklableError(not_picklable(trainable, culprit, used)) from used.error
        except Exception as error:
            raise NotPicklableError(not_picklable(trainable, culprit_in(trainable, own), error)) from error
        return Bundle(
            data, (*executed_warnings(trainable, own), *size_warnings(trainable, data, own)), _nameless(own), files
        )


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


class _Buffer(SizeCounter):
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


def _size_or_error(value: object, own: OwnModules, most: int) -> tuple[int, Exception | None]:
    return tried(value, own, most, alone=True)


def _mentions(value: object, own: OwnModules) -> set[str]:
    pickler = ValuePickler(SizeCounter(LARGE_BYTES), own, value)
    with contextlib.suppress(Exception):  # what cannot be pickled is said by others
        pickler.dump(value)
    return pickler.mentioned


def _nameless(own: OwnModules) -> tuple[str, ...]:
    return tuple(name for name, words in own.reasons.items() if words)


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

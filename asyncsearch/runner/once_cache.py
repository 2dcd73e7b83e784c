"""Values that a process computes once: data, tokenizers."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from asyncsearch.errors import UsageError
from asyncsearch.runner.once_identity import CallIdentity, ObjectNumbers, identity_of

T = TypeVar("T")

MOST_KEPT = 8
"""How many values of one function with the same arguments are kept: those that depend on other values that it reads."""


_LOOK_S = 0.2


class _Value:
    """A computed value, and the calls that it answers."""

    def __init__(self, value: Any, objects: tuple[int, ...]) -> None:
        self.value = value
        self.objects = frozenset(objects)


class _Turn:
    """The turn to look up and compute calls of one function with the same arguments."""

    def __init__(self) -> None:
        self.thread = 0
        """Ident of the thread. 0 if there is none."""
        self.depth = 0
        """How often it has entered: a function may call itself."""

    @property
    def is_taken(self) -> bool:
        """Whether a thread that still runs has the turn; an interrupt may end one before it gives it back."""
        return any(one.ident == self.thread for one in threading.enumerate())


class OnceCache:
    """Values by what their calls depend on, the last used ones of each function."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, _Value]] = {}
        """``head`` of an identity -> its ``digest`` -> the value, the last used one last."""
        self.numbers = ObjectNumbers(self.forget)
        self._computed: Counter[str] = Counter()
        """How often each function was computed that depends on objects that count as themselves."""
        self._turns: dict[str, _Turn] = {}
        self._changed = threading.Condition()
        self.computing: set[str] = set()
        """``head`` of each call that a thread computes now."""

    @contextmanager
    def turn(self, identity: CallIdentity) -> Iterator[None]:
        """Look up and compute a call alone: trials in threads ask for it at once.

        Others wait who call the function with these arguments. While one thread computes the call, what it reads may
        change, so that the identity which another thread finds meanwhile is neither the one before nor the one after.
        """
        me = threading.get_ident()
        with self._changed:
            turn = self._turns.setdefault(identity.head, _Turn())
            while turn.thread != me and turn.is_taken:
                # A thread that waits for ever could not be interrupted: it takes an exception at its next step alone.
                self._changed.wait(_LOOK_S)
            turn.depth = turn.depth + 1 if turn.thread == me else 1
            turn.thread = me
        try:
            yield
        finally:
            with self._changed:
                if turn.thread == me:  # else it was left, and the turn is another one's
                    turn.depth -= 1
                    turn.thread = me if turn.depth else 0
                    self._changed.notify_all()

    def leave(self, thread: int) -> None:
        """Let others compute what a thread computes that will not come back, by its ident."""
        with self._changed:
            for turn in self._turns.values():
                if turn.thread == thread:
                    turn.thread, turn.depth = 0, 0
            self._changed.notify_all()

    def get(self, identity: CallIdentity) -> _Value | None:
        """Return the value of an equal call."""
        values = self._values.get(identity.head, {})
        found = values.pop(identity.digest, None)
        if found is not None:
            values[identity.digest] = found
        return found

    def put(self, identities: tuple[CallIdentity, ...], value: Any, name: str) -> None:
        """Keep a value for calls with these identities: before the computation, and after it."""
        made = _Value(value, tuple(number for identity in identities for number in identity.objects))
        before = identities[0]
        if before.kinds:
            self._computed[name] += 1
            if self._computed[name] == 2:
                _note(name, ", ".join(before.kinds))
        for identity in identities:
            values = self._values.setdefault(identity.head, {})
            values[identity.digest] = made
            while len({id(one) for one in values.values()}) > MOST_KEPT:
                del values[next(iter(values))]

    def forget(self, number: int) -> None:
        """Drop the values of calls that depend on an object that has ended."""
        # Over copies: an object may end, and call this, in the middle of a call that adds values.
        for head, values in list(self._values.items()):
            for digest in [digest for digest, one in list(values.items()) if number in one.objects]:
                values.pop(digest, None)
            if not values:
                self._values.pop(head, None)


_cache = OnceCache()


def once(function: Callable[..., T], *args: Any) -> T:
    """Return ``function(*args)``, computed by the first of several equal calls in this process.

    Calls are equal if the functions have the same code, arguments, defaults and captured values, and if the globals,
    helpers and attributes of objects that they read are equal. Of a value without comparable content, such as a
    connection, only the same object is equal. Exceptions are not cached.

    Raises:
        UsageError: it is not a function.
    """
    if not callable(function):
        raise UsageError(
            f"once() is given {type(function).__name__}, the result of a call: pass the function itself, write "
            "trial.once(load_data) or trial.once(load_data, argument)."
        )
    before = identity_of(function, args, _cache.numbers)
    is_late = before.head in _cache.computing
    with _cache.turn(before):
        if is_late:
            before = identity_of(function, args, _cache.numbers)
        if (found := _cache.get(before)) is not None:
            value: T = found.value
            return value
        _cache.computing.add(before.head)
        try:
            value = function(*args)
            # It may have changed what it reads: a list of its calls, an attribute in which it keeps the result.
            name = getattr(function, "__qualname__", repr(function))
            _cache.put((before, identity_of(function, args, _cache.numbers)), value, name)
        finally:
            _cache.computing.discard(before.head)
    return value


def leave(thread: int) -> None:
    """Let other threads compute what a thread computes that was left to itself, by its ident."""
    _cache.leave(thread)


def _note(name: str, kinds: str) -> None:
    sys.stderr.write(
        f"asyncsearch: once({name}) is computed again: it depends on an object of type {kinds}, which is another one "
        "than before. Pass it what it depends on as arguments: numbers, texts, tuples of them.\n"
    )

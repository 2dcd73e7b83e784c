"""The knowledge of a process about packs of one class of trainers, for its later packs; and its printed sentences."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from asyncsearch.trainable import PackOutcome

T = TypeVar("T")


class Recent(dict[Hashable, Any]):
    """The values that were used last, at most so many."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def found(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key, made by the first call."""
        value = self.pop(key) if key in self else make()
        self.note(key, value)
        return value

    def note(self, key: Hashable, value: Any) -> None:
        """Let a key have a value from now on."""
        self[key] = value
        if len(self) > self._most:
            del self[next(iter(self))]


class KnownClass:
    """The knowledge about one class of trainers. Everything in it can be found out again, at the price of time."""

    def __init__(self) -> None:
        self.traps = Recent(1024)
        """Structures of which copies were trained -> why members cannot be one computation; empty if they can."""
        self.paddings = Recent(1024)
        """Structures of which copies were trained on padded batches -> why padding counts; None if it does not."""
        self.traced = Recent(32)
        """Traced steps and evaluations, of some megabytes each; a text says why there is none."""
        self.loss_reads: Any = None
        """The reads of the losses of trainers of this class; None if none was watched."""
        self.late_seed: Any = None
        """A weak reference to the trainer whose seed of the framework was put off, and the seed; None if none was."""
        self._printed: set[str] = set()

    def say(self, text: str, key: str = "") -> None:
        """Print a sentence once in this process; sentences with the same key are one."""
        if (key or text) not in self._printed:
            self._printed.add(key or text)
            sys.stderr.write(f"asyncsearch: {text}\n")


_known: dict[type, KnownClass] = {}
"""The only memory that packs have beyond themselves."""


def known_of(kind: type) -> KnownClass:
    """Return the knowledge of this process about a class of trainers."""
    if kind not in _known:
        _known[kind] = KnownClass()
    return _known[kind]


class PackReport:
    """Collects the outcome of one call of ``train_pack``, and prints its new sentences."""

    def __init__(self, kind: type) -> None:
        self._known = known_of(kind)
        self._refused = self._sequential = ""

    @property
    def outcome(self) -> PackOutcome:
        return PackOutcome(self._refused, self._sequential)

    def refuse(self, words: str) -> None:
        """Note that trainers are trained one after another."""
        self._refused, self._sequential = words, ""
        self._known.say(f"these trainings are not packed: {words}.")

    def note_sequential(self, words: str) -> None:
        """Note why some step one after another; the first reason counts."""
        self._sequential = self._sequential or words

    def say(self, text: str, key: str = "") -> None:
        """Print a sentence once in this process; sentences with the same key are one."""
        self._known.say(text, key)

"""A trainer that notes the reads of its loss, and that keeps the changes of the loss from the trainer itself."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from asyncsearch.packing.alike.structure import is_equal

CHANGING = ("net", "parallel", "opt", "scaler", "steps", "_applied", "_pack", "_left_states", "__dict__")
"""Attributes of a trainer that are its own, or change from step to step."""
COUNTERS = ("samples",)
"""Attributes that a trainer has of its class until it first trains."""
_WHOLE = (
    "__iter__",
    "__len__",
    "__eq__",
    "__ne__",
    "__or__",
    "__ror__",
    "__reversed__",
    "__repr__",
    "keys",
    "values",
    "items",
)
"""Methods of a dictionary that read all of it; ``dict(hp)`` and ``f(**hp)`` call some of them."""
_WATCHED = "__watched__"
_WRITERS = ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update")
"""Methods of a dictionary that change it."""


class Notes(Protocol):
    """Takes down the reads and writes of a loss."""

    own: str
    """Why trainers of the class train by themselves; empty if they need not."""

    def note(self, kind: str, name: str | None = None) -> None:
        """Note that something is read; None for all of it."""

    def note_write(self, name: str) -> None:
        """Note that an attribute of the trainer is written."""


class WatchedValues(dict[str, Any]):
    """Hyper-parameters that note their reads."""

    def __init__(self, values: Mapping[str, Any], kind: str, reads: Notes) -> None:
        super().__init__(values)
        self._kind, self._reads = kind, reads

    def __getitem__(self, name: str) -> Any:
        self._reads.note(self._kind, name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._reads.note(self._kind, name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self._reads.note(self._kind, str(name))
        return super().__contains__(name)

    def copy(self) -> dict[str, Any]:
        self._reads.note(self._kind)
        return dict(self)


def _reads_all(name: str) -> Callable[..., Any]:
    method = getattr(dict, name)

    def read(self: WatchedValues, *args: Any) -> Any:
        self._reads.note(self._kind)
        return method(self, *args)

    return read


def _writes(name: str) -> Callable[..., Any]:
    method = getattr(dict, name)

    def write(self: WatchedValues, *args: Any, **values: Any) -> Any:
        self._reads.note_write("hp")
        return method(self, *args, **values)

    return write


for _name in _WHOLE:
    setattr(WatchedValues, _name, _reads_all(_name))
for _name in _WRITERS:
    setattr(WatchedValues, _name, _writes(_name))


class WatchedTrial:
    """A trial that notes its reads."""

    def __init__(self, trial: Any, reads: Notes) -> None:
        self._trial, self._reads = trial, reads

    def __getattr__(self, name: str) -> Any:
        if name == "params":
            return WatchedValues(self._trial.params, "params", self._reads)
        found = getattr(self._trial, name)
        if name != "once":  # returns one object for all trials of a process
            if callable(found):
                self._reads.own = f"loss() calls self.trial.{name}(): read self.hp instead"
            self._reads.note("trial", name)
        return found


class Parts:
    """Copies of the attributes of a trainer, which a loss may change without writing them."""

    def __init__(self, own: Mapping[str, Any]) -> None:
        self._own = own
        self._copies: dict[str, Any] = {}
        self._uncopied: str | None = None

    def of(self, name: str) -> Any:
        """Return the copy of an attribute; the error ends a loss that would change an attribute without one."""
        if name not in self._copies:
            self._uncopied = name
            self._copies[name] = copy.deepcopy(self._own[name])
            self._uncopied = None
        return self._copies[name]

    def words(self) -> str:
        """Return why trainers with these attributes train by themselves; empty if they need not."""
        name = self._uncopied
        if name is not None:
            kind = type(self._own[name]).__name__
            return f"loss() reads self.{name}, a {kind}, which cannot be copied: use numbers, tensors and layers"
        changed = next((name for name, one in self._copies.items() if not is_equal(one, self._own[name])), None)
        return "" if changed is None else written(changed)


def spy_of(trainer: Any, reads: Notes, parts: Parts) -> Any:
    """Return a trainer with the attributes of another one that notes their reads; writes stay in it."""
    kind: Any = type(trainer)
    spy: Any = object.__new__(_spying(kind))
    own = object.__getattribute__(spy, "__dict__")
    own.update(vars(trainer))
    own[_WATCHED] = trainer, reads, parts
    return spy


@functools.lru_cache(maxsize=64)
def _spying(kind: type[Any]) -> type[Any]:
    """Return the class of trainers that note the reads of one of this class."""

    def read(self: Any, name: str) -> Any:
        mine = object.__getattribute__(self, "__dict__")
        trainer, reads, parts = mine[_WATCHED]
        own = vars(trainer)
        if name == "hp":
            return WatchedValues(parts.of("hp"), "hp", reads)
        if name == "trial":
            return WatchedTrial(own["trial"], reads)
        if name in own or name in COUNTERS or name in CHANGING:
            reads.note("self", name)
        return parts.of(name) if name in own and name not in CHANGING else object.__getattribute__(self, name)

    def write(self: Any, name: str, value: Any) -> None:
        object.__getattribute__(self, "__dict__")[_WATCHED][1].note_write(name)
        object.__setattr__(self, name, value)

    return type(kind.__name__, (kind,), {"__getattribute__": read, "__setattr__": write})


def written(name: str) -> str:
    """Return why trainers train by themselves whose loss changes an attribute."""
    return f"loss() changes self.{name}, which a pack does for one trainer only: leave it out"

"""Objects of the user's own as values of a choice: classes, functions, instances, whatever JSON lacks.

Params, journal and messages have an object by its name; trials, constraints and ``best_params`` get the object itself.
A process knows those of the spaces that it has built or, in a worker, received. In form it is a sequence: one that has
the same value at all times.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from asyncsearch.errors import SpaceError
from asyncsearch.sequences import parsing
from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.formulas import Formula, Piece, UnknownFunctionError, text_of
from asyncsearch.sequences.params import replaced
from asyncsearch.values import function_code

_LONGEST = 60
_NUMBERED = re.compile(r" \(\d+\)$")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Unknown:
    """Stands for an object that this process does not have."""


UNKNOWN = Unknown()


class _KnownObjects:
    """The objects that this process knows: of each name those of different content, the one that came last last."""

    def __init__(self) -> None:
        self._named: dict[str, dict[str, Any]] = {}

    def add(self, name: str, code: str, value: Any) -> None:
        named = self._named.setdefault(name, {})
        named.pop(code, None)
        named[code] = value

    def find(self, name: str, code: str) -> Any:
        """Return the object of this content, else the last one of the name: a name is what stays after an edit."""
        named = self._named.get(name, {})
        return named[code] if code in named else next(reversed(named.values()), UNKNOWN)


_known = _KnownObjects()


@dataclass(frozen=True)
class ObjectFormula(Formula):
    """An object, at any time."""

    name: str
    code: str

    @property
    def text(self) -> str:
        """The canonical text."""
        return f"object {text_of([self.name, self.code])}"

    def at(self, time: float) -> Any:
        found = _known.find(self.name, self.code)
        if found is UNKNOWN:
            raise UnknownFunctionError(
                f"The object {self.name!r} of a choice is not known here: it is in the program that made the study."
            )
        return found


@dataclass(frozen=True, repr=False)
class NamedObject(Sequence):
    """An object by its name."""

    kind: ClassVar[str] = "object"
    marks = frozenset({"code"})
    name: Annotated[Any, parsing.text]
    value: Any = field(default=UNKNOWN, compare=False)
    """The object. UNKNOWN if it is the one that is known under its name."""
    code: str = ""
    """Digest of its content."""

    def pieces_from(self, origin: int) -> Iterator[Piece]:
        yield Piece(origin, ObjectFormula(self.name, self.code))

    def to_json(self) -> dict[str, Any]:
        return {"sequence": self.kind, "name": self.name, "code": self.code}

    def rebuilt(self, arguments: Mapping[str, Any]) -> NamedObject:
        return NamedObject(**arguments, value=self.value, code=self.code)

    def call(self) -> str:
        return str(self.name)

    @property
    def is_numbered(self) -> bool:
        """Whether its place in the choice is what tells it from another one."""
        return _NUMBERED.search(self.name) is not None

    def is_of(self, value: Any) -> bool:
        """Return whether it stands for a value: the object itself, or a copy of the same name and content."""
        if value is self.value:
            return True
        is_like = type(value) is type(self.value) and name_of(value) == self.name
        return is_like and function_code.code_digest(value) == self.code

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._check()  # what a worker has received it knows

    def _check(self) -> None:
        if not isinstance(self.code, str):
            raise SpaceError(f"object(code=...): {self.code!r} is no text: leave it out.")
        if self.value is not UNKNOWN:
            _known.add(self.name, self.code, self.value)

    def _repr_svg_(self) -> None:
        return None

    def _repr_html_(self) -> None:
        return None


def named_objects(values: list[Any]) -> list[NamedObject]:
    """Return objects with names that tell them apart.

    Classes and functions of one name get that of their module too; what still has the name of another one is numbered.

    Raises:
        SpaceError: one of them comes twice.
    """
    if len({id(value) for value in values}) < len(values):
        twice = next(value for at, value in enumerate(values) if any(value is other for other in values[:at]))
        raise SpaceError(f"choice(...) has {name_of(twice)}, the same value twice: write it once.")
    short = list(map(name_of, values))
    names = [
        f"{value.__module__}.{name}" if short.count(name) > 1 and hasattr(value, "__qualname__") else name
        for name, value in zip(short, values, strict=True)
    ]
    found = []
    for at, (name, value) in enumerate(zip(names, values, strict=True)):
        number = f" ({names[:at].count(name) + 1})" if names.count(name) > 1 else ""
        found.append(NamedObject(f"{name}{number}", value, function_code.code_digest(value)))
    return found


def name_of(value: Any) -> str:
    """Return how people call an object, the same in each process: without addresses."""
    text = " ".join(_named(value).split())
    text = text.encode(errors="replace").decode()
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _named(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(getattr(value, "__qualname__", None), str):
        return str(value.__qualname__).rpartition("<locals>.")[2]
    if isinstance(value, functools.partial):
        given = [*map(_named, value.args), *(f"{name}={_named(one)}" for name, one in value.keywords.items())]
        return f"partial({', '.join([_named(value.func), *given])})"
    if type(value) in (list, tuple):
        texts = ", ".join(map(_named, value)) + ("," if isinstance(value, tuple) and len(value) == 1 else "")
        return f"[{texts}]" if isinstance(value, list) else f"({texts})"
    if type(value) is dict:
        return "{" + ", ".join(f"{_named(key)}: {_named(one)}" for key, one in value.items()) + "}"
    if type(value) in (set, frozenset):
        return "{" + ", ".join(sorted(map(_named, value))) + "}"
    represent: Any = type(value).__repr__
    if represent is object.__repr__:
        return f"{type(value).__qualname__.rpartition('<locals>.')[2]} object"
    try:
        return _ADDRESS.sub("", repr(value))
    except Exception:  # a repr that fails must not end a program that never shows the object
        return f"{type(value).__qualname__} object"


def written(sequence: Sequence) -> Any:
    """Return the value that a user has written for a sequence: the object itself for one that has a name only."""
    return sequence.at(0) if isinstance(sequence, NamedObject) else sequence


def with_names(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return params as JSON values in which objects print as their names."""
    return replaced(params, lambda sequence: sequence if isinstance(sequence, NamedObject) else sequence.to_json())


def with_known(params: Mapping[str, Any], own: Iterable[NamedObject] = ()) -> dict[str, Any]:
    """Return params in which each object that this process knows has the place of its name.

    Args:
        params: JSON values.
        own: objects of the search's space, which come before those of another search that are just like them.
    """
    mine = {(one.name, one.code): one for one in own}

    def known(sequence: Sequence) -> Any:
        found = mine.get((sequence.name, sequence.code)) if isinstance(sequence, NamedObject) else None
        return _known_or_json(sequence) if found is None or found.value is UNKNOWN else found.value

    return replaced(params, known)


def _known_or_json(sequence: Sequence) -> Any:
    try:
        return sequence.at(0) if isinstance(sequence, NamedObject) else sequence.to_json()
    except UnknownFunctionError:
        return sequence.to_json()

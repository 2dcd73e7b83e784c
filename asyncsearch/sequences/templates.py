"""Templates, sequences that contain domains: finding the domains, filling them, and matching a filled sequence.

A *slot* is the place of a domain, named by its path inside the sequence: ``gamma``, ``then.value``, ``milestones.0``.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from asyncsearch.errors import SpaceError
from asyncsearch.values.json_values import copy_plain, identity, show

S = TypeVar("S")
_SCALARS = frozenset((float, int, str, bool, type(None)))


class Undecided(abc.ABC):
    """A value that is decided for each trial, such as a domain of a space."""

    @abc.abstractmethod
    def examples(self) -> Iterable[Any]:
        """Return values that are valid only if all are: the values of a choice, the bounds of numbers."""

    @abc.abstractmethod
    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the user's own functions of time in its values: name -> function."""

    @abc.abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return a description as JSON values."""


class Items(tuple[Any, ...]):
    """Several values of one argument, each of which may be undecided; a list that is itself a value is a plain list."""

    __slots__ = ()


class Named(dict[str, Any]):
    """Named parameters of the user's own function, each of which may be undecided."""


def parse(parser: Callable[[Any], Any], value: Any) -> Any:
    """Return an argument as parsed; a domain is kept if the parser accepts all its examples.

    Raises:
        SpaceError: the parser refuses the argument, or an example of the domain.
    """
    if not isinstance(value, Undecided):
        return parser(value)
    for example in value.examples():
        try:
            parse(parser, example)
        except SpaceError as error:
            raise SpaceError(f"{error} It comes from {show(value)}.") from None
    return value


def inner(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of the direct parts of an argument or a sequence."""
    if isinstance(value, Named):
        yield from value.items()
    elif isinstance(value, Items):
        yield from ((str(index), item) for index, item in enumerate(value))
    elif hasattr(value, "parsers"):
        for name, argument in value.arguments().items():
            # The names of a function's own parameters need no prefix: `lr.height`, not `lr.parameters.height`.
            if isinstance(argument, Named):
                yield from argument.items()
            else:
                yield name, argument


def slots(value: Any, prefix: str = "") -> Iterator[tuple[str, Undecided]]:
    """Yield (slot, domain) of every domain in a sequence."""
    for name, item in inner(value):
        if isinstance(item, Undecided):
            yield prefix + name, item
        elif type(item) not in _SCALARS:
            yield from slots(item, f"{prefix}{name}.")


def is_open(value: Any) -> bool:
    """Return whether it contains a domain."""
    return next(slots(value), None) is not None


def fill(template: S, values: Mapping[str, Any]) -> S:
    """Return the sequence in which each slot has its value.

    Raises:
        SpaceError: the values do not make a sequence.
    """
    filled: S = _filled(template, values, "")
    return filled


def match(template: S, given: S) -> dict[str, Any]:
    """Return slot -> value with which ``fill`` makes ``given`` from the template.

    Raises:
        SpaceError: there are none; says where the two differ.
    """
    found: dict[str, Any] = {}
    _match(template, given, "", found)
    return found


def to_json(value: Any) -> Any:
    """Return a decided argument as JSON; a constant inside a sequence is its bare value."""
    if isinstance(value, Items):
        return [to_json(item) for item in value]
    if isinstance(value, Named):
        return {name: to_json(item) for name, item in value.items()}
    if hasattr(value, "parsers"):
        return copy_plain(value.value) if value.kind == "constant" else value.to_json()
    return copy_plain(value)


def sketch(value: Any) -> Any:
    """Return a template as JSON: as ``to_json``, but tagged ``template``, and with domains in their JSON form."""
    if isinstance(value, Undecided):
        return value.to_json()
    if isinstance(value, Items):
        return [sketch(item) for item in value]
    if isinstance(value, Named):
        return {name: sketch(item) for name, item in value.items()}
    if hasattr(value, "parsers") and is_open(value):
        return {"template": value.kind, **{name: sketch(item) for name, item in value.arguments().items()}}
    return to_json(value)


def show_argument(value: Any) -> str:
    """Return the code of an argument."""
    if isinstance(value, Items):
        return f"[{', '.join(map(show_argument, value))}]"
    if hasattr(value, "parsers") and value.kind == "constant":
        return show_argument(value.value)
    return repr(value)


def _filled(value: Any, values: Mapping[str, Any], where: str) -> Any:
    if isinstance(value, Undecided):
        return values[where]
    prefix = f"{where}." if where else ""
    if isinstance(value, Items):
        return Items(_filled(item, values, prefix + name) for name, item in inner(value))
    if isinstance(value, Named):
        return Named({name: _filled(item, values, prefix + name) for name, item in value.items()})
    if hasattr(value, "parsers"):
        if not is_open(value):
            return value
        return value.rebuilt(
            {
                name: _filled(item, values, where if isinstance(item, Named) else prefix + name)
                for name, item in value.arguments().items()
            }
        )
    return value


def _match(template: Any, given: Any, where: str, found: dict[str, Any]) -> None:
    if isinstance(template, Undecided):
        found[where] = to_json(given)
        return
    expected, actual = dict(inner(template)), dict(inner(given))
    same_kind = getattr(template, "kind", None) == getattr(given, "kind", None)
    if same_kind and expected and expected.keys() == actual.keys():
        for name, item in expected.items():
            _match(item, actual[name], f"{where}.{name}" if where else name, found)
    elif not same_kind or identity(to_json(template)) != identity(to_json(given)):
        place = f"{where} is " if where else ""
        raise SpaceError(f"{place}{show_argument(given)}, where the space has {show_argument(template)}.")

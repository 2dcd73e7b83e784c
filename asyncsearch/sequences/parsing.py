"""Parsers of the arguments of sequences.

Each function is a ``Parser``: it raises ``SpaceError`` with the rule and what to write; its caller adds the argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from itertools import pairwise
from typing import Any

from asyncsearch.errors import SpaceError
from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.templates import Items, Named, Undecided, parse
from asyncsearch.values.json_values import a_type, integer, plain, show
from asyncsearch.values.json_values import number as any_number


def is_tagged(value: Any) -> bool:
    """Return whether a value is the JSON form of a sequence: a dictionary whose ``"sequence"`` is a text."""
    return isinstance(value, Mapping) and isinstance(value.get("sequence"), str)


def from_json(value: Any) -> Sequence:
    """Return the sequence whose JSON form this is; arguments that have defaults may be missing.

    Raises:
        SpaceError: it is no JSON form of a sequence; says what is wrong.
    """
    if not is_tagged(value):
        raise SpaceError(f"{show(value)} is not a sequence: write {{'sequence': 'step', 'value': 0.1, ...}}.")
    arguments = dict(value)
    kind = Sequence._kinds.get(arguments.pop("sequence"))
    if kind is None:
        kinds = ", ".join(sorted(Sequence._kinds))
        raise SpaceError(
            f"There is no sequence {value['sequence']!r}; the kinds are {kinds}. A dictionary with a text named"
            " 'sequence' always stands for one: give yours another name."
        )
    unknown = [name for name in arguments if name not in kind.parsers and name not in kind.marks]
    if unknown:
        raise SpaceError(f"{kind.kind} has no argument {unknown[0]!r}: it has {', '.join(kind.parsers)}.")
    missing = [field.name for field in fields(kind) if _is_required(field) and field.name not in arguments]
    if missing:
        raise SpaceError(f"{show(value)} lacks {missing[0]!r}: {kind.kind} has {', '.join(kind.parsers)}.")
    return kind(**arguments)


def constant(value: Any) -> Any:
    """A JSON value without sequences in it."""
    _refuse_sequence(value, "chain([...], boundaries=[...]) puts sequences one after the other")
    result = plain(value)
    _refuse_inner(result)
    return result


def number(value: Any) -> float:
    """A finite number, as a float."""
    _refuse_sequence(value, "write a number")
    return any_number(value)


def int_or_float(value: Any) -> float:
    """A finite number; ints stay ints."""
    _refuse_sequence(value, "write a number")
    result = plain(value)
    if isinstance(result, bool) or not isinstance(result, int | float):
        raise SpaceError(f"{show(value)} is {a_type(value)}: write a number.")
    any_number(result)
    return result


def factor(value: Any) -> float:
    """A finite number from 0 on."""
    if (result := number(value)) < 0:
        raise SpaceError(f"{value!r} is negative: write a number from 0 on, such as 0.1.")
    return result


def positive(value: Any) -> float:
    """A finite number above 0."""
    if (result := number(value)) <= 0:
        raise SpaceError(f"{value!r} is not above 0: write a positive number.")
    return result


def units(value: Any) -> int:
    """A whole number of units of training, at least 1."""
    if (result := _whole(value)) < 1:
        raise SpaceError(f"{value!r} is less than one unit: write a whole number from 1 on.")
    return result


def units_or_zero(value: Any) -> int:
    """A whole number of units of training, at least 0."""
    if (result := _whole(value)) < 0:
        raise SpaceError(f"{value!r} is negative: write a whole number from 0 on.")
    return result


def _whole(value: Any) -> int:
    _refuse_sequence(value, "write a whole number")
    return integer(value)


def optional(parser: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """None, or the result of the parser."""
    return lambda value: None if value is None else parser(value)


def one_of(*names: str) -> Callable[[Any], str]:
    """One of some texts."""

    def parser(value: Any) -> str:
        if value not in names:
            raise SpaceError(f"{show(value)} is unknown: write one of {', '.join(map(repr, names))}.")
        return str(value)

    return parser


def items(parser: Callable[[Any], Any], what: str) -> Callable[[Any], Items]:
    """A list whose items are what the parser makes of them."""

    def parse_items(value: Any) -> Items:
        if isinstance(value, str | Mapping | Sequence) or not hasattr(value, "__iter__"):
            raise SpaceError(f"{show(value)} is {a_type(value)}: write a list of {what}.")
        return Items(parse(parser, item) for item in value)

    return parse_items


def times(value: Any) -> Items:
    """Moments at which something changes: whole units, at least 1, each larger than the one before."""
    found = items(_time, "whole numbers")(value)
    for earlier, later in pairwise(item for item in found if not isinstance(item, Undecided)):
        if earlier == later:
            raise SpaceError(f"{list(found)} has {later} twice: write each once.")
        if earlier > later:
            ordered = sorted(item for item in found if not isinstance(item, Undecided))
            raise SpaceError(f"{list(found)} is out of order: write them ascending, {ordered}.")
    return found


def sequence(value: Any) -> Sequence:
    """A sequence; any other value is one that stays."""
    if isinstance(value, Sequence):
        return value
    return from_json(value) if is_tagged(value) else Sequence._kinds["constant"](value)  # type: ignore[call-arg]


def named(value: Any) -> Named:
    """A dictionary of JSON values by their names."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) and name.isidentifier() for name in value):
        raise SpaceError(f"{show(value)} is {a_type(value)}: write a dictionary of parameters by their names.")
    return Named({name: parse(constant, item) for name, item in value.items()})


def text(value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise SpaceError(f"{show(value)} is not a name: write a text.")
    return str(plain(value))


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _time(value: Any) -> int:
    if (result := _whole(value)) < 1:
        raise SpaceError(
            f"{value!r} is {'negative' if result < 0 else 'the beginning, where no former value could have been'}: "
            "write units of training from 1 on."
        )
    return result


def _refuse_sequence(value: Any, advice: str) -> None:
    if isinstance(value, Sequence) or is_tagged(value):
        raise SpaceError(f"{show(value)} is a sequence where a constant is required: {advice}.")


def _refuse_inner(value: Any) -> None:
    _refuse_sequence(value, "a sequence cannot stand inside the values of another")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_inner(item)

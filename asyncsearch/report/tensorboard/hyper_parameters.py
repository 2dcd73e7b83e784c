"""Hyper-parameters as TensorBoard can show them: booleans, numbers or texts, and where they may lie. Pure."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from asyncsearch.sequences.flat_params import flat
from asyncsearch.space.domains import Domain
from asyncsearch.trial import Params

Scalar = bool | float | str


class ScalarKind(enum.Enum):
    """How the values of one parameter are shown."""

    BOOLEAN = "boolean"
    NUMBER = "number"
    TEXT = "text"


class ShownParameter(msgspec.Struct, frozen=True):
    """One parameter of a study."""

    name: str
    kind: ScalarKind
    choices: tuple[Scalar, ...] = ()
    """All its values; empty if they are not known, or not a few."""
    interval: tuple[float, float] | None = None
    """Its least and its greatest number; None if it has none, or they are not known."""


def shown_parameters(configurations: Iterable[Params], domains: Mapping[str, Domain]) -> list[ShownParameter]:
    """Return the parameters of a study, sorted by name.

    Args:
        configurations: those of all trials.
        domains: as far as they are known, by the dotted name of the parameter.
    """
    values: dict[str, list[Any]] = {}
    for configuration in configurations:
        for name, value in flat(configuration):
            values.setdefault(name, []).append(value)
    return [_shown(name, values[name], domains.get(name)) for name in sorted(values)]


def scalar_of(value: Any, kind: ScalarKind) -> Scalar:
    """Return a value as it is shown; a schedule is the text that people write."""
    if kind is ScalarKind.BOOLEAN:
        return bool(value)
    return _number(value) if kind is ScalarKind.NUMBER else str(value)


def _number(value: float) -> float:
    """Return a number as the event format has it; an integer that is too large for it is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _shown(name: str, values: list[Any], domain: Domain | None) -> ShownParameter:
    options = _choices(domain)
    kind = _kind([*values, *options])
    choices = tuple(dict.fromkeys(scalar_of(value, kind) for value in options))
    return ShownParameter(name, kind, choices, _interval(domain) if kind is ScalarKind.NUMBER else None)


def _kind(values: list[Any]) -> ScalarKind:
    if all(isinstance(value, bool) for value in values):
        return ScalarKind.BOOLEAN
    are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return ScalarKind.NUMBER if are_numbers else ScalarKind.TEXT


def _choices(domain: Domain | None) -> list[Any]:
    """Return the values of a choice; none if one of them is a schedule, a list or the like."""
    given = list(domain.grid(None)) if domain is not None and domain.kind == "choice" else []
    return given if all(isinstance(value, bool | int | float | str | None) for value in given) else []


def _interval(domain: Domain | None) -> tuple[float, float] | None:
    given = {} if domain is None else domain.arguments()
    low, high = given.get("low"), given.get("high")
    return None if low is None or high is None else (_number(low), _number(high))

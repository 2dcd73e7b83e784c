"""Conditions across a whole space: the order in which parameters are decided, and conditions that can never hold.

Rule 1: pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from asyncsearch.errors import SpaceError
from asyncsearch.space.conditions import Condition, merge_conditions
from asyncsearch.space.domains import Domain
from asyncsearch.space.dotted_names import did_you_mean


def decision_order(parameters: Mapping[str, Domain]) -> tuple[str, ...]:
    """Return the names in the order of declaration, except that what a condition asks about comes first.

    Raises:
        SpaceError: a condition asks about an unknown parameter, about itself in a circle, or for what can never be.
    """
    for name, domain in parameters.items():
        for condition in domain.conditions:
            _check_parent(name, condition, parameters)
    order: dict[str, None] = {}
    for name in parameters:
        _visit(name, parameters, order, ())
    _check_chains(parameters, tuple(order))
    return tuple(order)


def _check_parent(name: str, condition: Condition, parameters: Mapping[str, Domain]) -> None:
    parent = parameters.get(condition.parent)
    if parent is None:
        raise SpaceError(f"{name}: its condition ({condition}) names {_no_parameter(condition.parent, parameters)}")
    if parent.size is None:
        raise SpaceError(
            f"{name}: its condition ({condition}) asks for single values of {parent!r}, which is continuous and never "
            "takes them: make the condition on a choice(), randint() or quniform()."
        )
    for value in condition.values:
        try:
            parent.accept(value)
        except SpaceError as error:
            hint = " For any of several values write a tuple." if isinstance(value, list) else ""
            raise SpaceError(
                f"{name}: its condition ({condition}) asks for what {condition.parent!r} can never be: {error}{hint}"
            ) from None


def _no_parameter(parent: str, parameters: Mapping[str, Domain]) -> str:
    inside = [other for other in parameters if other.startswith(f"{parent}.")]
    if inside:
        return f"{parent!r}, which is a group: name one of its parameters, e.g. {inside[0]!r}."
    return (
        f"{parent!r}, which the space does not have; {did_you_mean(parent, parameters)} "
        "Names are written in full, from the top of the space."
    )


def _visit(name: str, parameters: Mapping[str, Domain], order: dict[str, None], trail: tuple[str, ...]) -> None:
    if name in trail:
        circle = " -> ".join([*trail[trail.index(name) :], name])
        raise SpaceError(f"{name}: conditions go in a circle, {circle}: drop one of them.")
    if name in order:
        return
    for condition in parameters[name].conditions:
        _visit(condition.parent, parameters, order, (*trail, name))
    order[name] = None


def _check_chains(parameters: Mapping[str, Domain], order: tuple[str, ...]) -> None:
    """Refuse a parameter whose conditions and those of its parents exclude each other."""
    needed: dict[str, tuple[Condition, ...]] = {}
    for name in order:
        merged = parameters[name].conditions
        for condition in parameters[name].conditions:
            try:
                merged = merge_conditions(merged, needed[condition.parent])
            except SpaceError as error:
                raise SpaceError(f"{name}: with the conditions of {condition.parent!r}, {error}") from None
        needed[name] = merged

"""``Space``: what a study searches.

Rule 1: pure; all randomness comes from the generator that a method is given.
Rule 2: a configuration is *flat* (dotted name -> value) inside and nested, as the user declared it, outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from asyncsearch.errors import SpaceError
from asyncsearch.randomness import generator as make_generator
from asyncsearch.space.constraints import Constraint, first_failing, name_constraint, parse_constraints
from asyncsearch.space.dependencies import decision_order
from asyncsearch.space.domains import Constant, Domain
from asyncsearch.space.tree import flatten_params, flatten_space, nest
from asyncsearch.space.values import show
from asyncsearch.trial import Params

MAX_CANDIDATES = 1000
"""How many candidates are drawn for one configuration before the constraints are given up."""

_PROBES = 16


class Space:
    """Parameters with their domains, constraints between them, and points to begin with. Never changes.

    Example::

        Space(
            {
                "optimizer": choice("sgd", "adam"),
                "momentum": uniform(0, 0.99).when(optimizer="sgd"),
                "model": {"layers": randint(1, 4), "width": lograndint(16, 1024), "activation": "relu"},
            },
            constraints=[lambda params: params["model"]["layers"] * params["model"]["width"] <= 2048],
            initial=[{"optimizer": "adam"}],
        )

    Params come out nested alike, in the order of declaration, as plain Python values. A parameter whose
    conditions do not hold is absent, and so is a group of which nothing is left.
    """

    def __init__(
        self,
        parameters: Mapping[str, Any],
        *,
        constraints: Iterable[Constraint] = (),
        initial: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Check everything that can be checked before a worker starts.

        Args:
            parameters: Name -> domain, constant (any JSON value; ``constant()`` for lists) or mapping of the same.
            constraints: Functions of params that return whether the configuration is allowed.
            initial: Params that are proposed first, whole or in part; the rest of a point is drawn.

        Raises:
            SpaceError: something is malformed; the message names the parameter, the value, the rule and what to write.
        """
        self._parameters = flatten_space(parameters)
        self._order = decision_order(self._parameters)
        self._constraints = parse_constraints(constraints)
        self._probe_constraints()
        self._initial = self._parse_initial(initial)

    @classmethod
    def of(cls, space: Mapping[str, Any] | Space) -> Space:
        """Return a space as it is, or make one of a mapping.

        Raises:
            SpaceError: the mapping is no space.
        """
        return space if isinstance(space, Space) else cls(space)

    @property
    def parameters(self) -> Mapping[str, Domain]:
        """Dotted name -> domain, in the order of declaration; constants are domains of one value."""
        return MappingProxyType(self._parameters)

    @property
    def order(self) -> tuple[str, ...]:
        """Dotted names in the order in which they are decided: that of declaration, but parents before children."""
        return self._order

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints, in the order in which they are asked."""
        return self._constraints

    @property
    def initial(self) -> tuple[Params, ...]:
        """The initial points, whole or in part, as plain values."""
        return tuple(nest(point) for point in self._initial)

    def sample(self, generator: np.random.Generator) -> Params:
        """Draw params that every constraint allows.

        Raises:
            SpaceError: the constraints rejected 1000 candidates in a row, or one raised or returned no bool.
        """
        return self._draw_allowed({}, generator)

    def complete(self, point: Mapping[str, Any], generator: np.random.Generator) -> Params:
        """Draw what is missing in partial params.

        Raises:
            SpaceError: the point does not fit the space, or the constraints rejected 1000 completions.
        """
        return self._draw_allowed(self._parse_point(point), generator)

    def validate(self, params: Mapping[str, Any]) -> None:
        """Refuse params that the space does not have.

        Raises:
            SpaceError: says which parameter has which value, the rule, and what to write instead.
        """
        self._refuse_rejected(self._accept_all(self.flatten(params)))

    def contains(self, params: Mapping[str, Any]) -> bool:
        """Return whether ``validate`` passes."""
        try:
            self.validate(params)
        except SpaceError:
            return False
        return True

    def allows(self, flat: Mapping[str, Any]) -> bool:
        """Return whether every constraint allows a flat configuration of plain values.

        Raises:
            SpaceError: a constraint raised or returned no bool.
        """
        return self._rejecting(flat) is None

    def is_active(self, name: str, flat: Mapping[str, Any]) -> bool:
        """Return whether a parameter exists where its parents have these values."""
        return all(condition.holds(flat) for condition in self._parameters[name].conditions)

    def flatten(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return dotted name -> value of nested params, without looking at the values.

        Raises:
            SpaceError: a name that the space does not have.
        """
        return flatten_params(params, self._parameters)

    def nest(self, flat: Mapping[str, Any]) -> Params:
        """Return nested params, in the order of declaration, of dotted name -> plain value."""
        return nest({name: flat[name] for name in self._parameters if name in flat})

    def describe(self) -> list[str]:
        """Return lines for people: one for each parameter, constraint and initial point."""
        width = max(map(len, self._parameters))
        lines = [f"{name:<{width}}  {_describe(domain)}" for name, domain in self._parameters.items()]
        lines += [f"only where {name} holds" for name in self._constraint_names()]
        lines += [f"first {show(point)}" for point in self.initial]
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return a description as JSON values; of constraints only the names."""
        return {
            "parameters": {name: domain.to_json() for name, domain in self._parameters.items()},
            "constraints": self._constraint_names(),
            "initial": list(self.initial),
        }

    def __repr__(self) -> str:
        more = f", constraints=[{', '.join(self._constraint_names())}]" if self._constraints else ""
        return f"Space({nest(self._parameters)!r}{more}{f', initial={list(self.initial)!r}' if self._initial else ''})"

    def _constraint_names(self) -> list[str]:
        return [name_constraint(self._constraints, index) for index in range(len(self._constraints))]

    def _rejecting(self, flat: Mapping[str, Any]) -> int | None:
        return first_failing(self._constraints, lambda: self.nest(flat))

    def _refuse_rejected(self, flat: Mapping[str, Any]) -> None:
        rejecting = self._rejecting(flat)
        if rejecting is not None:
            name = name_constraint(self._constraints, rejecting)
            raise SpaceError(f"{name} rejects {show(self.nest(flat))}: change the values or the constraint.")

    def _draw(self, given: Mapping[str, Any], generator: np.random.Generator) -> dict[str, Any]:
        flat: dict[str, Any] = {}
        for name in self._order:
            if self.is_active(name, flat):
                flat[name] = given[name] if name in given else self._parameters[name].sample(generator)
        return flat

    def _draw_allowed(self, given: Mapping[str, Any], generator: np.random.Generator) -> Params:
        rejected = [0] * len(self._constraints)
        for _ in range(MAX_CANDIDATES):
            flat = self._draw(given, generator)
            rejecting = self._rejecting(flat)
            if rejecting is None:
                return self.nest(flat)
            rejected[rejecting] += 1
        worst = max(range(len(rejected)), key=rejected.__getitem__)
        candidates = f"candidates that complete {show(nest(given))}" if given else "candidates"
        name = name_constraint(self._constraints, worst)
        raise SpaceError(
            f"The constraints rejected all of {MAX_CANDIDATES} {candidates}; {name} rejected most, "
            f"{rejected[worst]}. Loosen it, or choose domains in which more configurations pass."
        )

    def _probe_constraints(self) -> None:
        """Ask the constraints about a few candidates: a broken one must be known before the search."""
        if self._constraints:
            for number in range(_PROBES):
                self._rejecting(self._draw({}, make_generator(0, "space.probe", number)))

    def _parse_initial(self, initial: Any) -> tuple[dict[str, Any], ...]:
        if isinstance(initial, str | Mapping) or not isinstance(initial, Iterable):
            raise SpaceError(f"initial={show(initial)}: write a list of points, initial=[{{...}}].")
        points = []
        for index, point in enumerate(initial):
            try:
                points.append(self._parse_point(point))
            except SpaceError as error:
                raise SpaceError(f"initial[{index}]: {error}") from None
        return tuple(points)

    def _parse_point(self, point: Any) -> dict[str, Any]:
        """Return the accepted values of partial params."""
        given = self.flatten(point)
        flat: dict[str, Any] = {}
        missing = False
        for name in self._order:
            domain = self._parameters[name]
            if name in given:
                flat[name] = self._accept(name, given[name], flat)
            elif self.is_active(name, flat) and domain.size == 1:
                flat[name] = domain.grid(None)[0]
            else:
                missing = missing or self.is_active(name, flat)
        if not missing:
            self._refuse_rejected(flat)
        return {name: flat[name] for name in given}

    def _accept_all(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the accepted values of whole params."""
        flat: dict[str, Any] = {}
        for name in self._order:
            if name in given:
                flat[name] = self._accept(name, given[name], flat)
            elif self.is_active(name, flat):
                raise SpaceError(f"{name}: it is missing; give it a value of {self._parameters[name].call()}.")
        return flat

    def _accept(self, name: str, value: Any, flat: Mapping[str, Any]) -> Any:
        for condition in self._parameters[name].conditions:
            if not condition.holds(flat):
                advice = "" if condition.parent in flat else f"give {condition.parent!r} too, or "
                raise SpaceError(f"{name}: it is given, but exists only where {condition}: {advice}leave it out.")
        try:
            return self._parameters[name].accept(value)
        except SpaceError as error:
            raise SpaceError(f"{name}: {error}") from None


def _describe(domain: Domain) -> str:
    what = repr(domain.value) if isinstance(domain, Constant) else domain.call()
    return f"{what}  where {' and '.join(map(str, domain.conditions))}" if domain.conditions else what

"""Constraints, the user's functions of params that allow a configuration, and the candidates that they may reject.

Rule: as pure as the user's functions; nothing is kept between calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from asyncsearch.errors import SpaceError
from asyncsearch.randomness import generator as make_generator
from asyncsearch.sequences.objects import written
from asyncsearch.sequences.params import replaced
from asyncsearch.space.domains import Domain
from asyncsearch.space.parameter_values import a_type, is_numpy_scalar, show
from asyncsearch.space.parameters import ParameterNode
from asyncsearch.trial import Params

if TYPE_CHECKING:
    import numpy as np


Constraint: TypeAlias = "Callable[[Params], bool | np.bool_]"


def parse_constraints(constraints: Any) -> tuple[Constraint, ...]:
    """Return the constraints as a tuple.

    Raises:
        SpaceError: not an iterable of callables.
    """
    if callable(constraints):
        raise SpaceError(f"constraints={show(constraints)}: write a list, constraints=[...].")
    if isinstance(constraints, str) or not isinstance(constraints, Iterable):
        raise SpaceError(f"constraints={show(constraints)}: write a list of functions of params that return a bool.")
    parsed = tuple(constraints)
    for index, constraint in enumerate(parsed):
        if not callable(constraint):
            raise SpaceError(
                f"constraints[{index}]: {show(constraint)} is {a_type(constraint)}, it cannot be called: "
                "write a function of params that returns a bool, e.g. lambda params: params['a'] < params['b']."
            )
    return parsed


def first_failing(constraints: Sequence[Constraint], make_params: Callable[[], Params]) -> int | None:
    """Return the index of the first constraint that rejects the params, or None.

    ``make_params`` makes them anew for each constraint: one that changes its argument would otherwise change the trial.

    Raises:
        SpaceError: a constraint raises, or returns no bool.
    """
    for index in range(len(constraints)):
        if not _passes(constraints, index, make_params()):
            return index
    return None


def name_constraint(constraints: Sequence[Constraint], index: int) -> str:
    """Return how people find a constraint: ``constraints[0] (lambda at search.py:12)``."""
    constraint = constraints[index]
    name = getattr(constraint, "__name__", type(constraint).__name__)
    code = getattr(constraint, "__code__", None)
    place = f" at {PurePath(code.co_filename).name}:{code.co_firstlineno}" if code is not None else ""
    return f"constraints[{index}] ({'lambda' if name == '<lambda>' else name}{place})"


def _passes(constraints: Sequence[Constraint], index: int, params: Params) -> bool:
    try:
        result: Any = constraints[index](params)
    except Exception as error:
        hint = " It must return True or False for every configuration."
        if isinstance(error, KeyError):
            hint = " A parameter is absent where its conditions do not hold: use params.get(name)."
        raise SpaceError(
            f"{name_constraint(constraints, index)} raised {type(error).__name__}: {error} for {show(params)}.{hint}"
        ) from error
    if not isinstance(result, bool) and not (is_numpy_scalar(result) and isinstance(result.item(), bool)):
        hint = " Is a return missing?" if result is None else ""
        raise SpaceError(
            f"{name_constraint(constraints, index)} returned {show(result)} ({a_type(result)}) for {show(params)}: "
            f"it must return True or False.{hint}"
        )
    return bool(result)


MAX_CANDIDATES = 1000
"""How many candidates are drawn for one configuration before the search gives up."""

_PROBES = 16


class Rejection(NamedTuple):
    """The constraint that rejects a configuration, and its words."""

    name: str
    message: str


class Candidates(NamedTuple):
    """The parts of a space from which configurations are drawn, flat, and by which they are rejected."""

    parameters: Mapping[str, Domain]
    order: Sequence[str]
    """The names of the parameters, parents before children."""
    templates: Mapping[str, ParameterNode]
    """The sequences that contain domains."""
    constraints: tuple[Constraint, ...]
    nest: Callable[[Mapping[str, Any]], Params]
    """Returns the params of a flat configuration."""

    @property
    def constraint_names(self) -> list[str]:
        """The names of the constraints, for people."""
        return [name_constraint(self.constraints, index) for index in range(len(self.constraints))]

    def is_active(self, name: str, flat: Mapping[str, Any]) -> bool:
        """Return whether a parameter exists where its parents have these values."""
        return all(condition.holds(flat) for condition in self.parameters[name].conditions)

    def rejection(self, flat: Mapping[str, Any]) -> Rejection | None:
        """Return the first that rejects a configuration. None if nobody does.

        Raises:
            SpaceError: a constraint raised or returned no bool.
        """
        for path in self.templates:
            ill_made = self._ill_made(path, flat)
            if ill_made is not None:
                return ill_made
        index = first_failing(self.constraints, lambda: replaced(self.nest(flat), written))
        if index is None:
            return None
        name = name_constraint(self.constraints, index)
        return Rejection(name, f"{name} rejects {show(self.nest(flat))}: change the values or the constraint.")

    def draw(self, given: Mapping[str, Any], generator: np.random.Generator) -> Params:
        """Draw the missing values of a configuration until nobody rejects it, and return its params.

        Raises:
            SpaceError: 1000 candidates in a row were rejected, or a constraint raised or returned no bool.
        """
        rejected: dict[str, list[Rejection]] = {name: [] for name in self.constraint_names}
        for _ in range(MAX_CANDIDATES):
            flat = self._draw_once(given, generator)
            rejection = self.rejection(flat)
            if rejection is None:
                return self.nest(flat)
            rejected.setdefault(rejection.name, []).append(rejection)
        name, worst = max(rejected.items(), key=lambda pair: len(pair[1]))
        candidates = f"candidates that complete {show(self.nest(given))}" if given else "candidates"
        reason = "" if name in self.constraint_names else f" ({worst[0].message.rstrip('.')})"
        raise SpaceError(
            f"The constraints rejected all of {MAX_CANDIDATES} {candidates}; {name} rejected most, "
            f"{len(worst)}{reason}. Loosen it, or choose domains in which more configurations pass."
        )

    def probe(self) -> None:
        """Ask about a few candidates: a broken constraint or sequence must be known before the search.

        Raises:
            SpaceError: a constraint raised or returned no bool, or no candidate makes a certain sequence.
        """
        for number in range(_PROBES if self.constraints else 0):
            self.rejection(self._probed(number))
        for path in self.templates:
            self._probe_sequence(path)

    def _draw_once(self, given: Mapping[str, Any], generator: np.random.Generator) -> dict[str, Any]:
        flat: dict[str, Any] = {}
        for name in self.order:
            if self.is_active(name, flat):
                flat[name] = given[name] if name in given else self.parameters[name].sample(generator)
        return flat

    def _ill_made(self, path: str, flat: Mapping[str, Any]) -> Rejection | None:
        """Return the error of a sequence. None if there is none, or if the sequence is not all there."""
        node = self.templates[path]
        if node.is_whole(flat):
            try:
                node.assemble(flat)
            except SpaceError as error:
                return Rejection(f"the sequence {path!r}", f"{path}: {error}")
        return None

    def _probe_sequence(self, path: str) -> None:
        message = ""
        for number in range(MAX_CANDIDATES):
            rejection = self._ill_made(path, self._probed(number))
            if rejection is None:
                return
            message = message or rejection.message
        raise SpaceError(message)

    def _probed(self, number: int) -> dict[str, Any]:
        return self._draw_once({}, make_generator(0, "space.probe", number))

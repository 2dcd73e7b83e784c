"""Configurations that are drawn, and who rejects them: a constraint, or a sequence that their values do not make.

Rule 1: pure; all randomness comes from the generator that a method is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from asyncsearch.errors import SpaceError
from asyncsearch.randomness import generator as make_generator
from asyncsearch.sequences.decoding import replaced
from asyncsearch.space.constraints import Constraint, first_failing, name_constraint
from asyncsearch.space.domains import Domain
from asyncsearch.space.parameter_values import show
from asyncsearch.space.parameters import ParameterNode
from asyncsearch.trial import Params

if TYPE_CHECKING:
    import numpy as np

MAX_CANDIDATES = 1000
"""How many candidates are drawn for one configuration before the search gives up."""

_PROBES = 16


class Rejection(NamedTuple):
    """Who rejects a configuration, and what it says."""

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
        """Return who rejects a configuration first; None: nobody does.

        Raises:
            SpaceError: a constraint raised or returned no bool.
        """
        for path in self.templates:
            ill_made = self._ill_made(path, flat)
            if ill_made is not None:
                return ill_made
        index = first_failing(self.constraints, lambda: replaced(self.nest(flat), lambda sequence: sequence))
        if index is None:
            return None
        name = name_constraint(self.constraints, index)
        return Rejection(name, f"{name} rejects {show(self.nest(flat))}: change the values or the constraint.")

    def draw(self, given: Mapping[str, Any], generator: np.random.Generator) -> Params:
        """Draw what is missing in a configuration until nobody rejects it, and return its params.

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
        """Return what is wrong with a sequence; None: nothing, or it is not all there."""
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

"""``Space``: the parameters that a study searches, with their domains and constraints.

Rule 1: pure; all randomness comes from the generator that a method is given.
Rule 2: a configuration is *flat* (dotted name -> value) inside and nested, as the user declared it, outside. A sequence
with domains in it is several flat values inside and one value, its JSON form, outside.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from asyncsearch.checked_calls import answering
from asyncsearch.errors import SpaceError
from asyncsearch.sequences import NamedObject, custom_sequences, has_sequences
from asyncsearch.sequences.objects import with_names
from asyncsearch.space.constraints import Candidates, Constraint, parse_constraints
from asyncsearch.space.dependencies import decision_order
from asyncsearch.space.domains import Choice, Constant, Domain
from asyncsearch.space.dotted_names import flatten_params, flatten_space, nest, put
from asyncsearch.space.parameter_values import copy_plain, show, show_plain
from asyncsearch.space.parameters import Chosen, Leaf, ParameterNode, node_of
from asyncsearch.trial import Params

if TYPE_CHECKING:
    import numpy as np


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

    Params are nested in the same way, in the order of declaration, as plain Python values. A parameter whose
    conditions do not hold is absent, and so is a group that would be empty.

    Any value may be a sequence, and a sequence may contain domains: as ``lr``,
    ``exponential(0.1, gamma=choice(0.9, 0.95))`` makes a parameter ``lr.gamma``, and params have the whole sequence in
    its JSON form as ``lr``. Constraints see sequences as objects, ``params["lr"].at(0)``. Domains whose values make no
    sequence together (milestones out of order) are drawn again, as if a constraint rejected them.
    """

    @answering("Space", "Space({'lr': loguniform(1e-4, 1e-1)})")
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
        declared = flatten_space(parameters)
        self._nodes = {path: node_of(path, value) for path, value in declared.items()}
        self._parameters = dict(pair for node in self._nodes.values() for pair in node.parameters())
        self._templates = {path: node for path, node in self._nodes.items() if not isinstance(node, Leaf)}
        self._functions = custom_sequences.functions_in(list(declared.values()))
        self._versions = custom_sequences.versions_in(list(declared.values()))
        self._make_known()
        self._order = decision_order(self._parameters)
        self._constraints = parse_constraints(constraints)
        self._candidates.probe()
        self._initial = self._parse_initial(initial)

    @classmethod
    def of(cls, space: Mapping[str, Any] | Space) -> Space:
        """Return a space as it is, or make one of a mapping.

        Raises:
            SpaceError: the mapping is no space.
        """
        return space if isinstance(space, Space) else cls(space)

    @classmethod
    def open(cls) -> Space:
        """Return a space whose parameters are not known before a trial asks for them, as in a program of Optuna."""
        space = cls({"open": True})
        space._nodes, space._parameters, space._order = {}, {}, ()
        return space

    @property
    def is_open(self) -> bool:
        """Whether its parameters are not known before a trial asks for them."""
        return not self._nodes

    def with_initial(self, points: Iterable[Mapping[str, Any]]) -> Space:
        """Return a copy that proposes these points too, after its own initial ones.

        Raises:
            SpaceError: a point does not fit the space.
        """
        copied = copy.copy(self)
        copied._initial = (*self._initial, *self._parse_initial(points))
        return copied

    def with_parameters(self, parameters: Mapping[str, Domain]) -> Space:
        """Return a copy that has these parameters too, after its own, under names that it does not have."""
        copied = copy.copy(self)
        copied._nodes = self._nodes | {path: node_of(path, value) for path, value in parameters.items()}
        copied._parameters = dict(pair for node in copied._nodes.values() for pair in node.parameters())
        copied._order = decision_order(copied._parameters)
        return copied

    @property
    def parameters(self) -> Mapping[str, Domain]:
        """Dotted name -> domain, in the order of declaration; constants are domains of one value."""
        return MappingProxyType(self._parameters)

    @property
    def names(self) -> frozenset[str]:
        """Dotted names of all that params may have: parameters, and sequences as a whole."""
        return frozenset(self._nodes)

    @property
    def order(self) -> tuple[str, ...]:
        """Dotted names in the order in which they are decided: that of declaration, but parents before children."""
        return self._order

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints, in the order in which they are asked."""
        return self._constraints

    @property
    def is_constrained(self) -> bool:
        """Whether configurations may be rejected: by a constraint, or since their values make no sequence together."""
        return bool(self._constraints or self._templates)

    @property
    def has_sequences(self) -> bool:
        """Whether a value of some parameter is or has a sequence."""
        fixed = (domain for domain in self._parameters.values() if isinstance(domain, Choice | Constant))
        has_templates = any(node.has_template for node in self._templates.values())
        return has_templates or any(has_sequences(domain.arguments()) for domain in fixed)

    @property
    def custom_functions(self) -> Mapping[str, Callable[..., Any]]:
        """The user's own functions of time in its sequences: name -> function."""
        return MappingProxyType(self._functions)

    @property
    def function_versions(self) -> Mapping[tuple[str, str], Callable[..., Any]]:
        """The same functions by name and digest of their code, as params name them."""
        return MappingProxyType(self._versions)

    @property
    def objects(self) -> tuple[NamedObject, ...]:
        """The objects of its choices."""
        choices = [domain for domain in self._parameters.values() if isinstance(domain, Choice)]
        return tuple(value for one in choices for value in one.given if isinstance(value, NamedObject))

    @property
    def initial(self) -> tuple[Params, ...]:
        """The initial points, whole or in part, as plain values."""
        return tuple(self.nest(point) for point in self._initial)

    def sample(self, generator: np.random.Generator) -> Params:
        """Draw params that every constraint allows.

        Raises:
            SpaceError: the constraints rejected 1000 candidates in a row, or one raised or returned no bool.
        """
        return self._candidates.draw({}, generator)

    def complete(self, point: Mapping[str, Any], generator: np.random.Generator) -> Params:
        """Draw the missing values of partial params.

        Raises:
            SpaceError: the point does not fit the space, or the constraints rejected 1000 completions.
        """
        return self._candidates.draw(self._parse_point(point), generator)

    def validate(self, params: Mapping[str, Any]) -> None:
        """Refuse params that the space does not have.

        Raises:
            SpaceError: says which parameter has which value, the rule, and what to write instead.
        """
        self.plain(params)

    def plain(self, params: Mapping[str, Any]) -> Params:
        """Return whole params as a trial has them: plain values, sequences in their JSON form.

        Raises:
            SpaceError: as ``validate``.
        """
        flat = self._accept_all(self.flatten(params))
        self._refuse_rejected(flat)
        return self.nest(flat)

    def contains(self, params: Mapping[str, Any]) -> bool:
        """Return whether ``validate`` passes."""
        try:
            self.validate(params)
        except SpaceError:
            return False
        return True

    def allows(self, flat: Mapping[str, Any]) -> bool:
        """Return whether every constraint allows a flat configuration of plain values, and they make sequences.

        Raises:
            SpaceError: a constraint raised or returned no bool.
        """
        return self._candidates.rejection(flat) is None

    def is_active(self, name: str, flat: Mapping[str, Any]) -> bool:
        """Return whether a parameter exists where its parents have these values."""
        # not by ``_candidates``, which is made anew at each access: this is asked for each parameter of each trial
        return all(condition.holds(flat) for condition in self._parameters[name].conditions)

    def flatten(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return dotted name -> value of nested params, without looking at values other than sequences.

        Raises:
            SpaceError: a name that the space does not have, or a sequence that it does not have.
        """
        found = flatten_params(params, self._nodes)
        for path, node in self._templates.items():
            if path in found:
                try:
                    found.update(node.apart(found.pop(path)))
                except SpaceError as error:
                    raise SpaceError(f"{path}: {error}") from None
        return found

    def nest(self, flat: Mapping[str, Any]) -> Params:
        """Return nested params, in the order of declaration, of dotted name -> plain value.

        A sequence of which a value is missing is a mapping of those that are there.

        Raises:
            SpaceError: values make no sequence together.
        """
        params: Params = {}
        for path, node in self._nodes.items():
            if isinstance(node, Leaf):
                if path in flat:
                    put(params, path, copy_plain(flat[path]))
            elif node.is_whole(flat):
                put(params, path, node.assemble(flat))
            else:
                part = node.part(flat)
                if part is not None:
                    put(params, path, part)
        return params

    def describe(self) -> list[str]:
        """Return lines for people: one for each parameter, constraint and initial point."""
        width = max(map(len, self._nodes), default=0)
        lines = [f"{path:<{width}}  {_describe(node)}" for path, node in self._nodes.items()]
        lines += [f"only where {name} holds" for name in self._candidates.constraint_names]
        lines += [f"first {show(with_names(point))}" for point in self.initial]
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return a description as JSON values; of constraints only the names."""
        sketches = {path: node.call() for path, node in self._templates.items()}
        return {
            "parameters": {name: domain.to_json() for name, domain in self._parameters.items()},
            "constraints": self._candidates.constraint_names,
            "initial": list(self.initial),
            **({"templates": sketches} if sketches else {}),
        }

    def __repr__(self) -> str:
        more = f", constraints=[{', '.join(self._candidates.constraint_names)}]" if self._constraints else ""
        initial = f", initial={show_plain(list(self.initial))}" if self._initial else ""
        return f"Space({nest({path: _Code(node.call()) for path, node in self._nodes.items()})!r}{more}{initial})"

    def __setstate__(self, state: dict[str, Any]) -> None:
        # A space that an earlier version pickled has no digests, and its params name functions without them.
        self.__dict__.update({"_versions": {}, **state})
        self._make_known()

    def _make_known(self) -> None:
        custom_sequences.register(self._functions)
        custom_sequences.register_versions(self._versions)

    @property
    def _candidates(self) -> Candidates:  # not an attribute: bundles of earlier versions lack it
        return Candidates(self._parameters, self._order, self._templates, self._constraints, self.nest)

    def _refuse_rejected(self, flat: Mapping[str, Any]) -> None:
        rejection = self._candidates.rejection(flat)
        if rejection is not None:
            raise SpaceError(rejection.message)

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


class _Code(str):
    """A text that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _describe(node: ParameterNode) -> str:
    if not isinstance(node, Leaf):
        conditions = node.choice.conditions if isinstance(node, Chosen) else ()
        what = node.choice.call() if isinstance(node, Chosen) else node.call()
    else:
        domain = node.domain
        conditions = domain.conditions
        what = show_plain(domain.value) if isinstance(domain, Constant) else domain.call()
    return f"{what}  where {' and '.join(map(str, conditions))}" if conditions else what

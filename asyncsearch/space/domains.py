"""The interface of domains, and the two without numbers: ``choice`` and ``constant``.

Rule 1: pure; all randomness comes from the generator that ``sample`` is given.
Rule 2: frozen and comparable; ``repr`` is the call that makes the domain.
"""

from __future__ import annotations

import abc
import bisect
import copy
import difflib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Self

from asyncsearch.checked_calls import answering
from asyncsearch.errors import SpaceError
from asyncsearch.randomness import below, step_at
from asyncsearch.sequences import NamedObject, Undecided
from asyncsearch.sequences import Sequence as ValueSequence
from asyncsearch.sequences.custom_sequences import functions_in
from asyncsearch.space.conditions import (
    Condition,
    conditions_to_json,
    merge_conditions,
    parse_conditions,
    show_conditions,
)
from asyncsearch.space.parameter_values import (
    a_type,
    copy_plain,
    has_undecided,
    identity,
    is_numpy_array,
    number,
    plain,
    show,
    show_plain,
    sketched,
    with_objects,
)

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, repr=False)
class Domain(Undecided):
    """The values that one parameter may have, and where the parameter exists at all."""

    kind: ClassVar[str]
    """Name of the function that makes it."""

    conditions: tuple[Condition, ...] = field(default=(), kw_only=True)
    """All must hold for the parameter to exist; one for each parent."""

    @property
    @abc.abstractmethod
    def size(self) -> int | None:
        """Number of its values. None if it is continuous."""

    def sample(self, generator: np.random.Generator) -> Any:
        """Draw a value."""
        return self.at_quantile(generator.random())

    @abc.abstractmethod
    def at_quantile(self, share: float) -> Any:
        """Return the value up to which a share of the draws lies, 0 <= share < 1; choices count in their order."""

    @abc.abstractmethod
    def accept(self, value: Any) -> Any:
        """Return ``value`` as the plain value that it stands for.

        Raises:
            SpaceError: the domain has no such value; says the rule and what to write instead.
        """

    @abc.abstractmethod
    def grid(self, points: int | None) -> Sequence[Any]:
        """Return its values, ascending where they have an order: all, or ``points`` (at least 1) evenly spaced ones.

        Callers look at ``size`` first: None for ``points`` needs a size below ``sys.maxsize``.
        """

    @abc.abstractmethod
    def arguments(self) -> dict[str, Any]:
        """Return the arguments that make it, as JSON values."""

    @answering("when", "uniform(0, 0.99).when(optimizer='sgd')")
    def when(self, **conditions: Any) -> Self:
        """Return a copy that exists only where the named parameters have the given values.

        A tuple means any of its values; all conditions must hold, those of former calls too. Names are written
        in full: ``randint(1, 4).when(**{"model.kind": ("cnn", "rnn")})``. Elsewhere the parameter is absent.

        Raises:
            SpaceError: no condition, an empty tuple, or conditions that exclude each other.
        """
        return self.under(parse_conditions(conditions))

    def under(self, conditions: tuple[Condition, ...]) -> Self:
        """Return a copy that exists only where these conditions hold too.

        Raises:
            SpaceError: conditions exclude each other.
        """
        # Not dataclasses.replace: it would parse values that are plain by now again, and lose the given ones.
        copied = copy.copy(self)
        object.__setattr__(copied, "conditions", merge_conditions(self.conditions, conditions))
        return copied

    def examples(self) -> Iterable[Any]:
        return self.grid(2)

    def functions(self) -> dict[str, Callable[..., Any]]:
        return {}

    def contains(self, value: Any) -> bool:
        """Return whether ``accept`` takes the value."""
        try:
            self.accept(value)
        except SpaceError:
            return False
        return True

    def call(self) -> str:
        """Return the call that makes it, without conditions."""
        return f"{self.kind}({', '.join(map(show_plain, self.arguments().values()))})"

    def to_json(self) -> dict[str, Any]:
        described = {"kind": self.kind, **self.arguments()}
        return {**described, "when": conditions_to_json(self.conditions)} if self.conditions else described

    def __repr__(self) -> str:
        return self.call() + show_conditions(self.conditions)


@dataclass(frozen=True, repr=False)
class Choice(Domain):
    """One of several values, each equally likely unless they have weights: JSON values, sequences among them, and
    objects, which have names in their place.

    A sequence or a dictionary with domains in it is chosen by a sketch of it; the space decides the domains and fills
    it.
    """

    kind = "choice"
    values: tuple[Any, ...] = field(compare=False)
    identities: tuple[Hashable, ...] = field(init=False)
    given: tuple[Any, ...] = field(init=False, compare=False)
    """The values as they were written, objects with their names."""
    weights: tuple[float, ...] | None = field(default=None, kw_only=True)
    """How likely each value is, in proportion. None means all alike."""

    def __post_init__(self) -> None:
        if not self.values:
            raise SpaceError("choice() is empty: give it at least one value, e.g. choice('relu', 'gelu').")
        given = with_objects(self.values)
        object.__setattr__(self, "given", given)
        values = tuple(map(_choice_value, given))
        identities = tuple(map(identity, values))
        _refuse_duplicates(values, identities)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "identities", identities)
        if self.weights is not None:
            object.__setattr__(self, "weights", _parse_weights(self.weights, len(values)))

    @property
    def size(self) -> int:
        return len(self.values)

    def sample(self, generator: np.random.Generator) -> Any:
        if self.weights is not None:
            return self.at_quantile(generator.random())
        return copy_plain(self.values[below(generator, len(self.values))])

    def at_quantile(self, share: float) -> Any:
        if self.weights is None:
            return copy_plain(self.values[step_at(share, self.size)])
        ends = list(accumulate(map(Fraction, self.weights)))
        return copy_plain(self.values[bisect.bisect_right(ends, Fraction(share) * ends[-1])])

    def accept(self, value: Any) -> Any:
        for at, one in enumerate(self.given):
            if isinstance(one, NamedObject) and one.is_of(value):
                return copy_plain(self.values[at])
        try:
            return copy_plain(self.values[self.identities.index(identity(plain(value)))])
        except ValueError:
            # SpaceError is a ValueError too: what is not a JSON value is none of the choices either.
            raise SpaceError(f"{show(value)} is none of {self._shown()}{_similar(value, self.values)}") from None

    def grid(self, points: int | None) -> Sequence[Any]:
        return self.values

    def arguments(self) -> dict[str, Any]:
        weights = {} if self.weights is None else {"weights": list(self.weights)}
        return {"values": copy_plain(list(self.values)), **weights}

    def examples(self) -> Iterable[Any]:
        return self.given

    def functions(self) -> dict[str, Callable[..., Any]]:
        return functions_in(self.given)

    def index(self, value: Any) -> int:
        """Return the place of one of its values."""
        return self.identities.index(identity(value))

    @property
    def templates(self) -> dict[int, ValueSequence]:
        """Index of a value -> the sequence with domains in it that it stands for."""
        return {
            at: value for at, value in enumerate(self.given) if isinstance(value, ValueSequence) and value.is_template
        }

    @property
    def groups(self) -> dict[int, Mapping[str, Any]]:
        """Index of a value -> the dictionary with domains in it that it stands for."""
        return {at: value for at, value in enumerate(self.given) if has_domains(value)}

    def call(self) -> str:
        # choice([1, 2]) would mean two values.
        single_list = self.size == 1 and isinstance(self.values[0], list)
        templates: dict[int, Any] = {**self.templates, **self.groups}
        shown = [repr(templates[at]) if at in templates else show_plain(value) for at, value in enumerate(self.values)]
        weights = "" if self.weights is None else f", weights={list(self.weights)!r}"
        return f"choice([{shown[0]}]{weights})" if single_list else f"choice({', '.join(shown)}{weights})"

    def _shown(self) -> str:
        few = self.size <= 20
        return self.call() if few else f"the {self.size} values of choice({show_plain(self.values[0])}, ...)"


@dataclass(frozen=True, repr=False)
class Constant(Domain):
    """One JSON value that every trial has."""

    kind = "constant"
    value: Any = field(compare=False)
    identity: Hashable = field(init=False)
    given: Any = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "given", self.value)
        object.__setattr__(self, "value", plain(self.value))
        object.__setattr__(self, "identity", identity(self.value))

    @property
    def size(self) -> int:
        return 1

    def sample(self, generator: np.random.Generator) -> Any:
        return copy_plain(self.value)

    def at_quantile(self, share: float) -> Any:
        return copy_plain(self.value)

    def accept(self, value: Any) -> Any:
        if identity(plain(value)) != self.identity:
            raise SpaceError(
                f"{show(value)} is not the constant {show_plain(self.value)}: write that, or make it a choice()."
            )
        return copy_plain(self.value)

    def grid(self, points: int | None) -> Sequence[Any]:
        return (self.value,)

    def arguments(self) -> dict[str, Any]:
        return {"value": copy_plain(self.value)}

    def examples(self) -> Iterable[Any]:
        return (self.given,)

    def functions(self) -> dict[str, Callable[..., Any]]:
        return functions_in(self.given)


@answering("choice", "choice('a', 'b')")
def choice(*values: Any, weights: Iterable[float] | None = None) -> Choice:
    """Return a domain of the given values, each equally likely, or as likely as its weight says.

    The values are arguments, or one list or tuple: ``choice("relu", "gelu")``, ``choice([16, 32, 64])``. Lists and
    dictionaries may be values; tuples among the values come out as lists, since JSON has no tuples. A dictionary may
    have domains in it, which are decided where it is chosen:
    ``choice({"kind": "sgd", "momentum": uniform(0, 0.99)}, {"kind": "adam"})``. Any other object may be a value,
    ``choice(SGD, Adam)``: trials get it itself, and tables and journals have its name.

    Raises:
        SpaceError: no values, one of them twice (1 and 1.0 are the same), or a number that JSON lacks.
    """
    if len(values) == 1 and isinstance(values[0], list | tuple):
        values = tuple(values[0])
    elif len(values) == 1 and (isinstance(values[0], range | set | frozenset) or is_numpy_array(values[0])):
        raise SpaceError(f"choice({show(values[0])}) is given {a_type(values[0])}: {_unpacked(values[0])}.")
    return Choice(values, weights=weights if weights is None else tuple(weights))


def _parse_weights(given: tuple[Any, ...], count: int) -> tuple[float, ...]:
    try:
        weights = tuple(float(number(weight)) for weight in given)
    except SpaceError as error:
        raise SpaceError(f"choice(weights=...): {error}") from None
    if len(weights) != count:
        raise SpaceError(
            f"choice(weights={list(weights)!r}) has {len(weights)} weights for {count} values: write one for each."
        )
    if min(weights) <= 0:
        raise SpaceError(
            f"choice(weights={list(weights)!r}): each must be above 0; leave out a value that never comes."
        )
    return weights


@answering("constant", "constant([3, 3])")
def constant(value: Any) -> Constant:
    """Return a domain of one JSON value; needed only for lists and dictionaries and for ``when``.

    Raises:
        SpaceError: JSON has no such value.
    """
    return Constant(value)


def _choice_value(value: Any) -> Any:
    if has_undecided(value) and not isinstance(value, ValueSequence | Mapping):
        raise SpaceError(
            f"choice(..., {value!r}) has a domain among its values: make it a parameter of its own, "
            "with .when(...) for the choice that it belongs to."
        )
    try:
        return sketched(value)
    except SpaceError as error:
        raise SpaceError(f"choice(...): {error}") from None


def has_domains(value: Any) -> bool:
    """Return whether a value is a dictionary with a domain, or a sequence with one, anywhere in it."""
    if not isinstance(value, Mapping):
        return False
    return any(
        isinstance(item, Domain) or (isinstance(item, ValueSequence) and item.is_template) or has_domains(item)
        for item in value.values()
    )


def _refuse_duplicates(values: tuple[Any, ...], identities: tuple[Hashable, ...]) -> None:
    seen: dict[Hashable, Any] = {}
    for value, same in zip(values, identities, strict=True):
        if same in seen:
            both = f"{show_plain(seen[same])} and {show_plain(value)}"
            raise SpaceError(f"choice(...) has {both}, the same value twice: write it once.")
        seen[same] = value


def _unpacked(values: Any) -> str:
    if isinstance(values, range):
        return f"write choice(*{values})"
    if is_numpy_array(values):
        return "write choice(*array.tolist())"
    return "a set has no order, write choice(*sorted(values))"


def _similar(value: Any, values: tuple[Any, ...]) -> str:
    names = [item for item in values if isinstance(item, str)]
    close = difflib.get_close_matches(value, names, 1) if isinstance(value, str) else []
    return f"; did you mean {close[0]!r}?" if close else ": write one of them."

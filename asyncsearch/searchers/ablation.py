"""Ablation studies: one configuration, trained again without each of its components.

Rule 1: pure. The i-th proposal is a function of the description and i.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from asyncsearch.ablation.left_out import NOTHING, PARAMETER, Ablated, Component, register
from asyncsearch.errors import SpaceError, UsageError
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.space import Space, choice
from asyncsearch.space.domains import Domain
from asyncsearch.space.dotted_names import did_you_mean
from asyncsearch.space.parameter_values import copy_plain
from asyncsearch.trial import Params
from asyncsearch.values.function_code import code_digest

SEED = "seed"
_MOST = 10_000


@dataclass(frozen=True, kw_only=True)
class Ablation(Searcher):
    """Trains one configuration, and the same without each of its components, once for each seed.

    ``study.ablation()`` compares them. The space has the configuration, as constants or as ``base``; the searcher adds
    the parameters ``ablated`` and ``seed`` to it, which are the trial's ``trial.ablation`` and ``trial.seed``.
    """

    features: Iterable[Any] | Mapping[str, Any] = ()
    """Columns of the data: names, or numbers for those of an array. ``"s*"`` stands for all whose names begin so, which
    are left out together. Or your name -> column, or -> a function that gets the data and returns it without the
    feature."""
    layers: Iterable[str] | Mapping[str, Any] = ()
    """Names of layers: as ``named_modules()`` has them in torch, ``layer.name`` in Keras. ``"conv*"`` stands for all
    whose names begin so, which are left out together. Or your name -> layer, or -> a function that gets the network and
    returns the one to train instead."""
    custom: Iterable[str] = ()
    """Names of your own, such as ``"augmentation"``: the code asks ``trial.ablation.keeps("augmentation")``."""
    groups: Mapping[str, Iterable[str]] = field(default_factory=dict)
    """Name -> names of features, layers and custom components that are left out together."""
    pairs: bool = False
    """Whether each two components are left out together, too, unless they are a group."""
    fill: bool = False
    """Whether features stay in their places, with the mean (or the most frequent value) in all samples; else they are
    dropped, and the data is narrower."""
    seeds: int | Iterable[int] = 5
    """How many seeds, from 0 on, or which; differences have an uncertainty from 2 on."""
    base: Mapping[str, Any] | None = None
    """The configuration, such as ``study.best_params``. None means the space's constants and initial point."""

    def __post_init__(self) -> None:
        for name in ("features", "layers", "custom", "groups"):
            _require_list(name, getattr(self, name))
        object.__setattr__(self, "custom", tuple(self.custom))
        for name in ("features", "layers"):
            if not isinstance(getattr(self, name), Mapping):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if not isinstance(self.groups, Mapping):
            raise UsageError(f"groups={self.groups!r}: write name -> list of names, groups={{'body': ['bmi', 'bp']}}.")
        wrong = [one for one in self.groups.values() if isinstance(one, str) or not isinstance(one, Iterable)]
        if wrong:
            raise UsageError(f"groups: {wrong[0]!r} is no list of names: write e.g. groups={{'body': ['bmi', 'bp']}}.")
        object.__setattr__(self, "groups", {str(name): tuple(members) for name, members in self.groups.items()})
        object.__setattr__(self, "seeds", _parse_seeds(self.seeds))
        self.variants()
        register(self.functions())

    def variants(self) -> list[Ablated]:
        """Return the variants by what each leaves out: single components, groups, pairs; no two leave out the same.

        Raises:
            UsageError: there is nothing to leave out, or a name is empty, unknown or given twice.
        """
        single = self._components()
        found = {frozenset([one]): _alone(one) for one in single.values()}
        for group, members in self.groups.items():
            together = _group(group, members, single)
            known = found.setdefault(frozenset(together), Ablated(together, group))
            if known.label != group:
                raise UsageError(f"groups: {group!r} leaves out what {str(known)!r} does: write one of the two.")
        for two in itertools.combinations(single.values(), 2) if self.pairs else ():
            found.setdefault(frozenset(two), Ablated(two))
        if not found:
            raise UsageError("Ablation() leaves nothing out: write e.g. Ablation(features=['age', 'bmi']).")
        return [*found.values()]

    def extended(self, space: Space) -> Space:
        taken = next((name for name in (PARAMETER, SEED) if name in space.names), None)
        if taken is not None:
            raise SpaceError(f"{taken}: Ablation(...) adds this parameter to the space: call yours by another name.")
        values = [NOTHING, *(one.value for one in self.variants())]
        return space.with_parameters({PARAMETER: choice(*values), SEED: choice(*self._seeds)})

    def begin(self, space: Space, seed: int) -> AblationState:
        # Not variants(): a study goes on with those that it began with, whatever this version makes of its description.
        values = [str(value) for value in space.parameters[PARAMETER].grid(None)]
        count = len(values) * len(self._seeds)
        if count > _MOST:
            raise SpaceError(
                f"Ablation(...) has {count:,} trials, over {_MOST:,}: give it fewer components, or no pairs."
            )
        return AblationState(self._base(space), values, self._seeds)

    def describe(self) -> str:
        variants = self.variants()
        return f"Ablation({len(variants)} variants, {len(self._seeds)} seeds)"

    @property
    def _seeds(self) -> tuple[int, ...]:
        assert isinstance(self.seeds, tuple)
        return self.seeds

    def functions(self) -> dict[str, Callable[[Any], Any]]:
        """Return your own functions by the digests of their code, which params name."""
        given = [self.features, self.layers]
        found = (value for one in given if isinstance(one, Mapping) for value in one.values() if callable(value))
        return {code_digest(function): function for function in found}

    def _components(self) -> dict[str, Component]:
        """Return label -> component, in order."""
        pairs = [
            *_named("filled" if self.fill else "feature", "data", self.features),
            *_named("layer", "model", self.layers),
            *_named("custom", "custom", self.custom),
        ]
        found: dict[str, Component] = {}
        for label, one in pairs:
            if not label or not one.name:
                raise UsageError(f"Ablation(...): {one.kind} {label!r} has an empty name.")
            if label in found:
                raise UsageError(f"Ablation(...): {label!r} is given twice: each component has a name of its own.")
            same = next((name for name, other in found.items() if other[:2] == one[:2]), None)
            if same is not None:
                raise UsageError(
                    f"Ablation(...): {label!r} and {same!r} are the same {one.kind}: write one of the two."
                )
            found[label] = one
        _require_own_names(found)
        return found

    def _base(self, space: Space) -> Params:
        if len(space.initial) + (self.base is not None) > 1:
            raise SpaceError("Ablation(...) compares variants of one configuration: write base=, or one initial point.")
        given = self.base if self.base is not None else next(iter(space.initial), {})
        flat = space.flatten({**given, PARAMETER: NOTHING, SEED: self._seeds[0]})
        known = {name: domain.grid(None)[0] for name, domain in space.parameters.items() if domain.size == 1}
        flat = {**known, **flat}
        missing = [
            name
            for name in space.order
            if name not in flat and name not in (PARAMETER, SEED) and space.is_active(name, flat)
        ]
        if missing:
            raise SpaceError(
                f"{', '.join(missing)}: Ablation(...) compares variants of one configuration, and a range has many. "
                f"Write a constant in the space, as in {{{missing[0]!r}: {_example(space, missing[0])}}}, or take the "
                "values of an earlier search: Ablation(..., base=Study.open('studies/digits').best_params)."
            )
        return space.plain(space.nest({**flat, PARAMETER: NOTHING, SEED: self._seeds[0]}))


def _example(space: Space, name: str) -> str:
    """Return a value of a parameter, as one would write it."""
    domain = space.parameters.get(name)
    examples = list(domain.examples()) if isinstance(domain, Domain) else []
    return repr(examples[0]) if examples else "..."


class AblationState(SearcherState):
    """Keeps its arguments only, so there is nothing to snapshot."""

    def __init__(self, base: Params, variants: list[str], seeds: Collection[int]) -> None:
        self._base = base
        self._variants = variants
        self._seeds = tuple(seeds)

    def propose(self, number: int) -> Params | None:
        """Return the variants of the first seed, the base first, then those of the next: early results are paired."""
        seed, variant = divmod(number, len(self._variants))
        if seed >= len(self._seeds):
            return None
        return {**copy_plain(self._base), PARAMETER: self._variants[variant], SEED: self._seeds[seed]}

    def length(self) -> int:
        return len(self._variants) * len(self._seeds)


def _require_list(name: str, given: object) -> None:
    if isinstance(given, str):
        raise UsageError(f"{name}={given!r} is a text: write a list, {name}=[...].")
    if not isinstance(given, Iterable):
        raise UsageError(f"{name}={given!r} is no list of names: write {name}=[...], or leave it out.")


def _named(kind: str, own_kind: str, given: Any) -> list[tuple[str, Component]]:
    """Return (label, component) of names, or of the user's names -> names or functions."""
    pairs = given.items() if isinstance(given, Mapping) else [(one, one) for one in given]
    return [(str(label), _component(kind, own_kind, str(label), value)) for label, value in pairs]


def _component(kind: str, own_kind: str, label: str, value: Any) -> Component:
    if isinstance(value, list | set | dict):
        word = {"filled": "feature"}.get(kind, kind)
        raise UsageError(
            f"Ablation(...): {value!r} is no name of a {word}: write each by itself, and those that are left out "
            "together in groups={'name': [...]}."
        )
    if callable(value) and kind != own_kind:
        return Component(own_kind, code_digest(value), label)
    return Component(kind, str(value), label if label != str(value) else "")


def _require_own_names(components: Mapping[str, Component]) -> None:
    """Check that ``keeps`` of a custom name does not ask for a layer or a column."""
    for name, one in components.items():
        pattern = next((label for label, other in components.items() if other is not one and other.has(name)), None)
        if one.kind == "custom" and pattern is not None:
            raise UsageError(f"Ablation(...): custom {name!r} fits {pattern!r}, too: give it another name.")


def _alone(one: Component) -> Ablated:
    return Ablated((one._replace(label=""),), one.label)


def _group(group: str, members: Iterable[str], single: Mapping[str, Component]) -> tuple[Component, ...]:
    named = {one.name: one for one in single.values()} | dict(single)
    unknown = next((name for name in members if name not in named), None)
    if unknown is not None:
        raise UsageError(f"groups: {group!r} names {unknown!r}; {did_you_mean(str(unknown), named)}")
    if not members or group in single:
        what = "is empty" if not members else "is the name of a component, too"
        raise UsageError(f"groups: {group!r} {what}: write groups={{'body': ['bmi', 'bp']}}.")
    together = tuple(named[name] for name in members)
    twice = next((one for one in together if together.count(one) > 1), None)
    if twice is not None:
        raise UsageError(f"groups: {group!r} names {str(twice)!r} twice: write it once.")
    return together


def _parse_seeds(given: Any) -> tuple[int, ...]:
    is_count = hasattr(given, "__index__") and not hasattr(given, "__len__") and not isinstance(given, bool)
    numbers = range(operator.index(given)) if is_count else given
    try:
        # numpy's integers too, which the journal could not hold.
        found = tuple(one if isinstance(one, bool) else operator.index(one) for one in numbers)
    except TypeError:
        found = ()
    right = all(not isinstance(one, bool) and 0 <= one < 2**63 for one in found)
    if not found or not right or len(set(found)) < len(found):
        raise UsageError(f"seeds={given!r}: write how many, seeds=3, or different integers from 0, seeds=[0, 1, 2].")
    return found

"""Ablation studies: one configuration, trained again without each of its components.

Rule 1: pure. The i-th proposal is a function of the description and i.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from asyncsearch.ablation.left_out import NOTHING, PARAMETER, Ablated, Component
from asyncsearch.errors import SpaceError, UsageError
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.space import Space, choice
from asyncsearch.space.dotted_names import did_you_mean
from asyncsearch.space.parameter_values import copy_plain
from asyncsearch.trial import Params

SEED = "seed"
_MOST = 10_000


@dataclass(frozen=True, kw_only=True)
class Ablation(Searcher):
    """Trains one configuration, and the same without each of its components, once for each seed.

    ``study.ablation()`` compares them. The space has the configuration, as constants or as ``base``; the searcher adds
    the parameters ``ablated`` and ``seed`` to it, which are the trial's ``trial.ablation`` and ``trial.seed``.
    """

    features: Iterable[Any] | Mapping[str, Any] = ()
    """Columns of the data: names, or numbers for those of an array; or your name -> column, for arrays."""
    layers: Iterable[str] = ()
    """Names of layers: as ``named_modules()`` has them in torch, ``layer.name`` in Keras. ``"conv*"`` stands for all
    whose names begin so, which are left out together."""
    custom: Iterable[str] = ()
    """Names of your own, such as ``"augmentation"``: the code asks ``trial.ablation.keeps("augmentation")``."""
    groups: Mapping[str, Iterable[str]] = field(default_factory=dict)
    """Name -> names of features, layers and custom components that are left out together."""
    pairs: bool = False
    """Whether each two components are left out together, too."""
    fill: bool = False
    """Whether features stay in their places, with the mean (or the most frequent value) in all samples; else they are
    dropped, and the data is narrower."""
    seeds: int | Iterable[int] = 5
    """How many seeds, from 0 on, or which; differences have an uncertainty from 2 on."""
    base: Mapping[str, Any] | None = None
    """The configuration, such as ``study.best_params``; None: the constants of the space, and its initial point."""

    def __post_init__(self) -> None:
        for name in ("features", "layers", "custom", "groups"):
            if isinstance(getattr(self, name), str):
                raise UsageError(f"{name}={getattr(self, name)!r} is a text: write a list, {name}=[...].")
        object.__setattr__(self, "layers", tuple(self.layers))
        object.__setattr__(self, "custom", tuple(self.custom))
        if not isinstance(self.features, Mapping):
            object.__setattr__(self, "features", tuple(self.features))
        if not isinstance(self.groups, Mapping):
            raise UsageError(f"groups={self.groups!r}: write name -> list of names, groups={{'body': ['bmi', 'bp']}}.")
        text = next((members for members in self.groups.values() if isinstance(members, str)), None)
        if text is not None:
            raise UsageError(f"groups: {text!r} is a text: write a list of names, as groups={{'body': [{text!r}]}}.")
        object.__setattr__(self, "groups", {str(name): tuple(members) for name, members in self.groups.items()})
        object.__setattr__(self, "seeds", _parse_seeds(self.seeds))
        self.variants()

    def variants(self) -> list[Ablated]:
        """Return what is left out, variant by variant: single components, groups, pairs.

        Raises:
            UsageError: there is nothing to leave out, or a name is empty, unknown or given twice.
        """
        single = self._components()
        named = {one.name: one for one in single.values()} | single
        found = [Ablated((one,), label if label != one.name else "") for label, one in single.items()]
        for group, members in self.groups.items():
            unknown = next((name for name in members if name not in named), None)
            if unknown is not None:
                raise UsageError(f"groups: {group!r} names {unknown!r}; {did_you_mean(str(unknown), named)}")
            if not members or group in single:
                what = "is empty" if not members else "is the name of a component, too"
                raise UsageError(f"groups: {group!r} {what}: write groups={{'body': ['bmi', 'bp']}}.")
            found.append(Ablated(tuple(named[name] for name in members), group))
        if self.pairs:
            found += [Ablated(two) for two in itertools.combinations(single.values(), 2)]
        if not found:
            raise UsageError("Ablation() leaves nothing out: write e.g. Ablation(features=['age', 'bmi']).")
        return found

    def extended(self, space: Space) -> Space:
        taken = next((name for name in (PARAMETER, SEED) if name in space.names), None)
        if taken is not None:
            raise SpaceError(f"{taken}: Ablation(...) adds this parameter to the space: call yours by another name.")
        values = [NOTHING, *(one.value for one in self.variants())]
        return space.with_parameters({PARAMETER: choice(*values), SEED: choice(*self._seeds)})

    def begin(self, space: Space, seed: int) -> AblationState:
        count = (1 + len(self.variants())) * len(self._seeds)
        if count > _MOST:
            raise SpaceError(
                f"Ablation(...) has {count:,} trials, over {_MOST:,}: give it fewer components, or no pairs."
            )
        return AblationState(self._base(space), [Ablated(()), *self.variants()], self._seeds)

    def describe(self) -> str:
        variants = self.variants()
        return f"Ablation({len(variants)} variants, {len(self._seeds)} seeds)"

    @property
    def _seeds(self) -> tuple[int, ...]:
        assert isinstance(self.seeds, tuple)
        return self.seeds

    def _components(self) -> dict[str, Component]:
        """Return label -> component, in order."""
        features = self.features
        named = features.items() if isinstance(features, Mapping) else [(one, one) for one in features]
        kind = "filled" if self.fill else "feature"
        pairs = [(str(label), Component(kind, str(column))) for label, column in named]
        pairs += [(str(name), Component("layer", str(name))) for name in self.layers]
        pairs += [(str(name), Component("custom", str(name))) for name in self.custom]
        found: dict[str, Component] = {}
        for label, one in pairs:
            if not label or not one.name:
                raise UsageError(f"Ablation(...): {one.kind} {label!r} has an empty name.")
            if label in found:
                raise UsageError(f"Ablation(...): {label!r} is given twice: each component has a name of its own.")
            found[label] = one
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
                f"{', '.join(missing)}: Ablation(...) compares variants of one configuration. Write constants in the "
                "space, or the values: Ablation(..., base=study.best_params)."
            )
        return space.plain(space.nest({**flat, PARAMETER: NOTHING, SEED: self._seeds[0]}))


class AblationState(SearcherState):
    """Keeps its arguments only, so there is nothing to snapshot."""

    def __init__(self, base: Params, variants: list[Ablated], seeds: Collection[int]) -> None:
        self._base = base
        self._variants = [one.value for one in variants]
        self._seeds = tuple(seeds)

    def propose(self, number: int) -> Params | None:
        """Return the variants of the first seed, the base first, then those of the next: early results are paired."""
        seed, variant = divmod(number, len(self._variants))
        if seed >= len(self._seeds):
            return None
        return {**copy_plain(self._base), PARAMETER: self._variants[variant], SEED: self._seeds[seed]}

    def length(self) -> int:
        return len(self._variants) * len(self._seeds)


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

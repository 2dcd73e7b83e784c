"""Values drawn before a trial asks for them, so that it need not wait for each: of random search, which may.

A random draw depends on nothing but the generator. So the values of a trial are drawn when it begins, in the order in
which the trial before it asked, and sent together. Where a trial asks otherwise, the generator is put back to where the
last used value left it: with one worker the values are those that Optuna draws one by one.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import optuna
from optuna._transform import _SearchSpaceTransform
from optuna.distributions import BaseDistribution, _get_single_value
from optuna.storages import InMemoryStorage

Drawn = tuple[str, BaseDistribution, float]
"""Name, distribution, and the value as storages keep it."""


class AskedOrder(NamedTuple):
    """The names for which trials ask, in their order."""

    number: int = 0
    """Differs from that of each other order of this process, whose workers may serve several calls of ``optimize``."""
    names: tuple[tuple[str, BaseDistribution], ...] = ()


class Ahead(NamedTuple):
    """The values that a trial may use, as its worker and the journal get them."""

    order: AskedOrder
    internals: list[float]
    """As storages keep them."""

    @property
    def drawn(self) -> list[Drawn]:
        """Each with its name and distribution."""
        return [(*one, internal) for one, internal in zip(self.order.names, self.internals, strict=True)]


NOTHING = Ahead(AskedOrder(), [])
_numbers = itertools.count(1)


class _Draws:
    """Draws the values of an order in one call of the generator, which gives the numbers of one call for each."""

    def __init__(self, order: AskedOrder) -> None:
        space = {name: one for name, one in order.names if not one.single()}
        self._transform = _SearchSpaceTransform(space) if space else None
        bounds = None if self._transform is None else self._transform.bounds
        self._ends = None if bounds is None else (bounds[:, 0], bounds[:, 1])
        self._order = order
        self._single = {name: _get_single_value(one) for name, one in order.names if one.single()}

    def draw(self, generator: Any) -> list[float]:
        """Return the values, as storages keep them."""
        values = dict(self._single)
        if self._transform is not None and self._ends is not None:
            values |= self._transform.untransform(generator.uniform(*self._ends))
        return [float(one.to_internal_repr(values[name])) for name, one in self._order.names]


@dataclass(slots=True)
class _Taken:
    """The values of one trial."""

    values: list[Drawn]
    state: Any
    """Of the generator, before the first one."""
    draw: int
    """Its place among all draws."""
    used: int = 0


def set_params(storage: Any, number: int, values: Sequence[Drawn]) -> None:
    """Set parameters of a trial of a storage, by its id."""
    if type(storage) is InMemoryStorage and _set_together(storage, number, values):
        return
    for name, distribution, internal in values:
        storage.set_trial_param(number, name, internal, distribution)


def _set_together(storage: Any, number: int, values: Sequence[Drawn]) -> bool:
    """Set parameters that an earlier trial has had alike, with one copy of the trial instead of one for each.

    A storage in memory copies the trial for each parameter that it gets.

    Returns:
        Whether they are set. False: a parameter is new, or has had another range.
    """
    with storage._lock:
        trial = storage._get_trial(number)
        known = storage._studies[storage._trial_id_to_study_id_and_number[number][0]].param_distribution
        if trial.state.is_finished() or not all(known.get(name) == one for name, one, _ in values):
            return False
        changed = copy.copy(trial)
        changed.params = trial.params | {name: one.to_external_repr(internal) for name, one, internal in values}
        changed.distributions = trial.distributions | {name: one for name, one, _ in values}
        storage._set_trial(number, changed)
    return True


class DrawnAhead:
    """The values of trials that run."""

    def __init__(self, study: Any) -> None:
        self._study = study
        self._order = AskedOrder()
        """What the last trial that ended asked for."""
        self._draws_of = _Draws(self._order)
        self._taken: dict[int, _Taken] = {}
        """By the id of the trial."""
        self._draws = 0

    def draw(self, trial: Any) -> Ahead:
        """Return values for a trial that begins. Empty if the sampler must be asked for each."""
        sampler = self._study.sampler
        if type(sampler) is not optuna.samplers.RandomSampler or trial._fixed_params or not self._order.names:
            return NOTHING
        state = sampler._rng.rng.get_state()
        found = Ahead(self._order, self._draws_of.draw(sampler._rng.rng))
        self._draws += 1
        self._taken[trial._trial_id] = _Taken(found.drawn, state, self._draws)
        return found

    def use(self, trial: Any, count: int) -> Sequence[Drawn]:
        """Let the trial take its next values, as if the sampler had drawn them now, and return them."""
        taken = self._taken[trial._trial_id]
        values = taken.values[taken.used : taken.used + count]
        taken.used += count
        set_params(trial.storage, trial._trial_id, values)
        frozen = trial._cached_frozen_trial
        for name, distribution, internal in values:  # as ``Trial._suggest`` does with a value that it has drawn
            frozen.distributions[name] = distribution
            frozen.params[name] = distribution.to_external_repr(internal)
        return values

    def drop(self, trial: Any) -> None:
        """Forget the values that a trial has not used: it asks for others, or has ended."""
        ahead = self._taken.pop(trial._trial_id, None)
        # Where another trial has drawn since, its values would come once more.
        if ahead is not None and ahead.used < len(ahead.values) and ahead.draw == self._draws:
            generator = self._study.sampler._rng.rng
            generator.set_state(ahead.state)
            _Draws(AskedOrder(names=tuple([(name, one) for name, one, _ in ahead.values[: ahead.used]]))).draw(
                generator
            )

    def given(self, trial: Any) -> list[Drawn]:
        """Return the values that a lost trial has got, and may have used without having said so."""
        ahead = self._taken.pop(trial._trial_id, None)
        found = [] if ahead is None else ahead.values
        space, params = trial.relative_search_space or {}, trial._relative_params or {}
        together = [(name, space[name], space[name].to_internal_repr(params[name])) for name in params if name in space]
        return [one for one in [*found, *together] if one[0] not in trial._cached_frozen_trial.distributions]

    def asked(self, trial: Any) -> None:
        """Note the names for which a trial that has ended asked."""
        self.drop(trial)
        names = tuple(trial._cached_frozen_trial.distributions.items())
        if names != self._order.names:
            self._order = AskedOrder(next(_numbers), names)
            self._draws_of = _Draws(self._order)

    def note_draw(self) -> None:
        """Note that the sampler was asked for a value, so that no state before it comes back."""
        self._draws += 1

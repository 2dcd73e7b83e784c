"""Values drawn before a trial asks for them, so that it need not wait for each: of random search, which may.

A random draw depends on nothing but the generator. So the values of a trial are drawn when it begins, in the order in
which the trial before it asked, and sent together. Where a trial asks otherwise, the generator is put back to where the
last used value left it: with one worker the values are those that Optuna draws one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, _get_single_value

Drawn = tuple[str, BaseDistribution, float]
"""Name, distribution, and the value as storages keep it."""


@dataclass(slots=True)
class _Ahead:
    """The values of one trial."""

    values: list[Drawn]
    state: Any
    """Of the generator, before the first one."""
    draw: int
    """Its place among all draws."""
    used: int = 0


class DrawnAhead:
    """The values of trials that run."""

    def __init__(self, study: Any) -> None:
        self._study = study
        self._order: list[tuple[str, BaseDistribution]] = []
        """What the last trial that ended asked for, in its order."""
        self._drawn: dict[int, _Ahead] = {}
        """By the id of the trial."""
        self._draws = 0

    def draw(self, trial: Any) -> list[Drawn]:
        """Return values for a trial that begins. Empty if the sampler must be asked for each."""
        sampler = self._study.sampler
        if type(sampler) is not optuna.samplers.RandomSampler or trial._fixed_params or not self._order:
            return []
        state, found = sampler._rng.rng.get_state(), []
        for name, distribution in self._order:
            value = self._value(trial, name, distribution)
            found.append((name, distribution, float(distribution.to_internal_repr(value))))
        self._draws += 1
        self._drawn[trial._trial_id] = _Ahead(found, state, self._draws)
        return found

    def _value(self, trial: Any, name: str, distribution: BaseDistribution) -> Any:
        if distribution.single():
            return _get_single_value(distribution)
        return self._study.sampler.sample_independent(self._study, trial._cached_frozen_trial, name, distribution)

    def use(self, trial: Any) -> Drawn:
        """Let the trial take its next value, as if the sampler had drawn it now, and return it."""
        ahead = self._drawn[trial._trial_id]
        name, distribution, internal = ahead.values[ahead.used]
        ahead.used += 1
        before = trial.relative_params, trial.relative_search_space
        value = distribution.to_external_repr(internal)
        trial._relative_params, trial.relative_search_space = {name: value}, {name: distribution}
        try:
            trial._suggest(name, distribution)
        finally:
            trial._relative_params, trial.relative_search_space = before
        return name, distribution, internal

    def drop(self, trial: Any) -> None:
        """Forget the values that a trial has not used: it asks for others, or has ended."""
        ahead = self._drawn.pop(trial._trial_id, None)
        # Where another trial has drawn since, its values would come once more.
        if ahead is not None and ahead.used < len(ahead.values) and ahead.draw == self._draws:
            self._study.sampler._rng.rng.set_state(ahead.state)
            for name, distribution, _ in ahead.values[: ahead.used]:
                self._value(trial, name, distribution)

    def given(self, trial: Any) -> list[Drawn]:
        """Return the values that a lost trial has got, and may have used without having said so."""
        ahead = self._drawn.pop(trial._trial_id, None)
        found = [] if ahead is None else ahead.values
        space, params = trial.relative_search_space or {}, trial._relative_params or {}
        together = [(name, space[name], space[name].to_internal_repr(params[name])) for name in params if name in space]
        return [one for one in [*found, *together] if one[0] not in trial._cached_frozen_trial.distributions]

    def asked(self, trial: Any) -> None:
        """Note what a trial that has ended asked for."""
        self.drop(trial)
        self._order = list(trial._cached_frozen_trial.distributions.items())

    def note_draw(self) -> None:
        """Note that the sampler was asked for a value, so that no state before it comes back."""
        self._draws += 1

"""The space in Optuna's terms: a distribution for each domain, and the conversion of values in both directions.

Rule 1: pure. Rule 2: parameters have their dotted names. One that has a single value, or whose conditions do not hold,
is not asked for.

Imports optuna, so it is imported only when a study begins with ``OptunaSearch``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import Trial

from asyncsearch.errors import SpaceError
from asyncsearch.space import Choice, Domain, LogRandInt, LogUniform, QUniform, RandInt, Space
from asyncsearch.space.parameter_values import show_plain

_Label = str | int | float | bool | None


class Dimensions:
    """The parameters of a space that Optuna decides."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._labels = {
            name: _labels(domain) for name, domain in space.parameters.items() if isinstance(domain, Choice)
        }
        self._distributions = {
            name: self._distribution(name, domain) for name, domain in space.parameters.items() if domain.size != 1
        }

    def suggest(self, trial: Trial) -> dict[str, Any]:
        """Return a flat configuration that a sampler proposes: dotted name -> value of the active parameters.

        Raises:
            SpaceError: a value lies outside its domain.
        """
        flat: dict[str, Any] = {}
        for name in self._space.order:
            if self._space.is_active(name, flat):
                domain = self._space.parameters[name]
                if name in self._distributions:
                    flat[name] = self._inside(name, domain, self._ask(trial, name))
                else:
                    flat[name] = domain.at_quantile(0.0)
        return flat

    def to_optuna(self, flat: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
        """Return a flat configuration as Optuna stores it: name -> value, and name -> distribution."""
        params = {name: self._external(name, flat[name]) for name in self._distributions if name in flat}
        return params, {name: self._distributions[name] for name in params}

    def _ask(self, trial: Trial, name: str) -> Any:
        distribution = self._distributions[name]
        if isinstance(distribution, CategoricalDistribution):
            return trial.suggest_categorical(name, distribution.choices)
        low, high = distribution.low, distribution.high
        if isinstance(distribution, IntDistribution):
            return trial.suggest_int(name, low, high, log=distribution.log)
        return trial.suggest_float(name, low, high, step=distribution.step, log=distribution.log)

    def _distribution(self, name: str, domain: Domain) -> BaseDistribution:
        if isinstance(domain, Choice):
            return CategoricalDistribution(self._labels[name])
        bounds = domain.arguments()
        low, high = bounds["low"], bounds["high"]
        if isinstance(domain, RandInt):
            return IntDistribution(low, high, log=isinstance(domain, LogRandInt))
        if isinstance(domain, QUniform):
            return FloatDistribution(low, domain.at(domain.size - 1), step=domain.step)
        return FloatDistribution(low, high, log=isinstance(domain, LogUniform))

    def _external(self, name: str, value: Any) -> Any:
        domain = self._space.parameters[name]
        return self._labels[name][domain.index(value)] if isinstance(domain, Choice) else value

    def _inside(self, name: str, domain: Domain, value: Any) -> Any:
        if isinstance(domain, Choice):
            return domain.accept(domain.values[self._labels[name].index(value)])
        if isinstance(domain, QUniform) and abs(domain.nearest(value) - value) < domain.step * 1e-6:
            value = domain.nearest(value)  # Optuna adds up steps in floats: 0.30000000000000004 means 0.3
        try:
            return domain.accept(value)
        except SpaceError as error:
            raise SpaceError(f"{name}: {error}") from None


def _labels(domain: Choice) -> tuple[_Label, ...]:
    """Return the labels of a choice's values in Optuna: the values, or their code if Optuna has no such values."""
    is_known = all(value is None or isinstance(value, str | int | float) for value in domain.values)
    if is_known and len(set(domain.values)) == domain.size:  # 1 and True are the same to Optuna
        return domain.values
    return tuple(f"{at}: {show_plain(value)}" for at, value in enumerate(domain.values))

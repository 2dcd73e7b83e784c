"""The choices of categorical parameters, which another process may give as other objects, or in another order.

A class that was sent by value is another class there, and the order of a set differs from process to process. A study
refuses a parameter whose choices change, so the first ones that it got for a name stand for all that match them.
"""

from __future__ import annotations

from typing import Any

import cloudpickle
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.study import Study


class KnownChoices:
    """The first choices of each name."""

    def __init__(self, study: Study) -> None:
        """Begin with those of the trials that the study has."""
        self._first: dict[str, list[CategoricalDistribution]] = {}
        for trial in study.get_trials(deepcopy=False):
            for name, distribution in trial.distributions.items():
                if isinstance(distribution, CategoricalDistribution):
                    self.known(name, distribution)

    def known(self, name: str, distribution: BaseDistribution) -> BaseDistribution:
        """Return the choices that stand for these; the same distribution if they are new, or it has none."""
        if not isinstance(distribution, CategoricalDistribution):
            return distribution
        known = self._first.setdefault(name, [])
        if distribution in known:
            return distribution
        for one in known:
            if _order(distribution, one) is not None:
                return one
        known.append(distribution)
        return distribution

    def index_in(self, given: BaseDistribution, known: BaseDistribution, internal: float) -> float:
        """Return the internal value under the given distribution of one under the known distribution."""
        if given is known or not isinstance(given, CategoricalDistribution):
            return internal
        assert isinstance(known, CategoricalDistribution)
        order = _order(given, known)
        assert order is not None
        return order.index(int(internal))


def _order(given: CategoricalDistribution, known: CategoricalDistribution) -> list[int] | None:
    """Return the place among the known choices of each given one. None if they are not the same choices."""
    if len(given.choices) != len(known.choices):
        return None
    names = [_name(choice) for choice in known.choices]
    places = [names.index(name) if (name := _name(choice)) in names else -1 for choice in given.choices]
    return places if sorted(places) == list(range(len(places))) else None


def _name(choice: Any) -> object:
    """Return a key that is the same in two processes: a plain value, the name of a function or class, else a pickle."""
    if choice is None or isinstance(choice, bool | int | float | str):
        return type(choice), repr(choice)
    name = getattr(choice, "__qualname__", None)
    if isinstance(name, str):
        return getattr(choice, "__module__", ""), name
    return cloudpickle.dumps(choice)

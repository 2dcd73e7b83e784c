"""Maggy's optimizers, by name or by object, as what proposes trials here."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from asyncsearch.errors import SpaceError, UsageError
from asyncsearch.maggy.optimizer.asha import AshaSearch
from asyncsearch.maggy.searchspace import Searchspace
from asyncsearch.searchers import GridSearch as GridSearcher
from asyncsearch.searchers import OptunaSearch
from asyncsearch.searchers import RandomSearch as RandomSearcher
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.space import Space, choice

RUN = "run"
"""The parameter of an experiment without hyper-parameters, which tells its trials apart."""


class Plan(NamedTuple):
    """The space and the searcher of an experiment."""

    space: Space
    searcher: Searcher
    num_trials: int | None
    """None: as many as the searcher proposes."""
    hidden: tuple[str, ...] = ()
    """Parameters that are not the function's."""


class AbstractOptimizer:
    """The base of Maggy's optimizers. One of the program's own is refused: see ``plan_of``."""

    def __init__(self, pruner: Any = None, pruner_kwargs: Any = None) -> None:
        if pruner is not None or pruner_kwargs is not None:
            raise UsageError(
                f"{type(self).__name__}(pruner={pruner!r}): trials of several budgets are Asha's: write "
                "optimizer=Asha(reduction_factor=3, resource_min=1, resource_max=9), or use asyncsearch's Hyperband."
            )

    def plan(self, searchspace: Searchspace, num_trials: int, direction: str) -> Plan:
        """Return the plan of a search of a space."""
        raise UsageError(
            f"{type(self).__name__} is an optimizer of the program's own, which proposes Maggy's trials: write its "
            "proposals as a searcher (docs/searchers.md), or name one: 'randomsearch', 'asha', 'gridsearch', 'tpe', "
            "'gp', 'none'."
        )


class RandomSearchOptimizer(AbstractOptimizer):
    """``"randomsearch"``: draws from the whole space."""

    def plan(self, searchspace: Searchspace, num_trials: int, direction: str) -> Plan:
        return Plan(searchspace.to_space(), RandomSearcher(), num_trials)


class GridSearchOptimizer(AbstractOptimizer):
    """``"gridsearch"``: every combination once; their number is that of the trials."""

    def plan(self, searchspace: Searchspace, num_trials: int, direction: str) -> Plan:
        ranges = [name for name, kind in searchspace.names().items() if kind in ("DOUBLE", "INTEGER")]
        if ranges:
            raise SpaceError(
                f"gridsearch: {', '.join(ranges)} is a range, which has no list of values: write e.g. "
                f"{ranges[0]}=('DISCRETE', [...]), or optimizer='randomsearch'."
            )
        return Plan(searchspace.to_space(), GridSearcher(), None)


class Asha(AbstractOptimizer):
    """``"asha"``: the best 1 of ``reduction_factor`` trials of a budget are trained anew with that times the budget.

    The function gets ``budget``, from ``resource_min`` on; the experiment ends with the first trial that has the
    highest budget up to ``resource_max``.
    """

    def __init__(self, reduction_factor: int = 2, resource_min: int = 1, resource_max: int = 4) -> None:
        super().__init__()
        self.search = AshaSearch(
            reduction_factor=reduction_factor, resource_min=resource_min, resource_max=resource_max
        )

    def plan(self, searchspace: Searchspace, num_trials: int, direction: str) -> Plan:
        least = self.search.reduction_factor ** len(self.search.budgets)
        if num_trials < least:
            raise UsageError(
                f"asha: num_trials={num_trials} is too few for the budgets {', '.join(map(str, self.search.budgets))}: "
                f"write num_trials={least} or more, or a smaller resource_max."
            )
        return Plan(searchspace.to_space(), dataclasses.replace(self.search, num_trials=num_trials), None)


class _Bayesian(AbstractOptimizer):
    """A sampler of Optuna in place of a model of Maggy's."""

    sampler = "tpe"

    def __init__(self, num_warmup_trials: int = 15, pruner: Any = None, pruner_kwargs: Any = None, **others: Any):
        super().__init__(pruner, pruner_kwargs)
        if others:
            name = type(self).__name__
            raise UsageError(
                f"{name}({', '.join(others)}): the model is Optuna's, which has no such settings: write "
                f"{name}(num_warmup_trials=15) alone."
            )
        self._search = OptunaSearch(self.sampler, options={"n_startup_trials": num_warmup_trials})

    def plan(self, searchspace: Searchspace, num_trials: int, direction: str) -> Plan:
        return Plan(searchspace.to_space(), self._search, num_trials)


class TPE(_Bayesian):
    """``"tpe"``: Optuna's TPE."""


class GP(_Bayesian):
    """``"gp"``: Optuna's Gaussian process."""

    sampler = "gp"


class SingleRun(AbstractOptimizer):
    """``"none"``: ``num_trials`` trials without hyper-parameters."""

    def plan(self, searchspace: Searchspace, num_trials: int, direction: str) -> Plan:
        if searchspace.names():
            raise UsageError(
                "optimizer=None is for an experiment without hyper-parameters: write optimizer='randomsearch', or "
                "leave searchspace= out."
            )
        return Plan(Space({RUN: choice(*range(num_trials))}), GridSearcher(), None, (RUN,))


_NAMES: dict[str, type[AbstractOptimizer]] = {
    "randomsearch": RandomSearchOptimizer,
    "asha": Asha,
    "gridsearch": GridSearchOptimizer,
    "tpe": TPE,
    "gp": GP,
    "none": SingleRun,
}
_THEIRS = {"RandomSearch": RandomSearchOptimizer, "GridSearch": GridSearchOptimizer}
"""Maggy's names of classes whose names are taken here."""


def optimizer_of(given: Any) -> AbstractOptimizer:
    """Return an optimizer by its name, in any case, or as it is; None is ``"none"``.

    Raises:
        UsageError: there is none of the name.
    """
    if isinstance(given, AbstractOptimizer):
        return given
    kind = _NAMES.get("none" if given is None else given.lower() if isinstance(given, str) else "")
    if kind is None:
        raise UsageError(f"optimizer={given!r} is unknown: write one of {', '.join(map(repr, _NAMES))}.")
    return kind()


def __getattr__(name: str) -> Any:
    if name in _THEIRS:
        return _THEIRS[name]
    raise AttributeError(f"asyncsearch.maggy.optimizer has no {name!r}.", name=name)

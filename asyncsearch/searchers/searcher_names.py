"""Searchers by name, such as ``"tpe"``, and samplers of Optuna as searchers. Pure; nothing is imported for a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from asyncsearch.errors import UsageError
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.searchers.optuna import SAMPLER_NAMES, OptunaSearch, is_sampler
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.searchers.sobol import SobolSearch

_OURS: Mapping[str, Callable[[], Searcher]] = {"random": RandomSearch, "grid": GridSearch, "sobol": SobolSearch}
_NAMES = (*_OURS, *(name for name in SAMPLER_NAMES if name not in _OURS))
_FOREIGN_NAMES = {
    "bayes": "gp",
    "bo": "gp",
    "gaussian": "gp",
    "hyperopt": "tpe",
    "bohb": "tpe",
    "cma": "cmaes",
    "qmc": "sobol",
}
"""Parts of names that others use -> the nearest of ours."""
_SCHEDULERS = {
    "asha": "ASHA(max_resource=81)",
    "hyperband": "Hyperband(max_resource=81)",
    "halving": "ASHA(max_resource=81)",
    "pbt": "PBT(max_resource=100, perturbation_interval=5)",
    "median": "MedianStopping()",
}
"""Parts of names of schedulers, which are another argument -> the call."""


def searcher_of(given: object) -> Searcher:
    """Return a searcher as it is, or the one that a name or a sampler of Optuna stands for; None: ``RandomSearch()``.

    Raises:
        UsageError: it is nothing of these.
    """
    if given is None:
        return RandomSearch()
    if isinstance(given, Searcher):
        return given
    if isinstance(given, str):
        return _by_name(given)
    if is_sampler(given):
        return OptunaSearch(given)
    if isinstance(given, type):
        call = "GridSearch(points=5)" if given.__name__ == "GridSearch" else f"{given.__name__}()"
        raise UsageError(f"searcher={given.__name__} is a class, not a searcher: write searcher={call}.")
    _refuse_scheduler(type(given).__name__, repr(given))
    raise UsageError(f"searcher={given!r} is not a Searcher: write one of {_shown()}, or RandomSearch().")


def _by_name(name: str) -> Searcher:
    if name in _OURS:
        return _OURS[name]()
    if name in SAMPLER_NAMES:
        return OptunaSearch(name)
    lower = name.lower().replace("-", "").replace("_", "").replace(" ", "")
    _refuse_scheduler(lower, repr(name))
    near = [known for known in _NAMES if known in lower] + [
        ours for part, ours in _FOREIGN_NAMES.items() if part in lower
    ]
    hint = f"write searcher={near[0]!r}. The names are {_shown()}" if near else f"write one of {_shown()}"
    raise UsageError(f"searcher={name!r} is not the name of a searcher: {hint}.")


def _refuse_scheduler(name: str, shown: str) -> None:
    call = next((call for part, call in _SCHEDULERS.items() if part in name.lower()), None)
    if call is not None and "bohb" not in name.lower():
        own = shown if shown.endswith(")") else call
        raise UsageError(f"searcher={shown} decides how far trials train: write scheduler={own}.")


def _shown() -> str:
    return ", ".join(map(repr, _NAMES))

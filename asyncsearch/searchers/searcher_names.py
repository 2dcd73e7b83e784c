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
        call = f"{given.__name__}()"
        raise UsageError(f"searcher={given.__name__} is a class, not a searcher: write searcher={call}.")
    raise UsageError(f"searcher={given!r} is not a Searcher: write one of {_shown()}, or RandomSearch().")


def _by_name(name: str) -> Searcher:
    if name in _OURS:
        return _OURS[name]()
    if name in SAMPLER_NAMES:
        return OptunaSearch(name)
    lower = name.lower().replace("-", "").replace("_", "").replace(" ", "")
    near = [known for known in _NAMES if known in lower] + [
        ours for part, ours in _FOREIGN_NAMES.items() if part in lower
    ]
    hint = f"write searcher={near[0]!r}. The names are {_shown()}" if near else f"write one of {_shown()}"
    raise UsageError(f"searcher={name!r} is not the name of a searcher: {hint}.")


def _shown() -> str:
    return ", ".join(map(repr, _NAMES))

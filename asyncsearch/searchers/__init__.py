"""Searchers propose configurations. They are known by their classes, and some by a name, such as ``"tpe"``."""

from __future__ import annotations

from asyncsearch.errors import UsageError
from asyncsearch.other_libraries.algorithms import answer_on_searcher
from asyncsearch.searchers.ablation import Ablation
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.searchers.optuna import SAMPLER_NAMES, OptunaSearch, is_sampler
from asyncsearch.searchers.random import RandomSearch, SobolSearch

__all__ = [
    "Ablation",
    "GridSearch",
    "OptunaSearch",
    "RandomSearch",
    "Searcher",
    "SearcherState",
    "SobolSearch",
]

_OURS = {"random": RandomSearch, "grid": GridSearch, "sobol": SobolSearch}


def searcher_of(given: object) -> Searcher:
    """Return a searcher as it is, or the one for a name or a sampler of Optuna; by default ``RandomSearch()``.

    Raises:
        UsageError: it is nothing of these.
    """
    if given is None:
        return RandomSearch()
    if isinstance(given, Searcher):
        return given
    if isinstance(given, str) and given in _OURS:
        return _OURS[given]()
    if is_sampler(given) or (isinstance(given, str) and given in SAMPLER_NAMES):
        return OptunaSearch(given)
    raise UsageError(answer_on_searcher(given))

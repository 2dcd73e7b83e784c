"""Searchers propose configurations."""

from asyncsearch.searchers.ablation import Ablation
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.searchers.optuna import OptunaSearch
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.searchers.sobol import SobolSearch

__all__ = ["Ablation", "GridSearch", "OptunaSearch", "RandomSearch", "Searcher", "SearcherState", "SobolSearch"]

"""Every searcher of ours keeps the laws that one written by somebody else must keep."""

from __future__ import annotations

import pytest

from asyncsearch.searchers import GridSearch, OptunaSearch, RandomSearch, SobolSearch
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.testing import SearcherConformance


class TestRandomSearch(SearcherConformance):
    def make(self) -> Searcher:
        return RandomSearch()


class TestGridSearch(SearcherConformance):
    draws = False

    def make(self) -> Searcher:
        return GridSearch(points=2)


class TestSobolSearch(SearcherConformance):
    def make(self) -> Searcher:
        return SobolSearch()


class TestOptunaSearch(SearcherConformance):
    learns = True
    sampler = "tpe"

    def make(self) -> Searcher:
        pytest.importorskip("optuna")
        return OptunaSearch(self.sampler, min_observations=3)


class TestOptunaCmaEs(TestOptunaSearch):
    sampler = "cmaes"


class TestOptunaNSGAII(TestOptunaSearch):
    sampler = "nsgaii"


class TestOptunaRandom(TestOptunaSearch):
    sampler = "random"

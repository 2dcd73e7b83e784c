"""Random search: every proposal is drawn from the space independently.

Rule 1: pure. Proposal i is a function of (seed, i) and of nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from asyncsearch.randomness import generator
from asyncsearch.searchers.base_searcher import Searcher, SearcherState
from asyncsearch.space import Space
from asyncsearch.trial import Params

_PURPOSE = "searchers.random"


@dataclass(frozen=True, kw_only=True)
class RandomSearch(Searcher):
    """Proposes the initial points of the space, then draws without end."""

    def begin(self, space: Space, seed: int) -> RandomState:
        state = RandomState(space, seed)
        # Constraints that reject everything fail before a worker starts, not in the middle of a search.
        for number in range(len(space.initial) + 1):
            state.propose(number)
        return state


class RandomState(SearcherState):
    """Keeps its arguments only, so there is nothing to snapshot."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._seed = seed
        self._initial = space.initial

    def propose(self, number: int) -> Params:
        source = generator(self._seed, _PURPOSE, number)
        if number < len(self._initial):
            return self._space.complete(self._initial[number], source)
        return self._space.sample(source)

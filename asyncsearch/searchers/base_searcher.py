"""What a searcher is: it proposes configurations.

Rule 1: pure. All that it knows it was told as a fact; see ``asyncsearch.listener``.
Rule 2: randomness is counter-based. The i-th proposal is a function of (seed, i), and of nothing else
unless the searcher learns.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from asyncsearch.listener import StudyListener
from asyncsearch.searchers.earlier_trials import beginning_with_best, going_on
from asyncsearch.searchers.observations import Observed
from asyncsearch.space import Space
from asyncsearch.trial import Params


class SearcherState(StudyListener):
    """The living half of a searcher, owned by one study.

    ``propose``, ``notes`` and ``length`` ask and change nothing; the methods of a listener state facts.
    """

    @abc.abstractmethod
    def propose(self, number: int) -> Params | None:
        """Return the ``number``-th proposal, from 0; None: there is none, the searcher is exhausted.

        Raises:
            SpaceError: the constraints rejected every one of a bounded number of candidates.
        """

    def notes(self, number: int) -> dict[str, Any]:
        """Return what to be told of the ``number``-th proposal besides its params, should it become a trial.

        JSON values; asked right after ``propose``. The journal keeps them, and ``noted`` brings them back.
        """
        return {}

    def length(self) -> int | None:
        """Return how many proposals there are; None: no end, or not known beforehand."""
        return None

    def snapshot(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Become the state that ``snapshot`` described."""


class Searcher(abc.ABC):
    """What the user writes: a frozen description."""

    @abc.abstractmethod
    def begin(self, space: Space, seed: int) -> SearcherState:
        """Return a fresh state for one study.

        Raises:
            SpaceError: the searcher cannot search this space.
        """

    def begin_with(self, space: Space, seed: int, earlier: Sequence[Observed]) -> SearcherState:
        """Return a fresh state for one study that is warmed by the trials of earlier ones.

        One that does not learn from them begins with the best, as if they were initial points of the space, and then
        proposes other configurations than an earlier study of the same seed.

        Raises:
            SpaceError: the searcher cannot search this space.
        """
        return self.begin(beginning_with_best(space, earlier), going_on(seed, earlier))

    @abc.abstractmethod
    def describe(self) -> str:
        """Return one line for people."""

"""What a searcher is: it proposes configurations.

Rule 1: pure, as ``asyncsearch.schedulers.base`` says of schedulers.
Rule 2: randomness is counter-based. The i-th proposal is a function of (seed, i), and of nothing else
unless the searcher learns.
"""

from __future__ import annotations

import abc
from typing import Any

from asyncsearch.ids import TrialId
from asyncsearch.space import Space
from asyncsearch.trial import Params


class SearcherState(abc.ABC):
    """The living half of a searcher, owned by one study: ``propose`` and ``length`` ask, the others state facts."""

    @abc.abstractmethod
    def propose(self, number: int) -> Params | None:
        """Return the ``number``-th proposal, from 0; None: there is none, the searcher is exhausted.

        Raises:
            SpaceError: the constraints rejected every one of a bounded number of candidates.
        """

    def length(self) -> int | None:
        """Return how many proposals there are; None: no end, or not known beforehand."""
        return None

    def created(self, trial: TrialId, params: Params) -> None:
        """A proposal became a trial."""

    def reported(self, trial: TrialId, resource: int, score: float | None) -> None:
        """A trial reported; smaller scores are better, None is no result."""

    def branched(self, trial: TrialId, params: Params, resource: int) -> None:
        """A trial goes on at ``resource`` from another one's checkpoint, with these params: what it reports from now on
        is not what its proposal is worth.
        """

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        """A trial completed, was stopped or failed (score None)."""

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

    @abc.abstractmethod
    def describe(self) -> str:
        """Return one line for people."""

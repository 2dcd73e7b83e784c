"""What a searcher is: it proposes configurations.

Rule 1: pure, as ``asyncsearch.schedulers.base_scheduler`` says of schedulers.
Rule 2: randomness is counter-based. The i-th proposal is a function of (seed, i), and of nothing else
unless the searcher learns.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from asyncsearch.ids import TrialId
from asyncsearch.searchers.earlier_trials import beginning_with_best, going_on
from asyncsearch.searchers.observations import Observed
from asyncsearch.space import Space
from asyncsearch.trial import Params


class SearcherState(abc.ABC):
    """The living half of a searcher, owned by one study.

    ``propose``, ``notes`` and ``length`` ask, and asking changes nothing; the others state facts. A replay states the
    facts of the journal in their order, asks nothing, and ends in the same state.
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

    def created(self, trial: TrialId, params: Params) -> None:
        """A proposal became a trial."""

    def noted(self, trial: TrialId, notes: dict[str, Any]) -> None:
        """What ``notes`` said of a proposal that became a trial; stated after ``created``, and not if it was empty."""

    def reported(self, trial: TrialId, resource: int, score: float | None) -> None:
        """A trial reported; smaller scores are better, None is no result."""

    def paused(self, trial: TrialId, resource: int, score: float | None) -> None:
        """A trial stands at its target, and trains on only if it is promoted."""

    def promoted(self, trial: TrialId, from_resource: int, to_resource: int) -> None:
        """A paused trial trains on."""

    def branched(self, trial: TrialId, params: Params, resource: int) -> None:
        """A paused trial goes on at ``resource`` from another one's checkpoint, with these params: what it reports from
        now on is not what its proposal is worth.
        """

    def completed(self, trial: TrialId, resource: int, score: float | None) -> None:
        """A trial came to its end with this last score."""
        self.ended(trial, resource, score)

    def stopped(self, trial: TrialId, resource: int, score: float | None) -> None:
        """A trial was stopped early; ``score`` is its last one."""
        self.ended(trial, resource, score)

    def failed(self, trial: TrialId, resource: int) -> None:
        """A trial failed for good."""
        self.ended(trial, resource, None)

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        """A trial completed, was stopped or failed (score None): for those to whom it is all one."""

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

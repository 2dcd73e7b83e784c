"""The interface of searchers, which propose configurations.

Rule 1: pure. All that it knows it was told as a fact; see ``asyncsearch.listener``.
Rule 2: randomness is counter-based. The i-th proposal is a function of (seed, i), and of nothing else
unless the searcher learns.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from asyncsearch.checked_calls import CheckedCalls
from asyncsearch.listener import StudyListener
from asyncsearch.searchers.observations import Observed, continued_seed, with_best_initial
from asyncsearch.space import Space
from asyncsearch.trial import Params

_RESULTS = ("reported", "paused", "promoted", "branched", "completed", "stopped", "failed", "ended")
"""The methods of a listener that state the outcome of a trial."""


class SearcherState(StudyListener):
    """The living half of a searcher, owned by one study.

    ``propose``, ``notes`` and ``length`` ask and change nothing; the methods of a listener state facts.
    """

    max_batch: int | None = None
    """Number of trials that may begin together on one worker, where a study packs. None if as many as it packs. A
    searcher that learns proposes the later ones of a pack without the results of the earlier ones."""

    @property
    def learns(self) -> bool:
        """Whether proposals may depend on results: by default, whether it overrides a method that states one.

        Of a searcher that does not learn, a study that packs creates more trials than begin, to pack alike ones.
        """
        return any(getattr(type(self), name) is not getattr(StudyListener, name) for name in _RESULTS)

    @abc.abstractmethod
    def propose(self, number: int) -> Params | None:
        """Return the ``number``-th proposal, from 0. None if there is none, since the searcher is exhausted.

        Raises:
            SpaceError: the constraints rejected every one of a bounded number of candidates.
        """

    def notes(self, number: int) -> dict[str, Any]:
        """Return notes on the ``number``-th proposal, besides its params, for the case that it becomes a trial.

        JSON values; asked right after ``propose``. The journal keeps them, and ``noted`` gives them back.
        """
        return {}

    def length(self) -> int | None:
        """Return the number of proposals. None if they have no end, or it is not known beforehand."""
        return None

    def snapshot(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Become the state that ``snapshot`` described."""


class Searcher(metaclass=CheckedCalls):
    """The frozen description that the user writes."""

    def extended(self, space: Space) -> Space:
        """Return the space with the parameters that the searcher adds to it; by default none.

        Raises:
            SpaceError: the space has one of them already.
        """
        return space

    @abc.abstractmethod
    def begin(self, space: Space, seed: int) -> SearcherState:
        """Return a fresh state for one study.

        Raises:
            SpaceError: the searcher cannot search this space.
        """

    def begin_with(self, space: Space, seed: int, earlier: Sequence[Observed]) -> SearcherState:
        """Return a fresh state for one study with a warm start from the trials of earlier ones.

        A searcher that does not learn begins with the best of them, as if they were initial points of the space, and
        then proposes other configurations than an earlier study of the same seed.

        Raises:
            SpaceError: the searcher cannot search this space.
        """
        return self.begin(with_best_initial(space, earlier), continued_seed(seed, earlier))

    def describe(self) -> str:
        """Return one line for people: by default the call without arguments."""
        return f"{type(self).__name__}()"

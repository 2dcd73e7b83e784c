"""The facts of a study that its scheduler and its searcher receive: one method for each fact, the same for both.

Rule 1: pure. A listener knows only the arguments of these methods: no clock, file, thread or generator.
Rule 2: a replay of the journal states the same facts in the same order and must end in the same state, although it
requests no decision of the listener.

Scores are normalised by the engine: smaller is better, and None stands for NaN, infinities and failures. A metric that
a trial has not reported yet is no score: nothing is stated about the trial before its first value.
"""

from __future__ import annotations

import abc
from typing import Any

from asyncsearch.ids import TrialId
from asyncsearch.trial import Params


class StudyListener(abc.ABC):
    """Is notified of each fact, the scheduler before the searcher. By default it ignores them."""

    def run_requested(self, num_trials: int | None) -> None:
        """A run was requested: trials will be created until this many exist, or without end if that is None."""

    def no_more_trials(self) -> None:
        """The searcher is exhausted: no further trial will be created. May be stated repeatedly."""

    def created(self, trial: TrialId, params: Params) -> None:
        """A proposal became a trial. Ids count from 0 in the order of creation."""

    def noted(self, trial: TrialId, notes: dict[str, Any]) -> None:
        """The searcher's ``notes`` on the proposal of a new trial; stated after ``created``, unless they are empty."""

    def reported(self, trial: TrialId, resource: int, score: float | None) -> None:
        """A trial trained up to a resource, and ``score`` is its last one at or before it.

        Stated from its first value of the metric on; its resources increase strictly.
        """

    def paused(self, trial: TrialId, resource: int, score: float | None) -> None:
        """A trial reached its target, with a durable checkpoint; ``score`` is its last one at or before ``resource``.

        It continues only if it is promoted.
        """

    def promoted(self, trial: TrialId, from_resource: int, to_resource: int) -> None:
        """A paused trial continues."""

    def branched(self, trial: TrialId, donor: TrialId, params: Params, resource: int, to_resource: int) -> None:
        """A paused trial continues from the donor's checkpoint at ``resource``, with these params.

        ``promoted`` is not called for it. Its later reports do not measure its proposal.
        """

    def completed(self, trial: TrialId, resource: int, score: float | None) -> None:
        """A trial reached ``max_resource``, or returned, with this last score."""
        self.ended(trial, resource, score)

    def stopped(self, trial: TrialId, resource: int, score: float | None) -> None:
        """A trial was stopped early; ``score`` is its last one."""
        self.ended(trial, resource, score)

    def failed(self, trial: TrialId, resource: int) -> None:
        """A trial failed finally, after it had trained up to ``resource``."""
        self.ended(trial, resource, None)

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        """A trial completed, was stopped or failed (score None), unless the method for that case is overridden."""

    @abc.abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """Return the whole state as JSON values, from which ``restore`` makes an equal state."""

    @abc.abstractmethod
    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restore the state that ``snapshot`` described."""

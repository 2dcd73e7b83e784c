"""A trial that was asked for, as the one who evaluates it has it, and what is said to a result."""

from __future__ import annotations

import copy
import enum
from collections.abc import Mapping
from typing import Any, Protocol

from asyncsearch.engine.state import StudyState
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.sequences.objects import with_known
from asyncsearch.trial import Params


class NextStep(enum.Enum):
    """The fate of a trial after a result was told."""

    GO_ON = "go on"
    """Evaluate it further: to its ``target``, which may be a new one."""
    PAUSE = "pause"
    """Nothing for now; ``ask`` returns it when it is promoted."""
    STOP = "stop"
    """It is not worth finishing."""
    COMPLETE = "complete"
    """It is at its end."""


class Evaluated(Protocol):
    """The study that is told of its trials."""

    state: StudyState

    def tell(self, number: TrialId, value: Any, metrics: Mapping[str, Any], resource: int | None) -> NextStep:
        """Take a result."""

    def fail(self, number: TrialId, reason: str) -> NextStep:
        """Take a failure."""

    def note(self, number: TrialId, key: str, text: object) -> None:
        """Take a note."""


class AskedTrial:
    """A trial to be evaluated elsewhere. It may be told of by its number from any later process."""

    def __init__(self, session: Evaluated, number: TrialId, params: Params, resource: int) -> None:
        self._session = session
        self.id = number
        self._params = params
        self.begins_at = resource
        """Units that it was evaluated for when it was asked for: 0, or where it was paused."""

    @property
    def name(self) -> str:
        """The displayed name."""
        return trial_name(self.id)

    @property
    def params(self) -> Params:
        """Its configuration, a copy, with the objects of choices themselves."""
        return with_known(copy.deepcopy(self._params))

    @property
    def resource(self) -> int:
        """Units of the resource for which a result was told."""
        return self._session.state.trials[self.id].resource

    @property
    def target(self) -> int | None:
        """Units up to which it is to be evaluated now. None means until you say that it is done, by ``tell(value)``."""
        return self._session.state.trials[self.id].target

    @property
    def reason(self) -> str:
        """Why it is in its present state, in words."""
        return self._session.state.trials[self.id].reason

    def tell(self, value: Any = None, *, resource: int | None = None, **metrics: Any) -> NextStep:
        """Tell a result, durable when this returns, and return what becomes of the trial.

        Args:
            value: of the study's metric, or a mapping of metrics.
            resource: units after which it was measured; None means at the trial's target, or, where it has none, at its
                end.
            metrics: by name, as in ``TrialContext.report``.

        Raises:
            UsageError: the trial is not being evaluated, or has been told of that resource, or the value is no number.
        """
        return self._session.tell(self.id, value, metrics, resource)

    def fail(self, reason: str) -> NextStep:
        """Tell that the evaluation failed; the trial is asked for again, as often as ``max_failures`` says.

        Raises:
            UsageError: the trial is not being evaluated.
        """
        return self._session.fail(self.id, reason)

    def note(self, key: str, text: object) -> None:
        """Leave a short text beside the metrics of the trial, as ``TrialContext.note``.

        Raises:
            UsageError: the trial is not being evaluated, the key is no name, or the text is too long.
        """
        self._session.note(self.id, key, text)

    def __repr__(self) -> str:
        to = "its end" if self.target is None else self.target
        return f"<{self.name}, from {self.begins_at} to {to}: {self.params}>"

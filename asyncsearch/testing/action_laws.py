"""The laws that every action of a search obeys, with any scheduler."""

from __future__ import annotations

from collections.abc import Sequence

from asyncsearch.actions import AnyAction, Branch, CreateTrial, MoveTrial, Promote
from asyncsearch.engine.state import StudyState
from asyncsearch.ids import TrialId
from asyncsearch.nonfinite import finite
from asyncsearch.testing.checked_methods import require_words
from asyncsearch.trial import TrialState


class ActionLaws:
    """Checks the actions of one study against the laws of all schedulers.

    Args:
        pauses: whether the scheduler may pause trials.
        max_resource: resource at which a trial is complete, or None.
        promotes_without_value: whether trials whose last value is not finite are promoted.
    """

    def __init__(self, *, pauses: bool, max_resource: int | None, promotes_without_value: bool = False) -> None:
        self._pauses, self._max_resource = pauses, max_resource
        self._promotes_without_value = promotes_without_value
        self._targets: dict[TrialId, int | None] = {}

    def check(self, state: StudyState, actions: Sequence[AnyAction]) -> None:
        """Check actions; ``state`` is the one after them.

        Raises:
            AssertionError: an action breaks a law; the message names the trial.
        """
        for action in actions:
            match action:
                case CreateTrial():
                    self._check_target(f"trial {action.trial} at its beginning", 0, action.target)
                    self._targets[action.trial] = action.target
                case Promote():
                    self._check_promotion(state, action)
                    self._targets[action.trial] = action.to_resource
                case Branch():
                    self._check_branch(state, action)
                    self._targets[action.trial] = action.to_resource
                case MoveTrial():
                    self._check_move(action)
                case _:
                    pass

    def _check_target(self, whose: str, start: int, target: int | None) -> None:
        if target is None:
            assert self._max_resource is None, f"{whose}: the target is None, and max_resource={self._max_resource}"
            return
        top = self._max_resource
        assert start < target, f"{whose}: the target {target} is not above {start}"
        assert top is None or target <= top, f"{whose}: the target {target} lies beyond max_resource={top}"

    def _check_promotion(self, state: StudyState, action: Promote) -> None:
        whose = f"trial {action.trial}, promoted from {action.from_resource}"
        assert self._pauses, f"{whose}: pauses is False"
        paused_at = self._targets[action.trial]
        assert action.from_resource == paused_at, f"{whose}: it was paused at {paused_at}"
        self._check_target(whose, action.from_resource, action.to_resource)
        require_words(action.reason, f"the promotion of trial {action.trial}")
        if not self._promotes_without_value:
            value = state.trials[action.trial].value
            assert finite(value) is not None, f"{whose}: its last value is {value}, which counts as the worst"

    def _check_branch(self, state: StudyState, action: Branch) -> None:
        whose = f"trial {action.trial}, which takes over from trial {action.donor} at {action.resource}"
        assert self._pauses, f"{whose}: pauses is False"
        paused_at = self._targets[action.trial]
        assert paused_at is not None, f"{whose}: it was never to pause"
        assert paused_at <= action.resource, f"{whose}: it is paused at {paused_at}, beyond that resource"
        assert action.donor != action.trial, f"{whose}: both are the same trial"
        assert not state.trials[action.donor].state.is_finished, f"{whose}: the donor has ended"
        self._check_target(whose, action.resource, action.to_resource)
        require_words(action.reason, f"the branch of trial {action.trial}")

    def _check_move(self, action: MoveTrial) -> None:
        if action.to is TrialState.PAUSED:
            assert self._pauses, f"trial {action.trial} is paused, but pauses is False"
        if action.to is TrialState.STOPPED:
            require_words(action.reason, f"the stop of trial {action.trial}")

"""Wrappers around a scheduler or searcher that check each answer and each fact against the interface.

Rule 1: a question changes nothing, and has the same answer when it is asked again.
Rule 2: a snapshot is JSON; a state restored from it has the same snapshot, to the byte, and gives the same answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from asyncsearch.actions import AnyAction, Branch, CreateTrial, MoveTrial, Promote
from asyncsearch.engine.state import StudyState
from asyncsearch.ids import TrialId
from asyncsearch.listener import StudyListener
from asyncsearch.schedulers.base_scheduler import Offspring, Promotion, SchedulerState
from asyncsearch.searchers.base_searcher import SearcherState
from asyncsearch.trial import Params, TrialState
from asyncsearch.values import finite

_RENEW_AFTER = 5
"""Facts after which the copy is restored anew; in between, it receives the facts like the original."""


class Double:
    """A living half, and a copy of it that was restored from its snapshot.

    Args:
        make: gives a fresh living half, each time the same.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.original, self._copy = make(), make()
        self._facts = 0

    def ask(self, name: str, *arguments: Any) -> Any:
        """Return the original's answer.

        Raises:
            AssertionError: the ask changed something, or asked again it or its copy answered otherwise.
        """
        before = text_of(self.original)
        answer = getattr(self.original, name)(*arguments)
        asked = f"{name}{arguments}"
        assert text_of(self.original) == before, f"{asked} changed the state, although it is a question"
        again = getattr(self.original, name)(*arguments)
        assert again == answer, f"{asked} answers {again!r} the second time, {answer!r} the first"
        copied = getattr(self._copy, name)(*arguments)
        assert copied == answer, f"{asked} answers {copied!r} after a restore, {answer!r} without"
        return answer

    def notify(self, name: str, *arguments: Any) -> None:
        """State a fact to the original and to its copy.

        Raises:
            AssertionError: they differ afterwards, or the restored state has another snapshot.
        """
        getattr(self.original, name)(*arguments)
        getattr(self._copy, name)(*arguments)
        when = f"after {name}{arguments}"
        self._require_alike(when)
        self._facts += 1
        if self._facts % _RENEW_AFTER == 0:
            self._copy = self._make()
            self._copy.restore(json.loads(text_of(self.original)))
            self._require_alike(f"{when} and a restore")

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restore both from a snapshot, each from values of its own."""
        for half in (self.original, self._copy):
            half.restore(json.loads(json.dumps(snapshot)))
        assert text_of(self.original) == json.dumps(snapshot), "what was restored has another snapshot"

    def _require_alike(self, when: str) -> None:
        original, copy = text_of(self.original), text_of(self._copy)
        assert copy == original, f"{when} the copy's snapshot is {copy}, that of the original {original}"


def text_of(half: StudyListener) -> str:
    """Return a snapshot as text.

    Raises:
        AssertionError: it has values that are not JSON, or keys that are not text.
    """
    snapshot = half.snapshot()
    try:
        text = json.dumps(snapshot, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the snapshot is not JSON: {error}; it is {snapshot!r}") from error
    assert json.loads(text) == snapshot, f"JSON changes the snapshot (a tuple, or keys that are no text): {snapshot!r}"
    return text


def _fact(name: str) -> Any:
    """Return the method that tells a fact of this name to both."""

    def tell(self: _CheckedListener, *arguments: Any) -> None:
        self._notify(name, *arguments)

    return tell


class _CheckedListener(StudyListener):
    """Tells each fact to both."""

    run_requested, no_more_trials = _fact("run_requested"), _fact("no_more_trials")
    created, noted, reported = _fact("created"), _fact("noted"), _fact("reported")
    paused, promoted, branched = _fact("paused"), _fact("promoted"), _fact("branched")
    completed, stopped, failed = _fact("completed"), _fact("stopped"), _fact("failed")

    def __init__(self, make: Callable[[], Any]) -> None:
        self._double = Double(make)

    def _notify(self, name: str, *arguments: Any) -> None:
        self._double.notify(name, *arguments)

    def snapshot(self) -> dict[str, Any]:
        snapshot: dict[str, Any] = self._double.original.snapshot()
        return snapshot

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._double.restore(snapshot)


class CheckedScheduler(_CheckedListener, SchedulerState):
    """A scheduler whose every answer is asked for twice, and once of a copy."""

    watched = _fact("watched")

    def __init__(self, make: Callable[[], SchedulerState]) -> None:
        super().__init__(make)
        for name, usual in vars(SchedulerState).items():
            if not name.startswith("_") and (usual is None or isinstance(usual, bool)):  # what it says of itself
                setattr(self, name, getattr(self._double.original, name))

    def first_target(self, trial: TrialId) -> int | None:
        target: int | None = self._double.ask("first_target", trial)
        return target

    def may_create(self, trial: TrialId) -> bool:
        return bool(self._double.ask("may_create", trial))

    def judge(self, trial: TrialId, resource: int) -> str | None:
        reason: str | None = self._double.ask("judge", trial, resource)
        if reason is not None:
            require_words(reason, f"judge({trial}, {resource})")
        return reason

    def judged_next(self, trial: TrialId, resource: int) -> int | None:
        place: int | None = self._double.ask("judged_next", trial, resource)
        assert place is None or place > resource, f"judged_next({trial}, {resource}) is {place}, which is not beyond it"
        return place

    def next_promotion(self) -> Promotion | None:
        promotion: Promotion | None = self._double.ask("next_promotion")
        return promotion

    def promotion_of(self, trial: TrialId) -> Promotion | None:
        promotion: Promotion | None = self._double.ask("promotion_of", trial)
        return promotion

    def may_promote(self, trial: TrialId) -> bool:
        return bool(self._double.ask("may_promote", trial))

    def losers(self) -> Sequence[TrialId]:
        losers: Sequence[TrialId] = self._double.ask("losers")
        return losers

    def closing_promotion(self) -> Promotion | None:
        promotion: Promotion | None = self._double.ask("closing_promotion")
        return promotion

    def branch(self, promotion: Promotion, params: Params, resource: int) -> Offspring | None:
        offspring: Offspring | None = self._double.ask("branch", promotion, params, resource)
        return offspring

    def position(self, trial: TrialId) -> str:
        words = self._double.ask("position", trial)
        assert isinstance(words, str), f"position({trial}) is {words!r}, which is no text"
        return words

    def _notify(self, name: str, *arguments: Any) -> None:
        super()._notify(name, *arguments)
        if name not in ("run_requested", "no_more_trials", "reported", "watched"):
            self.position(arguments[0])


class CheckedSearcher(_CheckedListener, SearcherState):
    """A searcher whose every answer is asked for twice, and once of a copy."""

    def __init__(self, make: Callable[[], SearcherState]) -> None:
        super().__init__(make)
        self.max_batch = self._double.original.max_batch

    @property
    def learns(self) -> bool:
        return bool(self._double.original.learns)

    def propose(self, number: int) -> Params | None:
        params: Params | None = self._double.ask("propose", number)
        return params

    def notes(self, number: int) -> dict[str, Any]:
        notes: dict[str, Any] = self._double.ask("notes", number)
        return notes

    def length(self) -> int | None:
        length: int | None = self._double.ask("length")
        return length


def require_words(reason: str, of: str) -> None:
    """Require a reason that a person can read.

    Raises:
        AssertionError: it is not one line of several words.
    """
    is_line = reason.isprintable() and len(reason.split()) >= 2
    assert is_line, f"the reason of {of} is {reason!r}: say in one line of words why"


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

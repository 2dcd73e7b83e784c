"""The sentences in which people learn what was lost, and what that costs. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from asyncsearch.engine.affected import trials_unsaved
from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.pool import SlotState
from asyncsearch.engine.state import StudyState
from asyncsearch.events import KILLED, TrainingEnded, WorkerLost
from asyncsearch.ids import TrialId, WorkerId, trial_name, worker_name
from asyncsearch.trial import Trial, TrialState

_NAMED = 3
"""Trials of one loss that are named; those of a shared stage may be many."""
_LONGEST_REASON = 200


class LossNotice(msgspec.Struct, frozen=True):
    """A worker, or the process of a training, that is gone, with the trials that were on it."""

    what: str
    """What was lost, in a sentence."""
    trained: dict[TrialId, int]
    """Trial -> resource up to which it had been trained there."""
    worker: WorkerId | None = None
    """The worker that was lost; None: it goes on with another process."""

    def sentence(self, state: StudyState) -> str:
        """Return what was lost and what becomes of it, in the state after the loss."""
        trials = [state.trials[number] for number in self.trained]
        left = self._not_launched(state)
        parts = [self.what, *_go_on(trials[:_NAMED], self.trained, state), *([left] if left else [])]
        if len(trials) > _NAMED:
            parts.insert(1 + _NAMED, f"So do {len(trials) - _NAMED:,} more that wait for the same training.")
        return " ".join(parts)

    def _not_launched(self, state: StudyState) -> str:
        """Return that the worker is given up; empty: it is not."""
        if self.worker is None or not _goes_on(state):
            return ""
        slot = state.pool.slots[self.worker]
        if slot.state is not SlotState.GONE:
            return ""
        times = "once" if slot.fruitless == 1 else f"{slot.fruitless} times in a row"
        return (
            f"It is not launched again, since it was lost {times} without having finished any training or stored a "
            f"checkpoint; workers left: {len(state.pool.alive())}."
        )


def loss_in(state: StudyState, event: WorkerLost | TrainingEnded) -> LossNotice | None:
    """Return what an event says is lost; called before the state has handled it."""
    if isinstance(event, WorkerLost):
        attempts = state.attempts_with(event.worker)
        what = f"{worker_name(event.worker)} was lost: {_short(event.reason)}."
        return LossNotice(what, _trained(attempts), event.worker)
    attempt = state.attempt(event.lease, event.lane)
    if event.error_kind != KILLED or attempt is None or attempt.is_closed:
        return None
    trials = [trial.id for trial in trials_unsaved(state, attempt, event)]
    what = (
        f"{_names(trials or [attempt.trial])} lost a process on {worker_name(event.lease.worker)}: "
        f"{_short(event.error.strip().splitlines()[-1] if event.error.strip() else 'it was killed')}."
    )
    return LossNotice(what, dict.fromkeys(trials, max(event.resource, attempt.resource)))


def _trained(attempts: list[Attempt]) -> dict[TrialId, int]:
    return {number: attempt.resource for attempt in attempts for number in attempt.trials}


def _names(trials: list[TrialId]) -> str:
    more = len(trials) - _NAMED
    return ", ".join(map(trial_name, trials[:_NAMED])) + (f" and {more:,} more" if more > 0 else "")


def _goes_on(state: StudyState) -> bool:
    return state.run is not None and not state.stopping


def _go_on(trials: list[Trial], trained: dict[TrialId, int], state: StudyState) -> Iterator[str]:
    """Yield what becomes of each trial."""
    later = "" if _goes_on(state) else " in the next run"
    for trial in trials:
        if trial.state is TrialState.FAILED:
            yield f"{trial.name} has failed: {_short(trial.reason)}."
        elif trial.state in (TrialState.WAITING, TrialState.RUNNING):
            start = 0 if trial.checkpoint is None else trial.checkpoint.resource
            again = trained[trial.id] - start
            where = f"goes on{later} from its checkpoint at {_units(start)}" if start else f"begins again{later}"
            what = f"{_units(again)} {'is' if again == 1 else 'are'}" if again > 0 else "the unit in progress is"
            cost = f"; {what} trained again" if trained[trial.id] > 0 else ""
            yield f"{trial.name} {where}{cost}."


def _units(count: int) -> str:
    return "1 unit" if count == 1 else f"{count:,} units"


def _short(reason: str) -> str:
    """Return the first line of a reason, without its last period: the others are what a process printed."""
    line = next(iter(reason.strip().splitlines()), "nobody says why").rstrip(".")
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}..."

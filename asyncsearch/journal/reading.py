"""Reading a study without its code: the journal alone determines the state of every trial.

Nothing is unpickled, so ``asyncsearch show`` works on a machine without the study's packages.
"""

from __future__ import annotations

import logging
from typing import Any

from asyncsearch.engine.state import StudyState
from asyncsearch.errors import InternalError
from asyncsearch.ids import TrialId
from asyncsearch.journal.opening import Replayed, StudyFile, config_of, replay
from asyncsearch.schedulers.base_scheduler import Promotion, SchedulerState, from_options
from asyncsearch.searchers.base_searcher import SearcherState
from asyncsearch.store.base_store import Store
from asyncsearch.trial import Params

_log = logging.getLogger(__name__)


def read_state(store: Store, study: StudyFile) -> tuple[StudyState, Replayed]:
    """Return the state that a store's journal leads to as far as it can be read, and how far that is."""
    state = StudyState(config_of(study), _NoSearcher(), _NoScheduler(), study.max_resource)
    replayed = replay(store, state)
    for doubt in replayed.doubts:
        _log.warning("%s: %s", store.shown, doubt)
    return state, replayed


def read_position(store: Store, study: StudyFile, trial: TrialId) -> str:
    """Describe a trial's position in its scheduler; empty: the scheduler cannot be rebuilt without unpickling."""
    scheduler = from_options(study.scheduler_options)
    living = None if scheduler is None else scheduler.begin_reading()
    if living is None or type(living).position is SchedulerState.position:
        return ""
    state = StudyState(config_of(study), _NoSearcher(), living, study.max_resource)
    replay(store, state)
    return state.scheduler.position(trial)


class _NoSearcher(SearcherState):
    """Accepts every event and proposes nothing."""

    def propose(self, number: int) -> Params | None:
        raise InternalError("A study that was opened for reading was asked for a proposal.")


class _NoScheduler(SchedulerState):
    """Accepts every event and decides nothing."""

    def first_target(self, trial: TrialId) -> int | None:
        raise InternalError("A study that was opened for reading was asked for a decision.")

    def judge(self, trial: TrialId, resource: int) -> str | None:
        raise InternalError("A study that was opened for reading was asked for a decision.")

    def next_promotion(self) -> Promotion | None:
        raise InternalError("A study that was opened for reading was asked for a decision.")

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Do nothing: reading does not need the snapshot."""

"""Reading a study without its code: the journal alone determines the state and the ends of every trial.

Nothing is unpickled, so ``asyncsearch show`` works on a machine without the study's packages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from asyncsearch.actions import Branch, ExtendWork, lanes_given
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import InternalError
from asyncsearch.events import DriverStarted, TrainingEnded
from asyncsearch.ids import CheckpointRef, TrialId
from asyncsearch.journal.format import Record
from asyncsearch.journal.opening import Replayed, StudyFile, config_of, replay
from asyncsearch.journal.projection import Projection
from asyncsearch.schedulers.base_scheduler import Promotion, SchedulerState, from_options
from asyncsearch.searchers.base_searcher import SearcherState
from asyncsearch.store.base_store import Store
from asyncsearch.trial import Params
from asyncsearch.work import Stage

_log = logging.getLogger(__name__)


def read_state(store: Store, study: StudyFile) -> tuple[StudyState, Replayed]:
    """Return the state that a store's journal leads to as far as it can be read, and how far that is."""
    state = StudyState(config_of(study), _NoSearcher(), _NoScheduler(), study.max_resource)
    replayed = replay(store, state)
    for doubt in replayed.doubts:
        _log.warning("%s: %s", store.shown, doubt)
    return state, replayed


def read_position(store: Store, study: StudyFile, trial: TrialId) -> str:
    """Describe a trial's position in its scheduler. Empty if the scheduler cannot be rebuilt without unpickling."""
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


_Readers = list[tuple[Stage, frozenset[TrialId]]]


def training_ends(records: Iterable[Record]) -> dict[TrialId, list[CheckpointRef]]:
    """Return for each trial the node and resource at which each training that it reads has ended, the last one last.

    A trial that has taken over another one's weights begins anew: its earlier training is no part of its path.
    """
    found: dict[TrialId, list[CheckpointRef]] = {}
    readers: dict[int, _Readers] = {}
    projection = Projection()
    for record in records:
        event = record.event
        if isinstance(event, TrainingEnded):
            for trial, end in _ended(readers.pop(event.lease.number + event.lane, []), event.resource):
                found.setdefault(trial, []).append(end)
        elif isinstance(event, DriverStarted):
            readers.clear()
        projection.add(record)
        for action in record.actions:
            if isinstance(action, Branch):
                found.pop(action.trial, None)
            for given in lanes_given(action):
                readers[given.attempt] = [(stage, _readers(projection, stage)) for stage in given.lane.stages]
            if isinstance(action, ExtendWork):
                more = [(stage, _readers(projection, stage)) for stage in action.stages]
                readers.setdefault(action.lease.number + action.lane, []).extend(more)
    return found


def _readers(projection: Projection, stage: Stage) -> frozenset[TrialId]:
    if not stage.more:
        return frozenset(stage.trials)
    return frozenset(trial for trial in projection.paths if projection.reads(trial, stage))


def _ended(readers: _Readers, resource: int) -> list[tuple[TrialId, CheckpointRef]]:
    """Return the trials that read a training which ended at a resource, each with its end."""
    reached = [one for one in readers if one[0].stop is None or resource <= one[0].stop] or readers[-1:]
    return [(trial, CheckpointRef(stage.node, resource)) for stage, trials in reached[:1] for trial in sorted(trials)]

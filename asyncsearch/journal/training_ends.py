"""Where the trainings that trials read have ended, as the journal tells. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from asyncsearch.actions import Branch, lanes_given
from asyncsearch.events import DriverStarted, TrainingEnded
from asyncsearch.ids import CheckpointRef, TrialId
from asyncsearch.journal.format import Record
from asyncsearch.journal.projection import Projection
from asyncsearch.work import Stage

_Readers = list[tuple[Stage, frozenset[TrialId]]]


def training_ends(records: Iterable[Record]) -> dict[TrialId, list[CheckpointRef]]:
    """Return for each trial the node and resource at which each training that it reads has ended, the last one last.

    A trial that has taken over another one's weights begins anew: what it trained before is no part of its path.
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
    return found


def _readers(projection: Projection, stage: Stage) -> frozenset[TrialId]:
    if not stage.more:
        return frozenset(stage.trials)
    return frozenset(trial for trial in projection.paths if projection.reads(trial, stage))


def _ended(readers: _Readers, resource: int) -> list[tuple[TrialId, CheckpointRef]]:
    """Return the trials that read a training which ended at a resource, each with its end."""
    reached = [one for one in readers if one[0].stop is None or resource <= one[0].stop] or readers[-1:]
    return [(trial, CheckpointRef(stage.node, resource)) for stage, trials in reached[:1] for trial in sorted(trials)]

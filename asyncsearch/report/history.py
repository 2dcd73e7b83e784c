"""What trials reported, read from the journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from asyncsearch.actions import Assign
from asyncsearch.engine.journal import Record
from asyncsearch.events import Reported
from asyncsearch.ids import TrialId
from asyncsearch.trial import Metrics


class Report(msgspec.Struct, frozen=True):
    """One report of one trial."""

    trial: TrialId
    resource: int
    metrics: Metrics
    t: float
    """Driver's clock, seconds since 1970."""


def reports(records: Iterable[Record]) -> Iterator[Report]:
    """Yield every report that counted, in the order of the journal.

    After a lost attempt a trial trains some units again; what it then reports again is left out here.
    """
    owners: dict[int, TrialId] = {}
    reached: dict[TrialId, int] = {}
    for record in records:
        for action in record.actions:
            if isinstance(action, Assign):
                owners[action.work.lease.number] = action.work.lanes[0].stages[0].trials[0]
        event = record.event
        if not isinstance(event, Reported):
            continue
        trial = owners.get(event.lease.number)
        if trial is not None and event.resource > reached.get(trial, 0):
            reached[trial] = event.resource
            yield Report(trial, event.resource, event.metrics, record.t)


def history(records: Iterable[Record], trial: TrialId) -> list[tuple[int, Metrics]]:
    """Return the reports of one trial as (resource, metrics), in the order of resource."""
    return [(report.resource, report.metrics) for report in reports(records) if report.trial == trial]

"""Reports to be published in the shared folder, after the study's own journal has them."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from asyncsearch.engine.attempts import Attempt
from asyncsearch.events import Reported
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.trial import Metrics


class Publication(NamedTuple):
    """Reports of one node in one attempt, to be published."""

    attempt: int
    node: NodeKey
    reports: tuple[tuple[int, Metrics], ...]
    ended: int | None


class UnpublishedReports:
    """The reports of one attempt that are not yet published."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._last = -1
        self._reports: defaultdict[NodeKey, list[tuple[int, Metrics]]] = defaultdict(list)

    def report(self, event: Reported) -> None:
        if event.resource > self._last:
            self._last = event.resource
            self._reports[self._attempt.node_at(event.resource)].append((event.resource, event.metrics))

    def reach(self, checkpoint: CheckpointRef) -> None:
        """Record that training reached a checkpoint, if nothing was reported there."""
        if checkpoint.resource > self._last:
            self._last = checkpoint.resource
            self._reports[checkpoint.node].append((checkpoint.resource, {}))

    def taken(self, ended: CheckpointRef | None = None) -> list[Publication]:
        """Return all reports, and forget them."""
        reports, self._reports = self._reports, defaultdict(list)
        if ended is not None:
            reports[ended.node] += []
        return [
            Publication(
                self._attempt.number,
                node,
                tuple(found),
                ended.resource if ended is not None and ended.node == node else None,
            )
            for node, found in reports.items()
        ]

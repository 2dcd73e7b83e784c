"""The metrics besides the study's own as each trial last reported them: people see them, no decision does. Pure.

They are in no snapshot: ``fill`` takes the values before one from the journal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from asyncsearch.ids import NodeKey, PathStep, TrialId
from asyncsearch.values import unspell

MOST_LIVE = 4
"""How many of them a driver keeps, a reference and a float each, by trial and by node."""

_Values = tuple[float | None, ...]


class LatestMetrics:
    """Name -> last value, of each trial; the first ``most`` names that were reported are kept."""

    __slots__ = ("_metric", "_most", "_nodes", "_places", "_trials", "unsure")

    def __init__(self, metric: str, most: int = MOST_LIVE) -> None:
        """Leave out the study's own metric, which each trial has as ``value``."""
        self._metric, self._most = metric, most
        self._places: dict[str, int] = {}
        self._trials: dict[TrialId, _Values] = {}
        self._nodes: dict[NodeKey, tuple[int, _Values]] = {}
        """The last report of each node, and its resource: a trial that comes later reads it."""
        self.unsure: set[TrialId] = set()
        """Trials that read the training of others, and left their path before its last report: only the journal has
        the values at that place."""

    @property
    def names(self) -> list[str]:
        """The names that are kept, in the order in which they were first reported."""
        return list(self._places)

    def of(self, trial: TrialId) -> dict[str, float]:
        """Return the last value of each kept metric that a trial has reported."""
        values = self._trials.get(trial, ())
        return {name: value for name, value in zip(self._places, values, strict=False) if value is not None}

    def has_others(self, metrics: Mapping[str, float | str]) -> bool:
        """Return whether a report has more than the study's metric."""
        return len(metrics) > (self._metric in metrics)

    def report(
        self, node: NodeKey | None, resource: int, metrics: Mapping[str, float | str], trials: Iterable[TrialId]
    ) -> None:
        """Note a report in a node, which some trials read. None if no other trial can read it later."""
        known = self._nodes.get(node, (0, ())) if node is not None else (0, ())
        if node is not None and resource >= known[0]:
            self._nodes[node] = resource, self._with(known[1], metrics)
        for trial in trials:
            self._trials[trial] = self._with(self._trials.get(trial, ()), metrics)
            if self.unsure and self._places.keys() <= metrics.keys():
                self.unsure.discard(trial)

    def inherit(self, trial: TrialId, steps: Iterable[PathStep], upto: int) -> None:
        """Let a trial read the reports on its path from before it came, up to a resource."""
        path = tuple(steps)
        ends = [*(step.start for step in path[1:]), upto]
        self.unsure.discard(trial)
        for step, end in zip(path, ends, strict=True):
            known = self._nodes.get(step.node)
            if known is None or step.start >= upto:
                continue
            if known[0] <= min(end, upto):
                self._trials[trial] = _joined(self._trials.get(trial, ()), known[1])
            else:
                self.unsure.add(trial)

    def keep(self, nodes: Collection[NodeKey]) -> None:
        """Forget all other nodes: nothing trains through them any more."""
        self._nodes = {node: known for node, known in self._nodes.items() if node in nodes}

    def fill(self, found: Mapping[TrialId, Mapping[str, float]]) -> None:
        """Take over the values that the journal has of trials."""
        for trial, metrics in found.items():
            self._trials[trial] = self._with((), metrics)
        self.unsure.clear()

    def _with(self, values: _Values, metrics: Mapping[str, float | str]) -> _Values:
        places = self._places
        if len(places) < self._most:
            new = [name for name in metrics if name != self._metric and name not in places]
            for name in new[: self._most - len(places)]:
                places[name] = len(places)
        merged = list(values) + [None] * (len(places) - len(values))
        for name, place in places.items():  # not over the report's, of which there may be thousands
            if name in metrics:
                merged[place] = unspell(metrics[name])
        return tuple(merged)


def _joined(values: _Values, later: _Values) -> _Values:
    merged = list(values) + [None] * (len(later) - len(values))
    for place, value in enumerate(later):
        merged[place] = merged[place] if value is None else value
    return tuple(merged)

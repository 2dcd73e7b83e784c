"""What is known of one configuration, wherever it was trained; and a search of one trial for what is not."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from asyncsearch.actions import CreateTrial
from asyncsearch.engine.journal import Record
from asyncsearch.errors import MetricNotReportedError
from asyncsearch.events import CheckpointCommitted
from asyncsearch.ids import NodeKey, PathStep
from asyncsearch.report.history import Readers
from asyncsearch.schedulers.base import RungForecast, Scheduler, SchedulerState
from asyncsearch.schedulers.fifo import FIFOState
from asyncsearch.searchers.base import Searcher, SearcherState
from asyncsearch.space import Space
from asyncsearch.store.shared import NodeFacts, SharedPlan
from asyncsearch.trial import Metrics, Params

Path = tuple[PathStep, ...]


class Way:
    """What is known of the way of one configuration up to a resource."""

    def __init__(self, params: Params, path: Path, resource: int) -> None:
        self._params = params
        self._path = path
        self._resource = resource
        self._reports: dict[int, Metrics] = {}
        self._reached = 0
        self._is_saved = False
        """Whether a checkpoint was made just at the resource."""

    def read_journal(self, records: Iterable[Record]) -> None:
        """Take in what a study's own journal says."""
        readers = Readers()
        checkpoints: dict[NodeKey, list[int]] = {}
        paths = {self._path}
        for record in records:
            readers.add(record)
            for action in record.actions:
                # Where trials do not share, each has nodes of its own.
                if isinstance(action, CreateTrial) and action.params == self._params:
                    paths.add(action.path or (PathStep(0, action.node),))
            if isinstance(record.event, CheckpointCommitted):
                ref = record.event.checkpoint
                checkpoints.setdefault(ref.node, []).append(ref.resource)
        for path in paths:
            for node in (step.node for step in path):
                found = NodeFacts(tuple(readers.kept(node)), None, tuple(sorted(checkpoints.get(node, ()))))
                self._add(path, node, found)

    def read_shared(self, plan: SharedPlan) -> None:
        """Take in what the studies say that share a folder."""
        for node, facts in plan.read_many(step.node for step in self._path).items():
            self._add(self._path, node, facts)

    def metrics(self, evaluated: str = "") -> dict[str, float] | None:
        """Return the last metrics reported up to the resource, or None if nobody has trained so far.

        Args:
            evaluated: name of a metric that can be had of a checkpoint without training: None is returned too where one
                stands at the resource and this was not reported just there.

        Raises:
            MetricNotReportedError: training came so far, and nothing was reported on the way.
        """
        if self._reached < self._resource:
            return None
        if evaluated and self._is_saved and evaluated not in self._reports.get(self._resource, ()):
            return None
        if not self._reports:
            raise MetricNotReportedError(
                f"This configuration was trained to {self._resource} and nothing was reported up to there. Ask for a "
                "higher resource, or report more often, trial.report(...)."
            )
        return {name: float(value) for name, value in self._reports[max(self._reports)].items()}

    def _add(self, path: Path, node: NodeKey, facts: NodeFacts) -> None:
        start, end = _span(path, node)
        inside = {at: metrics for at, metrics in facts.reports if start < at <= end}
        self._reports |= {at: metrics for at, metrics in inside.items() if metrics and at <= self._resource}
        checkpoints = [at for at in facts.checkpoints if start < at <= end]
        self._reached = max([self._reached, *inside, *checkpoints])
        self._is_saved |= self._resource in checkpoints
        if facts.ended is not None and start < facts.ended <= min(end, self._resource):
            self._reached = self._resource


def _span(path: Path, node: NodeKey) -> tuple[int, float]:
    ends = [after.start for _, after in pairwise(path)] + [math.inf]
    return next((step.start, end) for step, end in zip(path, ends, strict=True) if step.node == node)


@dataclass(frozen=True)
class One(Searcher):
    """Proposes one configuration."""

    params: Params

    def begin(self, space: Space, seed: int) -> SearcherState:
        return _OneState(self.params)

    def describe(self) -> str:
        return f"eval({msgspec.json.encode(self.params, order='sorted').decode()})"


class _OneState(SearcherState):
    def __init__(self, params: Params) -> None:
        self._params = params

    def propose(self, number: int) -> Params | None:
        return self._params if number == 0 else None

    def length(self) -> int:
        return 1


@dataclass(frozen=True)
class UpTo(Scheduler):
    """Trains each trial to a resource, and pauses it there if that is not its end."""

    resource: int
    end: int
    """Resource at which a trial is complete."""

    @property
    def pauses(self) -> bool:
        return self.resource < self.end

    @property
    def max_resource(self) -> int:
        return self.end

    def begin(self, space: Space | None = None, seed: int = 0) -> SchedulerState:
        return FIFOState(self.resource)

    def describe(self) -> str:
        return f"up to {self.resource} of {self.end}"

    def forecast(self, num_trials: int) -> list[RungForecast]:
        return [RungForecast(0, self.resource, num_trials)]

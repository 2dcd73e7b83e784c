"""The known reports of one configuration, wherever it was trained, and a search of one trial for those that lack."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec

from asyncsearch.actions import Branch, CreateTrial, DeleteCheckpoint
from asyncsearch.engine.handling import handle
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import MetricNotReportedError, SpaceError, StoreError, TrialsFailedError
from asyncsearch.events import CheckpointCommitted, Imported
from asyncsearch.files.trees import copy_tree
from asyncsearch.ids import CheckpointRef, NodeKey, PathStep
from asyncsearch.journal.format import Record
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.projection import Projection
from asyncsearch.journal.writer import Journal
from asyncsearch.plan.base_plan import PlanPath
from asyncsearch.report.live.display import Display
from asyncsearch.schedulers.base_scheduler import RungForecast, Scheduler, SchedulerState
from asyncsearch.schedulers.fifo import FIFOState
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.shared.folder import NodeFacts, SharedFolder
from asyncsearch.simulate.recorded_workload import ProposalsState
from asyncsearch.space import Space
from asyncsearch.space.parameter_values import plain
from asyncsearch.store.base_store import Store
from asyncsearch.store.disk import explained
from asyncsearch.store.manifest import packed_with_beside, shards_beside
from asyncsearch.study.kept.warm_start import WarmStart
from asyncsearch.study.remote.client import REMOTELY
from asyncsearch.study.runnable import RunnableStudy
from asyncsearch.trial import Metrics, Params, Trial

_log = logging.getLogger(__name__)


class Evaluation(dict[str, float]):
    """Metrics by name, and where they were reported."""

    def __init__(self, metrics: Metrics, resource: int) -> None:
        super().__init__({name: float(value) for name, value in metrics.items()})
        self.resource = resource
        """Units of training; less than what was asked for where nothing was reported just there."""


class KnownPath:
    """The reports and checkpoints of one configuration up to a resource, as far as they are known."""

    def __init__(self, params: Params, path: PlanPath, resource: int) -> None:
        self.params = params
        self._path = path
        self.resource = resource
        self._reports: dict[int, Metrics] = {}
        self._reached = 0
        self._passed: dict[PlanPath, dict[int, Metrics]] = {}
        """Up to the resource, on each path that leads the same way."""
        self._saved: dict[CheckpointRef, PlanPath] = {}
        """The checkpoints that there are up to the resource."""

    def read(self, stores: Iterable[Store], shared: SharedFolder | None, evaluated: str) -> Evaluation | None:
        """Take in the journals of stores and a shared folder, and return the metrics; see ``metrics``."""
        for store in stores:
            self.read_journal(read_records(store))
        if shared is not None:
            self.read_shared(shared)
        return self.metrics(evaluated)

    def read_journal(self, records: Iterable[Record]) -> None:
        """Take in what a study's own journal says."""
        projection = Projection()
        passed: dict[NodeKey, dict[int, Metrics]] = {}
        saved: dict[NodeKey, set[int]] = {}
        paths = {self._path}
        for record in records:
            projection.add(record)
            if isinstance(record.event, CheckpointCommitted):
                ref = record.event.checkpoint
                passed.setdefault(ref.node, {})[ref.resource] = {}
                saved.setdefault(ref.node, set()).add(ref.resource)
            for action in record.actions:
                # Where trials do not share, each has nodes of its own.
                if isinstance(action, CreateTrial | Branch) and action.params == self.params:
                    paths.add(action.path or (PathStep(0, action.node),))
                elif isinstance(action, DeleteCheckpoint):
                    saved.get(action.checkpoint.node, set()).discard(action.checkpoint.resource)
        for path in paths:
            for node in (step.node for step in path):
                reports = passed.get(node, {}) | dict(projection.reports(node))
                self._add(path, node, NodeFacts(tuple(sorted(reports.items())), None, tuple(saved.get(node, ()))))

    def read_shared(self, plan: SharedFolder) -> None:
        """Take in what the studies say that share a folder."""
        for node, facts in plan.read_many(step.node for step in self._path).items():
            self._add(self._path, node, facts)

    def begin(self, home: Store, state: StudyState, last: int, source: Store) -> None:
        """Let a search of this one configuration begin with what its study knows, and at the deepest checkpoint.

        Without a checkpoint, or if it cannot be had, nothing is done.

        Args:
            home: the search's own store, locked.
            state: of that search, in which there is no trial yet.
            last: number of the last record of its journal.
            source: the study's store, from which the checkpoint is copied; nothing but its journal was read.
        """
        checkpoint = max(self._saved, key=lambda ref: ref.resource, default=None)
        if checkpoint is None:
            return
        try:
            node = next(step.node for step in reversed(self._path) if step.start < checkpoint.resource)
            _copy(source, checkpoint, home, CheckpointRef(node, checkpoint.resource))
        except StoreError as error:
            _log.warning("It is trained from the beginning, since %s cannot be copied: %s", checkpoint, error)
            return
        journal, lines, now = Journal(home, state.config.study, last), [], time.time()
        passed = self._passed[self._saved[checkpoint]]
        for step in self._path:
            start, end = _span(self._path, step.node)
            reports = tuple((at, passed[at]) for at in sorted(passed) if start < at <= end)
            if reports:
                event = Imported(step.node, reports, None, (checkpoint.resource,) if step.node == node else ())
                lines.append(journal.encode(event, handle(state, event, now), now))
        journal.append(b"".join(lines))
        journal.close()

    def metrics(self, evaluated: str = "") -> Evaluation | None:
        """Return the last metrics reported up to the resource, or None if nobody has trained so far.

        Args:
            evaluated: name of a metric that can be had of a checkpoint without training: None is returned too where one
                stands at the resource and this was not reported just there.

        Raises:
            MetricNotReportedError: training came so far, and nothing was reported on the way.
        """
        if self._reached < self.resource:
            return None
        is_saved = any(ref.resource == self.resource for ref in self._saved)
        if evaluated and is_saved and evaluated not in self._reports.get(self.resource, ()):
            return None
        if not self._reports:
            raise MetricNotReportedError(
                f"This configuration was trained to {self.resource} and nothing was reported up to there. Ask for a "
                "higher resource, or report more often, trial.report(...)."
            )
        last = max(self._reports)
        return Evaluation(self._reports[last], last)

    def _add(self, path: PlanPath, node: NodeKey, facts: NodeFacts) -> None:
        start, end = _span(path, node)
        inside = {at: metrics for at, metrics in facts.reports if start < at <= end}
        self._reports |= {at: metrics for at, metrics in inside.items() if metrics and at <= self.resource}
        checkpoints = [at for at in facts.checkpoints if start < at <= end]
        self._reached = max([self._reached, *inside, *checkpoints])
        if facts.ended is not None and start < facts.ended <= min(end, self.resource):
            self._reached = self.resource
        passed = self._passed.setdefault(path, {})
        passed |= {at: metrics for at, metrics in inside.items() if at <= self.resource}
        self._saved |= {CheckpointRef(node, at): path for at in checkpoints if at <= self.resource}


def params_in(space: Space, params: Mapping[str, Any], store: Store) -> Params:
    """Return params as a trial of a study holds them: of the space, or of one that took over the weights of another.

    Raises:
        SpaceError: they are neither.
    """
    given: Params
    try:
        found = space.plain(params)
    except SpaceError:
        given = plain(dict(params))
        if not _has_params(store, given, Branch):
            raise
        return given
    # A trial's own params name its functions as they were before an edit.
    given = plain(dict(params)) if space.custom_functions else found
    return given if given != found and _has_params(store, given, CreateTrial) else found


def _has_params(store: Store, params: Params, kind: type[Branch | CreateTrial]) -> bool:
    """Return whether the journal of a study has an action of a kind with exactly these params."""
    return any(
        isinstance(action, kind) and action.params == params
        for record in read_records(store)
        for action in record.actions
    )


def _copy(source: Store, checkpoint: CheckpointRef, target: Store, copy: CheckpointRef) -> None:
    with source.fetch(checkpoint) as files:
        staged = target.stage(copy)
        with explained(f"copy {checkpoint}", staged):
            copy_tree(files, staged)
        packed_with, shards = packed_with_beside(files), shards_beside(files)
        if shards is not None:
            target.commit(copy, staged, packed_with, shards)
        else:
            target.commit(copy, staged) if packed_with is None else target.commit(copy, staged, packed_with)


def _span(path: PlanPath, node: NodeKey) -> tuple[int, float]:
    ends = [after.start for _, after in pairwise(path)] + [math.inf]
    return next((step.start, end) for step, end in zip(path, ends, strict=True) if step.node == node)


@dataclass(frozen=True)
class SingleProposal(Searcher):
    """Proposes one configuration."""

    params: Params

    def begin(self, space: Space, seed: int) -> ProposalsState:
        return ProposalsState((self.params,))

    def describe(self) -> str:
        return f"eval({msgspec.json.encode(self.params, order='sorted').decode()})"


@dataclass(frozen=True)
class TrainUpTo(Scheduler):
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


def train_single(study: RunnableStudy, known: KnownPath, end: int | None, home: Store, display: Display) -> Trial:
    """Train one configuration as far as it is asked for, beginning with what its study knows; return its trial.

    Args:
        study: whose trainable, workers and shared folder it has.
        known: the configuration, and what is known of it.
        end: resource at which a trial of the study is complete; None means when its function returns.
        home: the store of the search, inside that of the study.
        display: shows it.

    Raises:
        TrialsFailedError: it failed.
    """
    single = _search_of(study, known, end, home)
    if study.definition.shared is None:
        home.prepare()
        with home.lock():
            state, last = single.open(display)
            if not state.trials:
                known.begin(home, state, last, study.store)
    try:
        gang = study.definition.gang
        workers = 1 if gang is None else gang.size
        return single.run(1, workers, None, display, remotely=REMOTELY).state.trials[0]
    except TrialsFailedError as error:
        raise TrialsFailedError(f"It could not be trained to {known.resource}: {error}") from None


def _search_of(study: RunnableStudy, known: KnownPath, end: int | None, home: Store) -> RunnableStudy:
    config = study.definition.config
    definition = msgspec.structs.replace(
        study.definition,
        searcher=SingleProposal(known.params),
        scheduler=TrainUpTo(known.resource, end or known.resource),
        # share=True: its nodes depend on its values alone. In a shared folder the study itself keeps the quota.
        config=msgspec.structs.replace(config, share=True) if study.definition.shared is None else config,
        quota_bytes=None,
    )
    return msgspec.structs.replace(
        study, store=home, definition=definition, warm=WarmStart(), resume=True, default=None
    )

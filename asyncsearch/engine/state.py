"""The state of a study, and questions about it. Other modules apply facts and decisions to it; see ``handling``.

Theory of operation. The scheduler sets the target of each trial, the searcher its params; the plan derives the training
that is left to do, and the pool knows the free workers. An *attempt* is the life of one lane of a lease: it begins
with ``Assign`` and is over when its training has ended and its last checkpoint is durable, or when its worker is lost.
It trains stages; every trial whose path leads through a stage subscribes to it, whether the trial is RUNNING under the
lease, which brings it to its target, or still WAITING.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from asyncsearch.engine.attempts import Attempt
from asyncsearch.engine.best_saved import BestSaved
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.latest_metrics import LatestMetrics
from asyncsearch.engine.pool import Pool
from asyncsearch.engine.repeated_failures import ConsecutiveLosses, Promoted, RepeatedFailures
from asyncsearch.engine.stop_facts import StopFacts
from asyncsearch.engine.transitions import Reporting
from asyncsearch.events import RunRequested, TrialTimedOut
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.listener import StudyListener
from asyncsearch.plan.base_plan import BasePlan
from asyncsearch.plan.retention import BestTrials, CheckpointSizes, PausedTrials
from asyncsearch.plan.search_plan import SearchPlan
from asyncsearch.plan.solo_plan import SoloPlan
from asyncsearch.schedulers.base_scheduler import SchedulerState
from asyncsearch.searchers.base_searcher import SearcherState
from asyncsearch.sizing.autoscale import KnownSpeeds, OwnUnits
from asyncsearch.sizing.gangs import Gang
from asyncsearch.sizing.packing import KnownPacks, Packing
from asyncsearch.trial import UNBOUNDED, Trial, TrialState
from asyncsearch.values import finite


class RunTimes(msgspec.Struct):
    """The times of a study's runs. Moments are the driver's clock, in seconds since 1970.

    The duration of a run is the time from its request to its end in the journal, wherever it is shown: the start and
    the end of workers before and after are no part of it.
    """

    began_s: float | None = None
    """When the run in progress began. None if none is in progress."""
    seen_s: float = 0.0
    """The last report or decision: a run whose driver died has lasted until then."""
    done_before: int = 0
    """Amount of work that had been begun before the run in progress."""
    ended_s: float | None = None
    """When the last run ended. None if none has. A run that had nothing to do changes nothing."""
    total_s: float | None = 0.0
    """Duration of all runs together. None if it is unknown, since older versions did not note it."""
    runs: int = 0
    """How many runs ``total_s`` counts."""
    last_s: float | None = None
    """Duration of the last of these runs. None if it is unknown, or there was none."""

    def begin(self, now: float, done: int) -> None:
        """Begin a run; ``done`` is the amount of work begun so far: a number that only grows."""
        self.began_s, self.seen_s, self.done_before = now, now, done

    def end(self, now: float, done: int) -> None:
        """End the run in progress, if there is one."""
        began_s, self.began_s = self.began_s, None
        if began_s is None or done == self.done_before:
            return
        self.ended_s = now
        self.last_s = now - began_s
        self.runs += 1
        if self.total_s is not None:
            self.total_s += now - began_s

    @property
    def elapsed_s(self) -> float | None:
        """Duration of the run in progress up to its last report or decision. None if no run is in progress."""
        return None if self.began_s is None else self.seen_s - self.began_s


_METRIC_NAMES = 1_000
"""Names beyond which others are not remembered: errors name what was reported, and workers may report any number."""


@dataclass(slots=True, eq=False, repr=False)  # without slots attributes are found more slowly: a fortieth of a decision
class StudyState:
    """All facts about a study, and all decisions about it."""

    config: EngineConfig
    searcher: SearcherState
    scheduler: SchedulerState
    max_resource: int | None
    packing: Packing | None = None
    """How workers get several trainings together. None if each trains alone."""
    gang: Gang | None = None
    """How many workers train a trial together. None means one."""
    listeners: tuple[StudyListener, ...] = field(init=False)
    """The listeners that are notified of each fact, in this order."""
    root: NodeKey = field(init=False)
    horizon: int = field(init=False)
    trials: list[Trial] = field(default_factory=list, init=False)
    waiting: dict[TrialId, None] = field(default_factory=dict, init=False)
    """Trials in WAITING, in the order in which they get workers."""
    attempts: dict[int, Attempt] = field(default_factory=dict, init=False)
    """Open attempts by their number: that of their lease and, in packed work, of their lane after it."""
    open_attempts: dict[TrialId, int] = field(default_factory=dict, init=False)
    """The number of the attempt under which each RUNNING trial runs."""
    plan: BasePlan = field(init=False)
    """Requests, durable checkpoints, running batches, and the reports that other trials may read."""
    busy: dict[NodeKey, None] = field(default_factory=dict, init=False)
    """Nodes in which other drivers train: the units left in them wait."""
    touched: dict[int, str] = field(default_factory=dict, init=False)
    """Attempts whose needed work may have changed in the current event, with the reason in words."""
    references: dict[CheckpointRef, int] = field(default_factory=dict, init=False)
    """How many trials and attempts would continue from each checkpoint; an import counts as one."""
    imported: dict[CheckpointRef, None] = field(default_factory=dict, init=False)
    """Checkpoints imported from another study from which no trial has continued yet."""
    pool: Pool = field(default_factory=Pool, init=False)
    run: RunRequested | None = field(default=None, init=False)
    """The run in progress; None between runs."""
    stopping: str = field(default="", init=False)
    """Why the run is being stopped; empty while it is not."""
    stopping_kind: str = field(default="", init=False)
    repeated: RepeatedFailures = field(default_factory=RepeatedFailures, init=False)
    """Failures of the run in progress."""
    promoted: Promoted = field(default_factory=Promoted, init=False)
    """The outcomes of all promotions, which may fail a search as a whole."""
    times: RunTimes = field(default_factory=RunTimes, init=False)
    damages: dict[TrialId, int] = field(default_factory=dict, init=False)
    """How many checkpoints each trial found damaged when it loaded them; trials without any are left out."""
    packs: dict[str, KnownPacks] = field(default_factory=dict, init=False)
    """Facts about packs, by the group of their trainings."""
    speeds: dict[str, KnownSpeeds] = field(default_factory=dict, init=False)
    """How fast gangs train, by the group of their trainings; nothing where their sizes do not depend on it."""
    own_units: dict[TrialId, OwnUnits] = field(default_factory=dict, init=False)
    """How fast each unfinished trial trains, where the sizes of gangs depend on it."""
    consecutive_losses: dict[TrialId, ConsecutiveLosses] = field(default_factory=dict, init=False)
    """The latest losses of each unfinished trial that had any."""
    next_lease: int = field(default=0, init=False)
    proposals: int = field(default=0, init=False)
    """How many proposals of the searcher became trials."""
    is_exhausted: bool = field(default=False, init=False)
    metric_names: set[str] = field(default_factory=set, init=False)
    """The names of the metrics that were reported; of very many the first ones, and the study's own."""
    metric_since: int = field(default=0, init=False)
    """The lowest resource at which any trial reported the study's metric. 0 if none did."""
    latest: LatestMetrics = field(init=False)
    """The other metrics of each trial, for people to see; no decision reads them."""
    best_saved: BestSaved = field(init=False)
    has_notes: bool = field(default=False, init=False)
    """Whether a trial has left notes, which the journal has."""
    stop_facts: StopFacts | None = field(default=None, init=False)
    """What the stop rules read. None if there are none."""
    best_trials: BestTrials = field(init=False)
    usage: CheckpointSizes = field(init=False)
    paused: PausedTrials = field(default_factory=PausedTrials, init=False)
    """Trials that may give up their checkpoints; none without a quota."""
    unreachable: dict[CheckpointRef, None] = field(default_factory=dict, init=False)
    """Unreachable checkpoints that are not deleted yet."""

    def __post_init__(self) -> None:
        self.listeners = (self.scheduler, self.searcher)
        self.root = self.config.root
        self.horizon = self.max_resource or UNBOUNDED
        self.plan = SearchPlan() if self.config.share else SoloPlan()
        self.latest = LatestMetrics(self.config.metric)
        if self.config.stop_when is not None or self.config.stop_trial_when is not None:
            self.stop_facts = StopFacts()
        self.best_trials = BestTrials(self.config.keep_checkpoints)
        self.best_saved = BestSaved(self.config.keep_checkpoints if self.config.rank_by == "best" else 0)
        self.usage = CheckpointSizes(self.config.quota_bytes)

    @property
    def begun(self) -> int:
        """How much work was begun: lanes given and proposals taken; it only grows."""
        return self.next_lease + self.proposals

    @property
    def reporting(self) -> Reporting:
        """The metrics that the trials have reported so far."""
        return Reporting(self.config.metric, self.metric_names, self.metric_since)

    @property
    def voices(self) -> int:
        """How many trainings there can be at once, each of which speaks for itself: a gang has one voice."""
        alive = self.pool.count_alive() + len(self.pool.released)
        if self.gang is None:
            return alive
        whole, rest = divmod(alive, self.gang.size)
        return whole + (self.gang.min_size is not None and rest >= self.gang.min_size)

    def is_agreed(self, claim: str) -> bool:
        """Return whether two workers, or the only one that speaks, make a claim that would concern every trial."""
        return self.repeated.is_agreed(claim, self.voices)

    def attempt(self, lease: Lease, lane: int = 0) -> Attempt | None:
        """Return the open attempt of a lane, or None if the lease is stale, or the lane is over."""
        attempt = self.attempts.get(lease.number + lane)
        return attempt if attempt is not None and attempt.lease == lease else None

    def attempts_under(self, lease: Lease) -> list[Attempt]:
        """Return the open attempts of a lease, one for each lane that is not over."""
        return [attempt for attempt in self.attempts_of(lease.worker) if attempt.lease == lease]

    def lanes_staying(self, lease: Lease) -> int:
        """Return how many lanes of a lease have units left to train."""
        staying = (1 for one in self.attempts_under(lease) if one.end is None and not one.is_leaving)
        return sum(staying)

    def attempts_named(self, lease: Lease, lane: int | None) -> list[Attempt]:
        """Return the open attempts of a lease, or, as far as it is open, that of one of its lanes."""
        if lane is None:
            return self.attempts_under(lease)
        attempt = self.attempt(lease, lane)
        return [] if attempt is None else [attempt]

    def attempts_timed_out(self, event: TrialTimedOut) -> list[Attempt]:
        """Return the open attempts that began when the one did whose time is over."""
        found = self.attempts_named(event.lease, event.lane)
        return found if event.lane is not None else [attempt for attempt in found if not attempt.has_joined]

    def score(self, value: float | str | None) -> float | None:
        """Return a value of the metric as a score: smaller is better, None stands for no result."""
        number = finite(value)
        return number if number is None or self.config.mode == "min" else -number

    def best(self) -> Trial | None:
        """Return the trial that is ranked first by ``rank_by``, except failed ones; the older one wins a tie."""
        rank_by = self.config.rank_by
        ranked = [
            (score, trial.id)
            for trial in self.trials
            if trial.state is not TrialState.FAILED and (score := self.score(trial.ranked_value(rank_by))) is not None
        ]
        return self.trials[min(ranked)[1]] if ranked else None

    def is_best(self, trial: Trial) -> bool:
        """Return whether a trial is ``best()``, with a look at all others only if it is."""
        rank_by = self.config.rank_by
        if (own := self.score(trial.ranked_value(rank_by))) is None:
            return False
        return not any(
            trial.id != other.id
            and (score := self.score(other.ranked_value(rank_by))) is not None
            and (score, other.id) < (own, trial.id)
            and other.state is not TrialState.FAILED
            for other in self.trials
        )

    def open_attempt_of(self, trial: TrialId) -> Attempt | None:
        """Return the attempt under which a trial runs, or None."""
        number = self.open_attempts.get(trial)
        return None if number is None else self.attempts.get(number)

    def attempts_of(self, worker: WorkerId) -> list[Attempt]:
        """Return the open attempts of a worker, including those that only wait for their checkpoint."""
        return [attempt for attempt in self.attempts.values() if attempt.lease.worker == worker]

    def attempts_with(self, worker: WorkerId) -> list[Attempt]:
        """Return the open attempts of a worker, and that of the gang to which it belongs."""
        found, slot = self.attempts_of(worker), self.pool.slots.get(worker)
        if slot is None or slot.leader is None or slot.lease is None:
            return found
        return [*found, *(attempt for attempt in self.attempts.values() if attempt.lease.number == slot.lease)]

    # Changes that facts and decisions share: only ``learning`` and ``applying`` call the methods below.

    def add_metric_names(self, names: Collection[str]) -> None:
        """Remember the names of metrics that were reported, the study's own and as many others as fit."""
        if len(self.metric_names) < _METRIC_NAMES:
            self.metric_names.update(names)
        elif self.config.metric in names:
            self.metric_names.add(self.config.metric)

    def note_metric(self, resource: int) -> None:
        """A trial reported the study's metric at a resource."""
        if not 0 < self.metric_since <= resource:
            self.metric_since = resource

    def add_checkpoint(self, checkpoint: CheckpointRef, attempt: int = -1) -> None:
        """Count a checkpoint as durable, made by an attempt of this driver or, -1, elsewhere."""
        self.plan.add_checkpoint(checkpoint, attempt)
        if self.config.can_evaluate and not self.plan.has_report(checkpoint, self.trials):
            self.plan.expect_metric(checkpoint)

    def repoint(self, trial: Trial, checkpoint: CheckpointRef | None) -> None:
        """Let a trial continue from another checkpoint."""
        former, trial.checkpoint = trial.checkpoint, checkpoint
        if former != checkpoint:
            self.hold(checkpoint)
            self.release(former)
            if self.imported and checkpoint in self.imported:
                del self.imported[checkpoint]
                self.release(checkpoint)

    def keep_best(self, attempt: Attempt, checkpoint: CheckpointRef) -> None:
        """Keep a durable checkpoint for the trials whose best report was made there, if it is one of the best."""
        for number in sorted({*attempt.trials, *attempt.stage_at(checkpoint.resource).trials}):
            trial = self.trials[number]
            score, at = self.score(trial.best), checkpoint.resource
            is_of = trial.best_resource == at and trial.node_at(at) == checkpoint.node
            if is_of and score is not None and trial.state is not TrialState.FAILED:
                self.best_saved.put(number, score, checkpoint, self.hold, self.release)

    def wants_best(self, trial: Trial) -> bool:
        """Return whether the last report of a trial was its best, and one whose checkpoint is kept."""
        is_best = trial.best_resource == trial.resource > 0
        return is_best and self.best_saved.wants(trial.id, self.score(trial.best))

    def hold(self, checkpoint: CheckpointRef | None) -> None:
        """Count a reference to a checkpoint."""
        if checkpoint is not None:
            self.references[checkpoint] = self.references.get(checkpoint, 0) + 1
            if self.unreachable:
                self.unreachable.pop(checkpoint, None)

    def release(self, checkpoint: CheckpointRef | None) -> None:
        """Release a reference; a checkpoint without references is unreachable."""
        if checkpoint is None:
            return
        self.references[checkpoint] -= 1
        if not self.references[checkpoint]:
            del self.references[checkpoint]
            self.unreachable[checkpoint] = None

    def block(self, node: NodeKey) -> None:
        """Let the units left in a node wait for another driver."""
        self.busy[node] = None
        self.plan.block(node)

    def unblock(self, node: NodeKey) -> None:
        """Train the units left in a node here."""
        del self.busy[node]
        self.plan.unblock(node)

    def unblock_all(self) -> None:
        """Wait for no other driver."""
        for node in list(self.busy):
            self.unblock(node)

    def leave_plan(self, attempt: Attempt) -> None:
        """End the training under a lease: the units that it has not trained are planned again."""
        if attempt.is_planned:
            attempt.is_planned = False
            self.plan.end(attempt.number)

    def tidy(self, attempt: Attempt) -> None:
        """Forget an attempt that needs no further handling."""
        is_done = not attempt.trials and (attempt.is_over or attempt.is_lost)
        if is_done and self.attempts.pop(attempt.number, None) is not None:
            self.leave_plan(attempt)
            self.release(attempt.batch.load)

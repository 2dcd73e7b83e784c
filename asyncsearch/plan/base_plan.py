"""What the engine asks of a search plan: what to train next, for whom, what is durable and what runs. Pure.

There are two plans, and a study has one of them for life. ``SearchPlan`` is for trials that may share what they train.
``SoloPlan`` is for trials that share nothing; it answers the same questions without a tree, in half the time. What is
no abstract method here has the answer of a plan whose trials share nothing.

Only the engine calls a plan. ``learning``, ``applying`` and the restoring of a snapshot state facts, in the order in
which they come to be known; all modules may ask, and an answer changes nothing. No method costs more than
O(depth · log n) for n nodes, except those that return lists: these cost what they return besides. The same statements
in the same order give the same answers, so a replay makes the same plan.
"""

from __future__ import annotations

import abc
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from asyncsearch.ids import CheckpointRef, NodeKey, PathStep, TrialId
from asyncsearch.plan.costs import KnownCosts
from asyncsearch.plan.known_reports import KnownReports
from asyncsearch.trial import Trial

PlanPath = tuple[PathStep, ...]


class PlannedStage(msgspec.Struct, frozen=True):
    """An interval of one node that a worker trains, to save at its end; one of no units is an evaluation."""

    node: NodeKey
    start: int
    stop: int
    """UNBOUNDED: until the function returns."""
    trials: tuple[TrialId, ...]
    """The trials that wait for it, in order: for its end, or for what is trained from there; the first of many."""
    more: int = 0
    """How many wait besides those."""


class Batch(msgspec.Struct, frozen=True):
    """What one worker trains without reloading: stages, each of which begins where the one before ends."""

    load: CheckpointRef | None
    """None: train from the beginning."""
    stages: tuple[PlannedStage, ...]
    is_urgent: bool = False
    """Whether an urgent request needs it."""


class BasePlan(abc.ABC):
    """Requests, durable checkpoints and running batches; the next batch follows from them."""

    is_shared = False
    """Whether trials may read what others report, and costs decide anything; else neither need be stated."""
    reports: KnownReports
    """The reports that trials may read which come to a node later."""

    # In which nodes trials train.

    @abc.abstractmethod
    def path(self, root: NodeKey, params: Mapping[str, Any], horizon: int, trial: TrialId) -> PlanPath:
        """Return the nodes in which a new trial trains up to ``horizon``; see ``plan.keys.path``."""

    @abc.abstractmethod
    def branch_path(
        self, root: NodeKey, params: Mapping[str, Any], horizon: int, trial: TrialId, donor: Trial, load: CheckpointRef
    ) -> PlanPath:
        """Return the nodes of a trial that goes on from the checkpoint ``load`` of its donor with other params."""

    # Requests.

    @abc.abstractmethod
    def request(self, trial: TrialId, path: PlanPath, target: int, *, is_urgent: bool = False) -> None:
        """Let a trial request ``target`` on its path, in place of what it requested before.

        Raises:
            InternalError: the path does not begin at 0, its starts do not ascend, the target is not above 0, or the
                plan knows one of its nodes at another place.
        """

    @abc.abstractmethod
    def withdraw(self, trial: TrialId) -> None:
        """Let a trial request nothing."""

    @abc.abstractmethod
    def target_of(self, trial: TrialId) -> int | None:
        """Return what a trial requests."""

    @abc.abstractmethod
    def subscribers_at(self, node: NodeKey, resource: int) -> list[TrialId]:
        """Return the trials that wait for the unit of a node that ends at ``resource``, or for what follows it."""

    @abc.abstractmethod
    def requesters_at(self, node: NodeKey, resource: int) -> list[TrialId]:
        """Return the trials that request exactly this position."""

    # Checkpoints, and the metric at each.

    @abc.abstractmethod
    def add_checkpoint(self, ref: CheckpointRef, lease: int | None = None) -> None:
        """Count a checkpoint as durable. The lease under which it was made has done what is below it.

        None: each lease that trains across it has. Another's may have come later, and be far below.
        """

    @abc.abstractmethod
    def remove_checkpoint(self, ref: CheckpointRef) -> None:
        """Count a checkpoint as lost; what needs it is trained again."""

    @abc.abstractmethod
    def nearest(self, path: PlanPath, resource: int) -> CheckpointRef | None:
        """Return the deepest durable checkpoint on a path at or before ``resource``."""

    @abc.abstractmethod
    def expect_metric(self, ref: CheckpointRef) -> None:
        """Know that nobody reported the metric at a checkpoint, so that it is evaluated where a trial requests it."""

    @abc.abstractmethod
    def add_metric(self, ref: CheckpointRef) -> None:
        """Know that the metric was reported at a position."""

    @abc.abstractmethod
    def lacks_metric(self, ref: CheckpointRef) -> bool:
        """Return whether a durable checkpoint is one of those to be evaluated where a trial requests it."""

    @abc.abstractmethod
    def has_report(self, ref: CheckpointRef, trials: Sequence[Trial]) -> bool:
        """Return whether the metric was reported at a position, or beyond it where trials share nothing."""

    # What runs.

    @abc.abstractmethod
    def begin(self, lease: int, batch: Batch) -> None:
        """Let a lease train a batch that ``next_batch`` returned immediately before.

        Raises:
            InternalError: the lease trains something already, or a stage of the batch is not pending any more.
        """

    @abc.abstractmethod
    def resume(self, lease: int, batch: Batch, path: PlanPath = ()) -> None:
        """Know that a lease trains a batch that was begun before this plan was made; say so before any checkpoint.

        Args:
            lease: its number.
            batch: what it trains.
            path: one on which the batch lies, with which nodes are known that no request needs any more; without it
                their stages are left out.
        """

    @abc.abstractmethod
    def end(self, lease: int) -> None:
        """Let nothing run under a lease any more; what it did not commit is to be trained again."""

    @abc.abstractmethod
    def leases_on(self, path: PlanPath) -> list[int]:
        """Return the leases under which nodes of a path are trained, each once."""

    @abc.abstractmethod
    def wanted_stop(self, lease: int) -> int:
        """Return the last resource of a running batch that a request still needs; 0: none."""

    def cut(self, lease: int, stop: int) -> None:
        """Let a running batch end at ``stop``, where its worker saves; the rest is to be trained by another lease."""

    def advance(self, lease: int, resource: int) -> None:
        """Know that a lease has done what is below a checkpoint that it made, which may be gone by now."""

    def add_save_point(self, lease: int, node: NodeKey, resource: int) -> None:
        """Know that the worker was told to save at a position inside its batch."""

    def splits(self, lease: int) -> list[tuple[NodeKey, int]]:
        """Return where others need a checkpoint inside what a lease trains, and its worker was not told yet."""
        return []

    def block(self, node: NodeKey) -> None:
        """Let all wait that is not durable in a node, and what follows it: another study trains there."""

    def unblock(self, node: NodeKey) -> None:
        """Let what is left in a node be trained here."""

    @property
    def blocked(self) -> frozenset[NodeKey]:
        """The nodes in which another study trains."""
        return frozenset()

    # What units cost.

    def set_cost(self, node: NodeKey, seconds_per_unit: float) -> None:
        """Know how long a unit of a node takes; see ``plan.costs`` for nodes that were not measured.

        Raises:
            InternalError: it is not finite, or negative.
        """

    def costs(self) -> KnownCosts | None:
        """Return all that is known of costs, for ``restore_costs``; None: they decide nothing."""
        return None

    def restore_costs(self, known: KnownCosts) -> None:
        """Take over what was known of costs before this plan was made; say so when all else is said."""

    # What to train next.

    @abc.abstractmethod
    def next_batch(self, held: Collection[CheckpointRef] = ()) -> Batch | None:
        """Return what to train next, None: nothing now. ``begin`` makes it running.

        Urgent requests come first. Of several batches a worker gets one that loads a checkpoint in ``held``, if no
        other path is much longer; each plan says how it chooses among the rest.
        """

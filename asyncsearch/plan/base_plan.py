"""The engine's interface to a search plan: the next batch, its trials, durable checkpoints and running work. Pure.

There are two plans, and a study keeps one of them for life. ``SearchPlan`` is for trials that may share training.
``SoloPlan`` is for trials that share nothing; it answers the same questions without a tree, in half the time. The
methods here that are not abstract are those of a plan whose trials share nothing.

Only the engine calls a plan. ``learning``, ``applying`` and the restoring of a snapshot state facts, in the order in
which they become known; all modules may call queries, which change nothing. No method costs more than
O(depth · log n) for n nodes, except that methods that return lists also cost the length of the list. The same
statements in the same order give the same answers, so a replay makes the same plan.
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
    """An interval of one node that a worker trains; without units it is an evaluation."""

    node: NodeKey
    start: int
    stop: int
    """UNBOUNDED: until the function returns."""
    trials: tuple[TrialId, ...]
    """The first trials that wait for its end, or for stages that start there, in order."""
    more: int = 0
    """How many more trials wait."""
    save: bool = True
    """Whether its worker saves at its end."""


class Batch(msgspec.Struct, frozen=True):
    """The stages that one worker trains without reloading; each begins where the one before ends."""

    load: CheckpointRef | None
    """None: train from the beginning."""
    stages: tuple[PlannedStage, ...]
    is_urgent: bool = False
    """Whether an urgent request needs it."""


class BasePlan(abc.ABC):
    """Requests, durable checkpoints and running batches; the next batch follows from them."""

    is_shared = False
    """Whether trials may read the reports of others, and decisions depend on costs; else neither need be stated."""
    reports: KnownReports
    """The reports that trials may read that reach a node later."""

    # Paths of trials.

    @abc.abstractmethod
    def path(self, root: NodeKey, params: Mapping[str, Any], horizon: int, trial: TrialId) -> PlanPath:
        """Return the nodes in which a new trial trains up to ``horizon``; see ``plan.keys.path``."""

    @abc.abstractmethod
    def branch_path(
        self, root: NodeKey, params: Mapping[str, Any], horizon: int, trial: TrialId, donor: Trial, load: CheckpointRef
    ) -> PlanPath:
        """Return the nodes of a trial that continues from the checkpoint ``load`` of its donor with other params."""

    # Requests.

    @abc.abstractmethod
    def request(self, trial: TrialId, path: PlanPath, target: int, *, is_urgent: bool = False) -> None:
        """Let a trial request ``target`` on its path, in place of its earlier request.

        Raises:
            InternalError: the path does not begin at 0, its starts do not ascend, the target is not above 0, or the
                plan has one of its nodes at another position.
        """

    @abc.abstractmethod
    def withdraw(self, trial: TrialId) -> None:
        """Remove the request of a trial."""

    @abc.abstractmethod
    def target_of(self, trial: TrialId) -> int | None:
        """Return the target that a trial requests, or None."""

    @abc.abstractmethod
    def subscribers_at(self, node: NodeKey, resource: int) -> list[TrialId]:
        """Return the trials that wait for the unit of a node that ends at ``resource``, or for units after it."""

    @abc.abstractmethod
    def requesters_at(self, node: NodeKey, resource: int) -> list[TrialId]:
        """Return the trials that request exactly this position."""

    # Checkpoints, and the metric at each.

    @abc.abstractmethod
    def add_checkpoint(self, ref: CheckpointRef, lease: int | None = None) -> None:
        """Count a checkpoint as durable. The lease under which it was made has trained the units below it.

        With None, each lease that trains across it has. Another study's checkpoint may come later, and be far below.
        """

    @abc.abstractmethod
    def remove_checkpoint(self, ref: CheckpointRef) -> None:
        """Count a checkpoint as lost; units that need it are trained again."""

    @abc.abstractmethod
    def nearest(self, path: PlanPath, resource: int) -> CheckpointRef | None:
        """Return the deepest durable checkpoint on a path at or before ``resource``."""

    @abc.abstractmethod
    def expect_metric(self, ref: CheckpointRef) -> None:
        """Note that the metric at a checkpoint was not reported, so that it is evaluated if a trial requests it."""

    @abc.abstractmethod
    def add_metric(self, ref: CheckpointRef) -> None:
        """Note that the metric was reported at a position."""

    @abc.abstractmethod
    def lacks_metric(self, ref: CheckpointRef) -> bool:
        """Return whether a durable checkpoint will be evaluated if a trial requests it."""

    @abc.abstractmethod
    def has_report(self, ref: CheckpointRef, trials: Sequence[Trial]) -> bool:
        """Return whether the metric was reported at a position, or beyond it where trials share nothing."""

    # Running batches.

    @abc.abstractmethod
    def begin(self, lease: int, batch: Batch) -> None:
        """Begin a batch under a lease; ``next_batch`` returned it immediately before.

        Raises:
            InternalError: the lease has a batch already, or a stage of the batch is not pending any more.
        """

    @abc.abstractmethod
    def resume(self, lease: int, batch: Batch, path: PlanPath = ()) -> None:
        """Note that a lease trains a batch that began before this plan was made; state this before any checkpoint.

        Args:
            lease: its number.
            batch: its batch.
            path: a path that contains the batch, which adds the nodes that no request needs any more; without it their
                stages are left out.
        """

    @abc.abstractmethod
    def end(self, lease: int) -> None:
        """End the running batch of a lease; its uncommitted units are planned again."""

    @abc.abstractmethod
    def leases_on(self, path: PlanPath) -> list[int]:
        """Return the leases that train nodes of a path, each once."""

    @abc.abstractmethod
    def wanted_stop(self, lease: int) -> int:
        """Return the last resource of a running batch that a request still needs, or 0 if there is none."""

    @abc.abstractmethod
    def extension(self, lease: int, trial: TrialId, path: PlanPath, start: int, stop: int) -> tuple[PlannedStage, ...]:
        """Return the stages from the end of a lease, at ``start``, to ``stop`` on the path of a trial.

        Empty if a part of them need not or cannot be trained by it: reports or a checkpoint of it are known, or others
        train there.
        """

    def extend(self, lease: int, stages: Sequence[PlannedStage], *, save: bool) -> None:
        """Let a lease train further stages, and save at its former end or not."""

    def has_others(self, ref: CheckpointRef) -> bool:
        """Return whether a checkpoint is needed besides by the one trial that trains on from there."""
        return False

    def cut(self, lease: int, stop: int) -> None:
        """Let a running batch end at ``stop``, where its worker saves; the rest is planned for another lease."""

    def advance(self, lease: int, resource: int) -> None:
        """Note that a lease has trained the units below a checkpoint that it made, which may be gone by now."""

    def add_save_point(self, lease: int, node: NodeKey, resource: int) -> None:
        """Note that the worker was told to save at a position inside its batch."""

    def splits(self, lease: int) -> list[tuple[NodeKey, int]]:
        """Return the positions inside a lease's batch where others need a checkpoint not announced to its worker."""
        return []

    def block(self, node: NodeKey) -> None:
        """Let the units of a node that are not durable, and units after them, wait: another study trains there."""

    def unblock(self, node: NodeKey) -> None:
        """Let the units left in a node be trained here."""

    @property
    def blocked(self) -> frozenset[NodeKey]:
        """The nodes in which another study trains."""
        return frozenset()

    # Costs of units.

    def set_cost(self, node: NodeKey, seconds_per_unit: float) -> None:
        """Set the time of a unit of a node; see ``plan.costs`` for nodes that were not measured.

        Raises:
            InternalError: the time is not finite, or is negative.
        """

    def costs(self) -> KnownCosts | None:
        """Return all known costs, for ``restore_costs``. None if no decision depends on them."""
        return None

    def restore_costs(self, known: KnownCosts) -> None:
        """Restore the costs known before this plan was made; call this after all other statements."""

    # The next batch.

    @abc.abstractmethod
    def next_batch(self, held: Collection[CheckpointRef] = ()) -> Batch | None:
        """Return the batch to train next, or None if there is none now. ``begin`` makes it running.

        Urgent requests come first. Of several batches a worker gets one that loads a checkpoint in ``held``, if no
        other path is much longer; each plan documents how it chooses among the others.
        """

    @abc.abstractmethod
    def ready_batches(self, most: int, held: Collection[CheckpointRef] = ()) -> list[Batch]:
        """Return at most ``most`` batches that can all begin now, in the order of choice.

        The first one is that of ``next_batch``. They have no stage in common: ``begin`` of one leaves the others valid.
        """

"""An attempt is the life of one lane of a lease, with the facts that its worker has told. Pure."""

from __future__ import annotations

import msgspec

from asyncsearch.events import (
    MEMORY_KINDS,
    CheckpointCommitted,
    CheckpointFailed,
    Event,
    Outcome,
    Reported,
    TrainingEnded,
)
from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId
from asyncsearch.plan.base_plan import Batch, PlannedStage


class Attempt(msgspec.Struct):
    """The facts about one lane of a lease; unpacked work has one."""

    lease: Lease
    batch: Batch
    """The work that it permits."""
    trials: list[TrialId]
    """The RUNNING trials that it brings to their targets, by id."""
    resource: int = 0
    """Units of training done, as last reported under this lease; before an evaluation one less than its resource."""
    since_s: float = 0.0
    """Driver's clock when the lease was given."""
    last_s: float | None = None
    """Driver's clock at the last report under this lease."""
    peers: int = 1
    """How many lanes of its lease trained at its last report, itself included."""
    save_points: list[CheckpointRef] = []
    """The positions, besides the ends of its stages, at which it was told to save."""
    committed: int | None = None
    """Resource of the newest checkpoint that is durable under this lease."""
    settled: int | None = None
    """Resource of the newest checkpoint that is durable or could not be made durable."""
    end: TrainingEnded | None = None
    """How its training ended; None while it trains."""
    is_stop_sent: bool = msgspec.field(name="is_told", default=False)
    """It was told to stop."""
    is_closed: bool = False
    """It was told to stop and has no trial left; its further messages are ignored."""
    is_lost: bool = False
    """Its worker is gone."""
    cut: int | None = None
    """Resource beyond which no unit is needed any more; its worker may have passed it."""
    is_planned: bool = True
    """Whether the plan counts its stages as being trained."""
    lane: int = 0
    """Number of the lane in the work."""
    lanes: int = 1
    """How many lanes train in one process, itself included: at its beginning, or when another lane joined last."""
    is_open: bool = False
    """Whether its lease is one that other lanes may join."""
    is_shut: bool = False
    """Whether none may join it any more: its process ends, or may hang."""
    has_joined: bool = False
    """Whether it joined a lease that trained already."""
    size: int = 1
    """How many workers train it together."""
    device: str = ""
    """The device that it trains on, as its trainer has told. Empty if it has not."""
    resize: str = ""
    """Why it was cut, so that its trials go on with another number of workers. Empty if it was not."""

    @property
    def number(self) -> int:
        """Its number in the study: a lease with K lanes takes the K numbers from its own on."""
        return self.lease.number + self.lane

    @property
    def trial(self) -> TrialId:
        """The trial that names its log: the first one that reads from the stage in training."""
        return self.stage_at(self.next_unit).trials[0]

    @property
    def is_too_large(self) -> bool:
        """Whether its training ended since the trainings of its process had too little memory together."""
        return self.lanes > 1 and self.end is not None and self.end.error_kind in MEMORY_KINDS

    @property
    def is_evaluation(self) -> bool:
        """Whether it evaluates a loaded checkpoint without training."""
        first = self.batch.stages[0]
        return first.start == first.stop

    @property
    def stop(self) -> int:
        """Resource at which it should end."""
        end = self.batch.stages[-1].stop
        return end if self.cut is None else min(end, self.cut)

    @property
    def is_spared(self) -> bool:
        """Whether it needs no checkpoint at its end."""
        return not self.batch.stages[-1].save

    @property
    def has_returned_early(self) -> bool:
        """Whether the user's function returned before the end of its work."""
        end = self.end
        return end is not None and end.outcome is Outcome.RETURNED and end.resource < self.batch.stages[-1].stop

    @property
    def is_training(self) -> bool:
        """Whether a worker trains under the lease and the training is still needed."""
        return self.end is None and not self.is_closed and not self.is_lost

    @property
    def is_committing(self) -> bool:
        """Whether its training has ended and a checkpoint of it is still being stored."""
        return self.end is not None and not self.is_over

    @property
    def is_leaving(self) -> bool:
        """Whether it has trained all of its units and is only to save, so that another may have its place in a pack.

        One that was cut may train a unit more.
        """
        return self.end is None and not self.is_evaluation and self.resource >= self.batch.stages[-1].stop

    @property
    def is_all_saved(self) -> bool:
        """Whether all of its work is durable, so that only its end is missing."""
        return self.committed is not None and self.committed >= self.stop

    @property
    def is_over(self) -> bool:
        """Whether no further event under the lease is needed."""
        if self.is_lost or self.end is None:
            return self.is_lost
        awaited = self.end.checkpoint_resource
        return self.is_closed or awaited is None or (self.settled is not None and self.settled >= awaited)

    @property
    def next_unit(self) -> int:
        """Resource at the end of the current unit, or of the last one."""
        return max(self.resource, min(self.resource + 1, self.stop))

    @property
    def has_ended_well(self) -> bool:
        """Whether its training reached its end, or the user's function returned."""
        return self.end is not None and not self.is_closed and self.end.outcome in (Outcome.REACHED, Outcome.RETURNED)

    @property
    def is_durable(self) -> bool:
        """Whether its training has ended, and every checkpoint that it saved is durable."""
        if self.end is None:
            return False
        awaited = self.end.checkpoint_resource
        return awaited is None or (self.committed is not None and self.committed >= awaited)

    def misnamed(self, message: Event) -> str:
        """Return the part of a message that is not of its work, or undoes it. Empty if there is none."""
        start, end = self.batch.stages[0].start, self.batch.stages[-1].stop
        if isinstance(message, CheckpointCommitted | CheckpointFailed):
            at = message.checkpoint
            if not start < at.resource <= end or at.node != self.node_at(at.resource):
                return f"the checkpoint at {at.resource} of node {at.node[:8]}"
            if self.end is not None and at.resource > self.end.resource:
                return f"a checkpoint at {at.resource}, of a training that ended at {self.end.resource},"
        elif isinstance(message, Reported):
            if message.resource > end:
                return f"resource {message.resource}"
        elif isinstance(message, TrainingEnded):
            saved, durable = message.checkpoint_resource, self.committed or 0
            done = max(self.resource, durable, saved or 0)
            if message.resource > end:
                return f"resource {message.resource}"
            if saved is not None and not start < saved <= end:
                return f"a checkpoint at {saved}"
            if message.resource < done:  # else trials would wait for units that the plan counts as trained
                return f"an end at {message.resource}, with units up to {done},"
            if (saved or 0) < durable:
                return f"an end whose last checkpoint is at {saved}, with one at {durable},"
        return ""

    def stage_at(self, resource: int) -> PlannedStage:
        """Return the stage in which the unit that ends at ``resource`` lies, or the last one."""
        stages = self.batch.stages
        for stage in stages:
            if resource <= stage.stop:
                return stage
        return stages[-1]

    def node_at(self, resource: int) -> NodeKey:
        """Return the node in which the unit that ends at ``resource`` lies."""
        return self.stage_at(resource).node

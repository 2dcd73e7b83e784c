"""One lane of a lease on this worker, from its arrival to its end, and the runner that trains lanes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import UNSET, UnsetType

from asyncsearch.agent.config import LogLimits
from asyncsearch.agent.log_lines import LogBuffer
from asyncsearch.events import CheckpointFailed, Outcome, Spent, TrainingEnded
from asyncsearch.ids import CheckpointRef, Lease, trial_name
from asyncsearch.rpc.messages import RankFailed
from asyncsearch.runner.failures import with_last_lines
from asyncsearch.runner.protocol import Amendment, GangSeat, Join, LaneAnswer, Note, ToRunner, Train, TrainPack
from asyncsearch.runner.trial_folder import FolderPlace
from asyncsearch.store.manifest import PackedWith
from asyncsearch.values import spell_all
from asyncsearch.work import Lane, node_at


class LaneRun:
    """The agent's state of one lane."""

    def __init__(self, lease: Lease, number: int, lane: Lane, limits: LogLimits) -> None:
        self.lease = lease
        self.number = number
        """Number of the lane in the work."""
        self.lane = lane
        self.log = LogBuffer(limits)
        self.resource = lane.stages[0].start
        """Units of training done, as last reported or saved."""
        self.saved: list[int] = []
        """Resources of its saved checkpoints, in order, except failed commits."""
        self.last_save: int | None = None
        """Resource of the checkpoint at its end. None until it is saved."""
        self.held_back: list[CheckpointFailed] = []
        """Failures to send after its end event, which names its last checkpoint."""
        self.amendments: list[Amendment] = []
        """Amendments that arrived before the runner got the lane."""
        self.staged: dict[tuple[int, int], Path] = {}
        """(stage, resource) -> folder that the runner has not filled yet."""
        self.shard_places: dict[tuple[int, int], str] = {}
        """(stage, resource) -> where the other ranks of its gang add their shards, until it is committed."""
        self.fetched = contextlib.ExitStack()
        """Keeps its initial checkpoint open."""
        self.load: Path | None = None
        """Path of that checkpoint. None until it is fetched."""
        self.load_error = ""
        """Why it cannot be fetched, if the runner had the lane by then. Empty if it can be."""
        self.place = FolderPlace()
        """Where its trial may make a folder."""
        self.is_sent = False
        """Whether the runner has got the lane."""
        self.is_over = False
        """Whether its end was sent."""
        self.is_refused = False
        """Whether the driver refused its lease, so that no more events of it are sent."""
        self.stop_reason: str | None = None
        """Reason of its stop request. None if there is none."""
        self.escalate_at: float | None = None
        """When to escalate an ignored stop, monotonic seconds."""
        self.is_terminated = False
        """Whether the agent sent its runner SIGTERM."""
        self.is_killed = False
        """Whether the agent sent its runner SIGKILL."""
        self.lanes = 1
        """How many lanes the runner got together, this one included."""
        self.measured: tuple[int, ...] = ()
        """How many lanes of its work are timed together."""
        self.is_open = False
        """Whether other lanes may join its work."""
        self.has_joined = False
        """Whether it joined work that this worker had already."""
        self.loaded: PackedWith | None = None
        """How its initial checkpoint was trained in packs. None if it was not, or there is none."""
        self.seat: GangSeat | None = None
        """Its place in the gang that trains it. None if this worker trains it alone."""
        self.notes: list[Note] = []
        """Values that other ranks told before the runner got the lane."""
        self.unasked: list[LaneAnswer] = []
        """What the driver has told the lane before the runner got it."""
        self.gives_up = threading.Event()
        """Set once it must not wait for its store any longer."""

    @property
    def can_start(self) -> bool:
        """Whether the runner can get the lane now."""
        return not (self.is_sent or self.is_awaiting_load)

    @property
    def is_awaiting_load(self) -> bool:
        """Whether its initial checkpoint is still to be fetched."""
        return self.lane.load is not None and self.load is None

    @property
    def is_follower(self) -> bool:
        """Whether another worker reports and commits for it."""
        return self.seat is not None and self.seat.rank > 0

    @property
    def is_packed(self) -> bool:
        """Whether the runner got other lanes together with it."""
        return self.lanes > 1

    def packed_with(self, stage: int, resource: int) -> PackedWith | None:
        """Return how its state at a resource was trained in packs. None if it was trained alone from the beginning."""
        if self.is_packed:
            # Imported here: it imports all that is known of packs and plans, and each worker's start would wait for it.
            from asyncsearch.sizing.packing import group_of

            return PackedWith(self.lanes, group_of(self.lane.stages[stage].params), resource)
        return self.loaded

    @property
    def trial(self) -> str:
        """The name of the trial in whose name it trains."""
        return trial_name(self.lane.stages[0].trials[0])

    @property
    def reached(self) -> CheckpointRef:
        """Node and resource up to which it has trained."""
        return CheckpointRef(node_at(self.lane.stages, self.resource), self.resource)

    @property
    def attempt(self) -> int:
        """The number of its attempt, which no other one of its study has."""
        return self.lease.number + self.number

    def checkpoint(self, stage: int, resource: int) -> CheckpointRef:
        """Return the reference of its checkpoint at a resource of a stage."""
        return CheckpointRef(self.lane.stages[stage].node, resource)

    def end(
        self,
        outcome: Outcome,
        error: str = "",
        error_kind: str = "",
        unreported: Mapping[str, float] = {},
        spent: Spent | UnsetType = UNSET,
    ) -> Sequence[TrainingEnded | CheckpointFailed | RankFailed]:
        """End the lane, and return the events for the driver, in order."""
        self.is_over = True
        if self.is_refused:
            return []
        if outcome is Outcome.FAILED:
            error = with_last_lines(error, self.log.tail())
        if self.is_follower:
            has_stopped = outcome is Outcome.RETURNED and bool(error)  # by ``trial.stop(reason)``
            is_awaited = self.stop_reason is None and (outcome is Outcome.FAILED or has_stopped)
            return [RankFailed(self.lease, error, error_kind, has_stopped)] if is_awaited else []
        saved = self.saved[-1] if self.saved else None
        left = spell_all(unreported)
        ended = TrainingEnded(self.lease, outcome, self.resource, saved, error, error_kind, self.number, left, spent)
        return [ended, *self.held_back]


def all_stopped(runs: Iterable[LaneRun]) -> bool:
    """Return whether all lanes of a process were told to stop: a signal would cost the others their training."""
    return all(run.stop_reason is not None for run in runs)


def signal_due(runs: Iterable[LaneRun]) -> float | None:
    """Return when to signal the process of lanes that were all told to stop, each of which has its whole grace."""
    return max((run.escalate_at for run in runs if run.escalate_at is not None), default=None)


class RunnerHandle(Protocol):
    """The runner as the workbench sees it: a process of its own, or the thread that calls.

    It trains the lanes of one lease at a time. Its messages and its death are passed to the workbench.
    """

    @property
    def can_take_more(self) -> bool:
        """Whether lanes may join those that it trains."""

    @property
    def may_copy(self) -> bool:
        """Whether it may write the last checkpoint of a training while it trains the next."""

    @property
    def loads_beside(self) -> bool:
        """Whether it may set a trial up while the checkpoint to start from is fetched and compared."""

    def begin(self, runs: Sequence[LaneRun], message: Train | TrainPack) -> bool:
        """Send the lanes of a lease, and return whether the runner takes them; one that is about to end does not."""

    def join(self, run: LaneRun, message: Join) -> None:
        """Send a lane that joins those that it trains."""

    def tell(self, message: ToRunner) -> None:
        """Send any other message."""

    def stop(self, run: LaneRun, reason: str) -> None:
        """Ask a lane to stop, and make it stop if it does not."""

    def kill(self) -> None:
        """End the training of all lanes at once, and begin no other one with this process."""

    def lane_ended(self, run: LaneRun) -> None:
        """Forget a lane that is over, whether it was sent or not."""

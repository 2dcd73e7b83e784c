"""Facts, in the past tense: all input of ``engine.handling.handle``. Each is one half of a journal record.

Rule 1: an event carries what happened, never what to do about it.
Rule 2: fields are only added, with a default; journals of released versions remain readable.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from asyncsearch.ids import CheckpointRef, Lease, NodeKey, WorkerId
from asyncsearch.trial import Metrics


class Outcome(enum.Enum):
    """How the training of a lane ended, as its runner saw it."""

    REACHED = "REACHED"
    """It reached the stop of its last stage and was unwound there, in order to be paused."""
    RETURNED = "RETURNED"
    """The user's code returned."""
    STOPPED = "STOPPED"
    """It was told to stop, and stopped."""
    FAILED = "FAILED"
    """It raised, made an invalid report, exited, crashed, hung, or ignored a stop."""


KILLED = "killed"
"""``error_kind`` of a training whose process was ended from outside: the machine's doing, not the trial's."""


MEMORY_KINDS = ("out_of_memory", "MemoryError", "OutOfMemoryError")
"""``error_kind`` of a training that had too little memory: the kernel, Python or a framework said so."""


def is_of_all(error: Exception) -> bool:
    """Return whether an error concerns all that the process trains: too little memory, or a device that has failed."""
    return type(error).__name__ in (*MEMORY_KINDS, "AcceleratorError")


class Spent(NamedTuple):
    """The times of a worker since it got its present work, in whole milliseconds of its own clock.

    Rule: it only grows while the work lasts, so that a message that never came costs nothing but its detail.
    """

    starting: int = 0
    """Starting the process of the trainings."""
    entering: int = 0
    """Calling the function, until its first unit begins."""
    loading: int = 0
    """Fetching and loading a checkpoint."""
    training: int = 0
    saving: int = 0
    """Saving, as far as training waits for it."""
    verdict: int = 0
    """Waiting for what is decided of the trial."""
    evaluating: int = 0
    """Evaluating, as far as a trainer does it."""


class Event(msgspec.Struct, frozen=True, tag_field="kind"):
    """Base of all events."""


class LeaseEvent(Event, frozen=True):
    """Base of the events under a lease, which have no effect once the lease is over."""

    lease: Lease


class DriverStarted(Event, frozen=True, tag="driver_started"):
    """A driver opened the study; every lease that an earlier driver gave is void."""

    version: str
    """Version of asyncsearch that writes the journal from this record on."""


class RunRequested(Event, frozen=True, tag="run_requested"):
    """The user called ``run``: search until ``num_trials`` trials exist and none has anything left to train."""

    num_trials: int | None
    """Global total, earlier runs of the study included. None if trials come until the searcher is exhausted."""
    parallelism: int
    """Number of workers, from 1."""
    share: int | UnsetType = UNSET
    """How many of them it may have for now, from 0, as other studies have the rest; left out: all."""


class ShareChanged(Event, frozen=True, tag="share_changed"):
    """The study may have another number of the workers that it shares with other studies."""

    workers: int
    """From 0; beyond them workers are given back at the boundaries of stages."""
    is_urgent: bool = False
    """Whether these are given back at the end of the present unit."""


class WorkerAttached(Event, frozen=True, tag="worker_attached"):
    """A worker opened its stream and is ready for work."""

    worker: WorkerId
    epoch: int
    host: str = ""
    pid: int = 0


class WorkerLost(Event, frozen=True, tag="worker_lost"):
    """A worker is permanently gone: its process ended, its job failed, or it was silent too long."""

    worker: WorkerId
    epoch: int
    reason: str


class WorkersIdled(Event, frozen=True, tag="workers_idled"):
    """Workers have had nothing to train and nothing to store for as long as the study keeps such ones."""

    workers: tuple[tuple[WorkerId, int], ...]
    """Each with its epoch."""
    seconds: float
    """How long that is."""


class Reported(LeaseEvent, frozen=True, tag="reported"):
    """A lane reported metrics."""

    resource: int
    """Units of training done when the metrics were measured, from 1."""
    metrics: Metrics
    lane: int = 0
    is_awaited: bool = False
    """Whether the trial waits for what is decided of it here."""
    spent: Spent | UnsetType = UNSET
    """What its worker did so far; left out: it was not measured."""


class TrainingEnded(LeaseEvent, frozen=True, tag="training_ended"):
    """The training of a lane ended and its worker is free; a checkpoint may still be being stored."""

    outcome: Outcome
    resource: int
    """Units of training done, from 0."""
    checkpoint_resource: int | None = None
    """Resource of the checkpoint that was saved locally and will be committed. None if there is none."""
    error: str = ""
    """The error, with the traceback or the last lines of output, when ``outcome`` is FAILED; when it is RETURNED, the
    reason why the trial's code has stopped it. Empty if it has not."""
    error_kind: str = ""
    """Name of the exception, or one of ``exit``, ``signal``, ``killed``, ``out_of_memory``, ``timeout``,
    ``unheeded_stop``, ``cannot_pause``, ``bad_report``, ``no_report``, ``checkpoint``."""
    lane: int = 0
    unreported: Metrics = {}
    """What the function returned beside its reports, and is not recorded as one."""
    spent: Spent | UnsetType = UNSET
    """As in ``Reported``."""


class PackSeconds(NamedTuple):
    """How fast some trainings train together."""

    lanes: int
    seconds: float
    """Of a unit of all of them."""


class PackMemory(NamedTuple):
    """The memory of the process of a pack while it trained one of its lanes, and then two together."""

    one: int
    """Bytes that it held at most with one lane."""
    each: int
    """Bytes that each further lane takes."""
    limit: int
    """Bytes that it may hold."""
    limited_by: str
    """What sets this limit, in words."""


class PackMeasured(LeaseEvent, frozen=True, tag="pack_measured"):
    """The runner of a pack has told how fast its lanes train together, or why they do not."""

    seconds: tuple[PackSeconds, ...] = ()
    device: str = ""
    """Where that was measured."""
    refusal: str = ""
    """Why they train one after another, and the line to change. Empty if they train together."""
    memory: PackMemory | None = None
    """Memory that they need. None if it was not measured, or there is no limit."""
    sequential: str = msgspec.field(default="", name="in_turn")  # so journals name it
    """Why some lanes step one after another, on batches that all read once, and the line to change. Empty if that is as
    before."""


class PacksTimed(Event, frozen=True, tag="packs_timed"):
    """Another study of the same code has timed packs of a structure, on a device that a worker of this one has."""

    group: str
    """The structure, as ``Packing.group`` names it."""
    seconds: tuple[PackSeconds, ...]
    device: str
    study: str
    """Name of the other study."""
    fits: int | None = None
    """How many had memory enough together there, as predicted. None if it is not known."""


class VolumeMeasured(LeaseEvent, frozen=True, tag="volume_measured"):
    """A trainer has told the volume that the workers of its trial exchange in a unit, or would with more of them."""

    steps: int
    """Sums of gradients in a unit."""
    gradient_bytes: int
    """Bytes of each of them."""
    device: str = ""
    """What it trains on."""


class Consulted(LeaseEvent, frozen=True, tag="consulted"):
    """A trial was answered in mid-training, as by a sampler or a pruner of another library, or has told it something.

    It decides nothing: the answer is a fact that is never asked for again.
    """

    facts: dict[str, Any]
    """What was asked and answered, in the words of the one who answers; JSON values.

    ``params``, in one fact or in each of ``several``, are parameters that the trial has got, as people read them.
    """
    lane: int = 0


class CheckpointCommitted(LeaseEvent, frozen=True, tag="checkpoint_committed"):
    """A checkpoint is durable in the store."""

    checkpoint: CheckpointRef
    size_bytes: int = 0
    lane: int = 0


class CheckpointFailed(LeaseEvent, frozen=True, tag="checkpoint_failed"):
    """A checkpoint could not be saved, or not be made durable."""

    checkpoint: CheckpointRef
    error: str
    lane: int = 0
    error_kind: str = ""
    """``store``: the store could not take it; ``killed``: the process that was to write it has ended, beside the next
    training. No trial is blamed for either. Empty if it is the trial's own doing."""


class TrialTimedOut(LeaseEvent, frozen=True, tag="trial_timed_out"):
    """An attempt ran longer than ``trial_timeout``."""

    lane: int | None = None
    """Number of a lane that joined later. None if it is all lanes that came with the lease."""


class StopRequested(Event, frozen=True, tag="stop_requested"):
    """The run should end now: it was interrupted, its time is up, or its store fails. The study can be resumed."""

    reason: str
    error_kind: str = ""
    """Name of the error class that ``run`` raises at its end. Empty if it raises none."""


class EnoughTrials(Event, frozen=True, tag="enough_trials"):
    """The run is to begin no more trials; those that train are trained to their ends."""

    reason: str


class RuleDue(Event, frozen=True, tag="rule_due"):
    """A moment has come at which a stop rule may hold by time alone."""


class Learned(Event, frozen=True, tag="learned"):
    """Other studies have trained more of a node that this study trains too."""

    node: NodeKey
    reports: tuple[tuple[int, Metrics], ...] = ()
    """Resource -> metrics, resources ascending; empty metrics: the node was trained up to there without a report."""
    ended: int | None = None
    """Resource at which the user's function returned by itself in this node. None if it did not."""
    checkpoints: tuple[int, ...] = ()
    """Resources of durable checkpoints, ascending."""

    @property
    def known_checkpoints(self) -> list[CheckpointRef]:
        """The checkpoints from which to continue, the deepest first: those up to which all reports are known."""
        reach = max((resource for resource, _ in self.reports), default=0)
        return [CheckpointRef(self.node, resource) for resource in reversed(self.checkpoints) if resource <= reach]


class LearnedPacked(Learned, frozen=True, tag="learned_packed"):
    """As ``Learned``, where some of it was trained in packs, so that it agrees within a tolerance only."""

    packed: tuple[int, ...] = ()
    """Resources of these reports and checkpoints, ascending."""


class Imported(Learned, frozen=True, tag="imported"):
    """Another study's training of a node was imported; each checkpoint is kept until a trial continues from it."""


class WorkRefused(LeaseEvent, frozen=True, tag="work_refused"):
    """A lease was not given to its worker: other studies train in its nodes, or have trained there already."""

    reason: str
    busy: tuple[NodeKey, ...] = ()
    """The nodes of the work in which other studies train now."""
    lane: int | None = None
    """Number of the only lane that was not given, one that was to join. None if no lane was given."""


class NodeFreed(Event, frozen=True, tag="node_freed"):
    """No other study trains in a node any more: the other driver left it, or died."""

    node: NodeKey


AnyEvent = (
    DriverStarted
    | RunRequested
    | ShareChanged
    | WorkerAttached
    | WorkerLost
    | WorkersIdled
    | Reported
    | TrainingEnded
    | PackMeasured
    | VolumeMeasured
    | PacksTimed
    | Consulted
    | CheckpointCommitted
    | CheckpointFailed
    | TrialTimedOut
    | StopRequested
    | EnoughTrials
    | RuleDue
    | Learned
    | LearnedPacked
    | Imported
    | WorkRefused
    | NodeFreed
)

"""Decisions, in the imperative: all output of ``engine.handling.handle``. Each is part of a journal record.

An action is applied to the state by ``engine.applying``, in the run that decides it and in every replay.
The driver carries out the actions with outside effects: Assign, AddLane, StopTraining, SaveAt, CutWork,
ExtendWork, LaunchWorker, DismissWorker, DeleteCheckpoint, EndRun. The others are decisions about trials.

Rule: fields are only added, with a default; journals of released versions remain readable.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from asyncsearch.ids import CheckpointRef, Lease, NodeKey, PathStep, TrialId, WorkerId
from asyncsearch.trial import Params, TrialState
from asyncsearch.work import Lane, Stage, Work


class Action(msgspec.Struct, frozen=True, tag_field="kind"):
    """Base of all actions."""


class CreateTrial(Action, frozen=True, tag="create_trial"):
    """Begin a trial with a configuration that the searcher proposed."""

    trial: TrialId
    params: Params
    node: NodeKey
    target: int | None
    """Resource up to which it should train first. None if it trains until its function returns."""
    proposal: int = 0
    """Number of the searcher's proposal."""
    path: tuple[PathStep, ...] = ()
    """The plan nodes on its path. Empty if it is ``node`` alone."""
    notes: dict[str, Any] = {}
    """The searcher's notes on its proposal, which are returned to it; empty for most searchers."""


class Inherit(Action, frozen=True, tag="inherit"):
    """Let a trial read the earlier reports on its path, up to a resource."""

    trial: TrialId
    resource: int


class Compare(Action, frozen=True, tag="compare"):
    """Let the scheduler compare a trial that has reported at its target, before its checkpoint there is durable."""

    trial: TrialId


class Promote(Action, frozen=True, tag="promote"):
    """Let a trial continue: a paused one from its checkpoint, one that was compared and still runs where it is."""

    trial: TrialId
    from_resource: int
    to_resource: int
    reason: str


class Branch(Action, frozen=True, tag="branch"):
    """Let a paused trial continue from another trial's checkpoint, with its own values from there on."""

    trial: TrialId
    donor: TrialId
    """The trial whose checkpoint it takes over."""
    resource: int
    """The resource of that checkpoint: the trial continues as if it had been trained up to there, as the donor was."""
    to_resource: int
    params: Params
    """Its new configuration: the donor's up to ``resource``."""
    node: NodeKey
    reason: str
    path: tuple[PathStep, ...] = ()
    """The plan nodes on its new path. Empty if it is ``node`` alone."""


class MoveTrial(Action, frozen=True, tag="move_trial"):
    """Change a trial's state along an edge of the transition table, for a reason that a person can read."""

    trial: TrialId
    to: TrialState
    reason: str
    detail: str = ""
    """A longer description, such as the traceback of a failure."""


class Assign(Action, frozen=True, tag="assign"):
    """Give a worker work under a new lease."""

    work: Work


class AddLane(Action, frozen=True, tag="add_lane"):
    """Give a worker one more lane of the work that it trains; it joins the others when they have done their unit."""

    lease: Lease
    lane: int
    """Its number in the work: that of its attempt, less that of the lease."""
    added: Lane


class StopTraining(Action, frozen=True, tag="stop_training"):
    """Tell a worker to stop training a lane."""

    lease: Lease
    reason: str
    lane: int = 0


class SaveAt(Action, frozen=True, tag="save_at"):
    """Tell a worker to save a checkpoint, if the lane has not passed it. ``CheckpointCommitted`` follows."""

    lease: Lease
    node: NodeKey
    """The node of the checkpoint."""
    resource: int
    """Units of training done, from 0, at which to save."""
    lane: int = 0


class CutWork(Action, frozen=True, tag="cut_work"):
    """Tell a worker that it is not to train a lane beyond ``stop``. ``TrainingEnded`` says where it ended.

    The lane saves at its end. It ends at ``stop``, or, if it has passed that, when its current unit is done.
    """

    lease: Lease
    stop: int
    """Units of training done, from 0."""
    lane: int = 0
    resize: str | UnsetType = UNSET
    """Why its trials go on with another number of workers; left out: they do not."""


class ExtendWork(Action, frozen=True, tag="extend_work"):
    """Tell a worker to train further stages after those of a lane, instead of pausing where the last one ends.

    Without stages the lane ends there, and only its checkpoint may be left out.
    """

    lease: Lease
    stages: tuple[Stage, ...]
    save: bool
    """Whether the checkpoint at the former end is needed nevertheless."""
    lane: int = 0


class LaunchWorker(Action, frozen=True, tag="launch_worker"):
    """Start a worker in a slot of the cluster, under a new epoch."""

    worker: WorkerId
    epoch: int


class DismissWorker(Action, frozen=True, tag="dismiss_worker"):
    """Dismiss a worker: no work is left for it, or it must not report any more."""

    worker: WorkerId
    epoch: int
    reason: str
    is_unheard: bool = False
    """Whether the driver can acknowledge nothing any more, so that waiting for it is in vain."""
    is_released: bool = False
    """Whether its slot goes back only until there is work for a worker in it."""


class DeleteCheckpoint(Action, frozen=True, tag="delete_checkpoint"):
    """Remove a checkpoint that nothing can reach any more, or that is given up."""

    checkpoint: CheckpointRef
    paused: tuple[TrialId, ...] | UnsetType = UNSET
    """The paused trials that give it up: one that is promoted nevertheless trains again. UNSET if none does."""


class EndProposals(Action, frozen=True, tag="end_proposals"):
    """The searcher has no more proposals."""

    reason: str


class StopRun(Action, frozen=True, tag="stop_run"):
    """Begin to end the run for a reason that concerns all trials."""

    reason: str
    error_kind: str = ""
    """Name of the error class that ``run`` raises at its end."""


class EndRun(Action, frozen=True, tag="end_run"):
    """The run is over: nothing runs and nothing is left to do, or a stop was requested."""

    reason: str
    error_kind: str = ""
    """Name of the error class that ``run`` raises. Empty if it raises none."""
    is_complete: bool = True
    """Whether everything requested is done; False: ``resume`` has work left to do."""


AnyAction = (
    CreateTrial
    | Inherit
    | Compare
    | Promote
    | Branch
    | MoveTrial
    | Assign
    | AddLane
    | StopTraining
    | SaveAt
    | CutWork
    | ExtendWork
    | LaunchWorker
    | DismissWorker
    | DeleteCheckpoint
    | EndProposals
    | StopRun
    | EndRun
)


class GivenLane(NamedTuple):
    """A lane that a worker got."""

    lease: Lease
    number: int
    """Its number in the work."""
    lane: Lane

    @property
    def attempt(self) -> int:
        """Number of its attempt in the study."""
        return self.lease.number + self.number


def lanes_given(action: AnyAction) -> list[GivenLane]:
    """Return the lanes that an action gives a worker. Empty if it gives none."""
    if isinstance(action, Assign):
        return [GivenLane(action.work.lease, number, lane) for number, lane in enumerate(action.work.lanes)]
    return [GivenLane(action.lease, action.lane, action.added)] if isinstance(action, AddLane) else []


def stages_given(action: AnyAction) -> list[Stage]:
    """Return the stages that an action gives a worker. Empty if it gives none."""
    if isinstance(action, ExtendWork):
        return list(action.stages)
    return [stage for given in lanes_given(action) for stage in given.lane.stages]


def extended(stages: tuple[Stage, ...], extension: ExtendWork) -> tuple[Stage, ...]:
    """Return the stages of a lane that goes on after its last one."""
    *before, last = stages
    return (*before, msgspec.structs.replace(last, save=last.save and extension.save), *extension.stages)

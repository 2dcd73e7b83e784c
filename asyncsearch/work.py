"""Work: the unit that a worker pulls. It has lanes with batches of stages; a plain trial is one lane with one stage.

Work                 one lease
└── Lane             one replica; unpacked work has one
    └── Stage, ...   the batch: stages trained one after another without reloading
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId, WorkerId
from asyncsearch.trial import Params

KEPT_CHECKPOINTS = 4
"""How many of its last saved or loaded checkpoints a worker caches, so that it loads them without a fetch."""


class Stage(msgspec.Struct, frozen=True):
    """An interval of one plan node: train from ``start`` to ``stop``, then save."""

    node: NodeKey
    params: Params
    """Values of all hyper-parameters in this stage."""
    trials: tuple[TrialId, ...]
    """The trials that read from this stage, or the first of many; its logs are named after the first one."""
    seed: int
    """Seed of the trials, 0 <= seed < 2**63."""
    start: int = 0
    """Resource already trained when the stage begins."""
    stop: int | None = None
    """Resource at which the stage ends. None if that is when the user's function returns."""
    max_resource: int | None = None
    """Resource at which the trial is complete; with ``stop`` below it the trial pauses at ``stop``."""
    save: bool = False
    """Whether a checkpoint is requested at ``stop``."""
    save_every: int | None = None
    """Interval in units of resource at which checkpoints are requested before ``stop``."""
    more: int = 0
    """How many more trials read from it; not sent to workers."""


class Lane(msgspec.Struct, frozen=True):
    """One replica: a batch of stages, and the checkpoint from which the first one starts."""

    stages: tuple[Stage, ...]
    load: CheckpointRef | None = None
    """None: train from the beginning."""
    judged: int | None = None
    """The first resource at whose report it waits for what is decided, besides a pause at its end. None if none."""


class GangMember(msgspec.Struct, frozen=True):
    """A worker that trains work together with others."""

    worker: WorkerId
    epoch: int


class Work(msgspec.Struct, frozen=True):
    """The training that one lease permits."""

    lease: Lease
    lanes: tuple[Lane, ...]
    measured: tuple[int, ...] | UnsetType = UNSET
    """How many lanes are timed together in their first unit, group after group; left out: none are."""
    is_open: bool | UnsetType = UNSET
    """Whether other lanes may join while it trains; left out: none may."""
    gang: tuple[GangMember, ...] | UnsetType = UNSET
    """The workers that train it together, in the order of their ranks; the lease is that of the first one, which
    reports and commits for all. Left out: one worker trains it."""
    sized: str | UnsetType = UNSET
    """Why it has more workers than others, or no more lanes, for people; not sent to workers. Left out: it has as many
    workers, and one lane."""

    @property
    def followers(self) -> tuple[GangMember, ...]:
        """The workers of its gang except the first one."""
        return self.gang[1:] if isinstance(self.gang, tuple) else ()


def node_at(stages: tuple[Stage, ...], resource: int) -> NodeKey:
    """Return the node of a batch's stages to which the training up to a resource belongs."""
    return next((s.node for s in stages if s.stop is None or resource <= s.stop), stages[-1].node)

"""Work: what a worker pulls. Lanes of batches of stages; a plain trial is one lane with one stage.

Work                 one lease
└── Lane             one replica; unpacked work has one
    └── Stage, ...   the batch: trained one after the other without reloading
"""

from __future__ import annotations

import msgspec

from asyncsearch.ids import CheckpointRef, Lease, NodeKey, TrialId
from asyncsearch.trial import Params

KEPT_CHECKPOINTS = 4
"""How many of the checkpoints that it saved or loaded last a worker keeps at hand, so that it loads them at once."""


class Stage(msgspec.Struct, frozen=True):
    """An interval of one plan node: train from ``start`` to ``stop``, then save."""

    node: NodeKey
    params: Params
    """Values of all hyper-parameters in this stage."""
    trials: tuple[TrialId, ...]
    """The trials that read from this stage, or the first of many; the first one names its logs."""
    seed: int
    """Seed of the trials, 0 <= seed < 2**63."""
    start: int = 0
    """Resource already trained when the stage begins."""
    stop: int | None = None
    """Resource at which the stage ends; None: when the user's function returns."""
    max_resource: int | None = None
    """Resource at which the trial is complete; ``stop`` below it means: pause there."""
    save: bool = False
    """Whether a checkpoint is wanted at ``stop``."""
    save_every: int | None = None
    """Interval in units of resource at which checkpoints are wanted before ``stop``."""
    more: int = 0
    """How many trials read from it besides those; not sent to workers."""


class Lane(msgspec.Struct, frozen=True):
    """One replica: a batch of stages, and the checkpoint from which the first one starts."""

    stages: tuple[Stage, ...]
    load: CheckpointRef | None = None
    """None: train from the beginning."""


class Work(msgspec.Struct, frozen=True):
    """What one lease licenses."""

    lease: Lease
    lanes: tuple[Lane, ...]

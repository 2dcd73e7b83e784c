"""The settings of a study that the engine needs besides its searcher and scheduler."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from asyncsearch.arguments import text_of, written
from asyncsearch.errors import UsageError
from asyncsearch.ids import NodeKey
from asyncsearch.plan.keys import root_key, shared_root
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.space import Space
from asyncsearch.stop_rules import StopRule

MODES = ("min", "max")
RANKS = ("last", "best")
MAX_SHARED_POINTS = 10_000
"""In a larger space without sequences two trials are hardly ever equal, and all that is known would fill the driver."""
_LOOK_AHEAD = 10_000


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a study that decisions depend on; they never change during its life."""

    study: str
    metric: str
    mode: str = "max"
    rank_by: str = "last"
    """Whether trials are ranked by their last value of the metric, or by their best: ``"last"`` or ``"best"``."""
    seed: int = 0
    version: str = ""
    """The user's name for the version of code and data; part of every key."""
    max_failures: int = 0
    """How many failed attempts of a trial are retried."""
    max_losses: int = 3
    """How many attempts in a row may be lost without progress, with worker or process, before the trial is blamed."""
    ends_on_failures: bool = True
    """Whether trials that all fail end the run, and fail it as a whole. False where the trainable's library decides."""
    max_relaunches: int = 5
    """How many times in a row a worker may be lost without having finished any training or stored a checkpoint."""
    keep_checkpoints: int = 1
    """How many of the best finished trials keep their checkpoints; unfinished trials always keep theirs."""
    keep_paused: bool = True
    """Whether trials that a run leaves paused keep their checkpoints for a later run with more trials."""
    quota_bytes: int | None = None
    """Bytes beyond which trials give up checkpoints: paused ones that will not go on in this run, then finished ones,
    the worst first, never the best. None means no limit."""
    save_every: int | None = None
    """Interval in units of resource at which running trials are saved. None saves them only when they pause or end."""

    save_at_rungs: bool = False
    """Whether trials save at each rung, also where they go on, and at their ends, also where it is not kept."""

    share: bool = True
    """Whether trials share equal training. False lets each train alone, for comparisons."""
    can_evaluate: bool = False
    """Whether the trainable can evaluate a checkpoint without training; else the last earlier report counts."""
    can_save: bool = False
    """Whether training can be saved at the end of any unit, as far as the trainable shows."""
    look_ahead: int = 0
    """How many trials may wait before workers are free for them, so that the plan knows where their paths split."""

    shared_as: str = ""
    """Name under which studies of one version share their training. Empty if this study shares with no other."""
    pack_by: tuple[str, ...] | None = None
    """Names of the hyper-parameters that tell which trials are alike. None means all but floats and sequences."""
    defaults: dict[str, Any] = {}
    """Values of parameters that the space lacks and the spaces of other studies may have; part of every key."""
    stop_when: StopRule | None = None
    """Ends a run, when it holds for the study."""
    stop_trial_when: StopRule | None = None
    """Stops a trial, when it holds for that."""

    @property
    def root(self) -> NodeKey:
        """Key of everything that all trials share: the parent of each trial's first node."""
        if self.shared_as:
            return shared_root(self.shared_as, self.seed, self.version)
        return root_key(self.study, self.seed, self.version)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            given: object = self.mode
            if isinstance(given, list | tuple):
                raise UsageError(
                    f"mode={self.mode!r}: a study has one objective, so one metric and one mode. Write metric='loss', "
                    "mode='min', and report the other numbers beside it, trial.report(loss=..., size=...)."
                )
            word = str(self.mode).lower()
            near = next((mode for mode in MODES if word.startswith(mode)), None)
            answer = f"mode={near!r}" if near else "mode='min' or mode='max'"
            raise UsageError(f"mode={self.mode!r} is not a direction: write {answer}.")
        if self.rank_by not in RANKS:
            raise UsageError(
                f"rank_by={self.rank_by!r} is unknown: write rank_by='last', by the last value of each trial, "
                "or rank_by='best', by its best one."
            )
        if not _is_name(self.metric):
            raise UsageError(f"metric={self.metric!r} must be the name under which trials report it, e.g. 'accuracy'.")
        text_of("metric", self.metric)
        if not _is_count(self.seed) or self.seed >= 2**63:
            raise UsageError(f"seed={written(self.seed)} must be an integer from 0 to 2**63 - 1.")
        for name in ("max_failures", "max_losses", "max_relaunches", "keep_checkpoints", "look_ahead"):
            if not _is_count(getattr(self, name)):
                raise UsageError(f"{name}={written(getattr(self, name))} must be an integer, 0 or more.")
        if self.save_every is not None and not (_is_count(self.save_every) and self.save_every > 0):
            raise UsageError(
                f"save_every={written(self.save_every)} must be a positive number of units of resource, or None."
            )
        if self.quota_bytes is not None and not (_is_count(self.quota_bytes) and self.quota_bytes > 0):
            raise UsageError(f"quota_bytes={written(self.quota_bytes)} must be a positive number of bytes, or None.")


def search_config(space: Space, scheduler: Scheduler, *, share: bool | None, **settings: Any) -> EngineConfig:
    """Return the configuration of a search, real or simulated, completed from its space and scheduler.

    Args:
        space: of the search.
        scheduler: of the search.
        share: whether trials share equal training. None shares where two trials may have something in common.
        settings: the other fields.
    """
    share = can_share(space) or scheduler.branches if share is None else share
    return EngineConfig(share=share, look_ahead=_look_ahead(space, scheduler, share=share), **settings)


def can_share(space: Space) -> bool:
    """Return whether two trials of a space may ever have something in common: sequences, or few enough values."""
    sizes = [domain.size for domain in space.parameters.values() if domain.size is not None]
    is_small = len(sizes) == len(space.parameters) and math.prod(sizes) <= MAX_SHARED_POINTS
    return space.has_sequences or is_small


def _look_ahead(space: Space, scheduler: Scheduler, *, share: bool) -> int:
    """Return how many trials may wait, so that the plan knows where their sequences split before training passes there.

    Under a scheduler that branches, a trial's training depends on results, so proposals are drawn when they are due.
    """
    return _LOOK_AHEAD if share and space.has_sequences and not scheduler.branches else 0


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63

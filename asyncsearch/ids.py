"""Typed ids and keys; every string form is built and parsed only here.

Ids are small integers inside the engine (a study may hold 10^6 of them) and become names at the edges:
trial 7 is ``trial-7``, worker 2 is ``worker-2``. A node key is the hex digest of everything that determines a
checkpoint (see ``asyncsearch.plan.keys``).
"""

from __future__ import annotations

import re
from typing import NamedTuple, NewType

import msgspec

from asyncsearch.errors import UsageError

TrialId = NewType("TrialId", int)
"""Number of a trial in its study, from 0 in the order of creation."""

WorkerId = NewType("WorkerId", int)
"""Number of a worker slot of the cluster, from 0; it outlives the processes that fill the slot."""

NodeKey = NewType("NodeKey", str)
"""Key of a node of the search plan: 32 hexadecimal digits."""


class Lease(msgspec.Struct, frozen=True):
    """The only permission to report or commit: for this work, on this worker, in this launch of the worker."""

    number: int
    """Number of the work, unique in the study, from 0."""
    worker: WorkerId
    epoch: int
    """How many times the worker slot had been launched when the lease was given, from 1."""

    def __str__(self) -> str:
        return f"work-{self.number}@{worker_name(self.worker)}.{self.epoch}"


class CheckpointRef(msgspec.Struct, frozen=True):
    """The position of a checkpoint in the plan: a node, and the resource at which it was saved."""

    node: NodeKey
    resource: int

    def __str__(self) -> str:
        return f"{self.node}@{self.resource}"


class PathStep(NamedTuple):
    """One node on the path of a configuration."""

    start: int
    """Resource at which the node begins, from 0."""
    node: NodeKey


def trial_name(trial: TrialId) -> str:
    """Return the displayed name, ``trial-7``."""
    return f"trial-{trial}"


def worker_name(worker: WorkerId) -> str:
    """Return the displayed name, ``worker-2``."""
    return f"worker-{worker}"


def parse_trial(text: str) -> TrialId:
    """Parse a trial id from ``trial-7`` or ``7``.

    Raises:
        UsageError: the text is neither.
    """
    match = re.fullmatch(r"(?:trial-)?(\d+)", text.strip())
    if match is None:
        raise UsageError(
            f"{text!r} is not a trial: write it as 'trial-7' or '7'. The best one is study.best_trial; in a shell, see "
            "which one has the * in asyncsearch show."
        )
    return TrialId(int(match.group(1)))

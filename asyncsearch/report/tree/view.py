"""The stage tree as a value: nodes, the intervals of each, and the trials that train through them."""

from __future__ import annotations

import enum

import msgspec

from asyncsearch.ids import NodeKey, PathStep, TrialId
from asyncsearch.trial import Params, TrialState

NAMED = 6
"""So many of the trials of an interval are known by name; the others are counted."""


class Kind(enum.Enum):
    """What became of an interval."""

    TRAINED = "trained, for one trial"
    SHARED = "trained once, for several trials"
    ELSEWHERE = "trained by another study"
    RUNNING = "running"
    WAITING = "waiting"


class TrialPath(msgspec.Struct):
    """A trial on its way through the tree."""

    trial: TrialId
    params: Params
    path: tuple[PathStep, ...]
    end: int
    """Resource that it wants to reach; once it is finished, what it has reached."""
    state: TrialState = TrialState.WAITING
    reached: int = 0
    value: float | None = None
    """The last finite value of the metric up to where it stands."""


class Interval(msgspec.Struct, frozen=True):
    """Part of a node in which nothing changes: who reads it, and what became of it."""

    start: int
    stop: int
    kind: Kind
    count: int
    """How many trials read it."""
    named: tuple[TrialId, ...]
    """The first ``NAMED`` of them."""


class TreeNode(msgspec.Struct):
    """A node of the plan: an interval in which no hyper-parameter changes its formula."""

    start: int
    params: Params
    """Of the first trial that came."""
    parent: NodeKey | None
    children: list[NodeKey] = []
    done: int = 0
    """Resource up to which it has been trained, by whomever."""
    elsewhere: list[tuple[int, int]] = []
    """The parts of that which only other studies have trained, ascending."""
    values: list[tuple[int, float]] = []
    ends: list[TrialPath] = []
    """The trials that end in it."""
    left: list[tuple[int, TrialId]] = []
    """Where trials left it, to go on with the weights of others."""
    intervals: list[Interval] = []
    """From its start to its end, without gaps."""


class TreeView(msgspec.Struct, frozen=True):
    """All nodes, and what all of it adds up to."""

    nodes: dict[NodeKey, TreeNode]
    """A parent stands before its children."""
    roots: list[NodeKey]
    ways: list[TrialPath]
    asked: int
    """Units that the trials would train, had each trained alone."""
    trained: int
    """Units that were trained here, repetitions after losses included."""
    elsewhere: int
    """Units that were not, since another study had trained them."""
    served: int
    """Units that trials have behind them, all trials added up."""
    horizon: int
    """Where the tree ends, from 1."""

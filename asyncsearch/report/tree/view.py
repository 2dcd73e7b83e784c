"""The stage tree as a value: nodes, the intervals of each, and the trials that train through them."""

from __future__ import annotations

import enum

import msgspec

from asyncsearch.ids import NodeKey, PathStep, TrialId
from asyncsearch.trial import Params, TrialState

MOST_NAMED = 6
"""How many trials of an interval are named; the others are counted."""


class Kind(enum.Enum):
    """The trainer of an interval, past or future."""

    TRAINED = "trained, for one trial"
    SHARED = "trained once, for several trials"
    ELSEWHERE = "trained by another study"
    RUNNING = "running"
    WAITING = "waiting"
    CONTINUED = "to be continued"
    """Left to train, and no run does it now."""


class TrialPath(msgspec.Struct):
    """A trial, and the nodes that it trains through."""

    trial: TrialId
    params: Params
    steps: tuple[PathStep, ...]
    end: int
    """Its target; once it is finished, the resource that it has reached."""
    state: TrialState = TrialState.WAITING
    words: str = ""
    """Its state as people read it."""
    may_go_on: bool = True
    """Whether it may train further, as people read it: a search that is over promotes no paused trial."""
    reached: int = 0
    value: float | None = None
    """The last finite value of the metric at or before ``reached``."""


class Interval(msgspec.Struct, frozen=True):
    """A part of a node with the same readers and the same kind throughout."""

    start: int
    stop: int
    kind: Kind
    count: int
    """How many trials read it."""
    named: tuple[TrialId, ...]
    """The first ``MOST_NAMED`` of them."""


class TreeNode(msgspec.Struct):
    """A node of the plan: an interval in which no hyper-parameter changes its formula."""

    start: int
    params: Params
    """Of the first trial in it."""
    parent: NodeKey | None
    children: list[NodeKey] = []
    done: int = 0
    """Resource up to which it has been trained, here or by another study."""
    elsewhere: list[tuple[int, int]] = []
    """The trained parts that only other studies have trained, ascending."""
    values: list[tuple[int, float]] = []
    ends: list[TrialPath] = []
    """The trials that end in it."""
    branched: list[tuple[int, TrialId]] = []
    """Resource and id of the trials that left it and continued with the weights of others."""
    intervals: list[Interval] = []
    """From its start to its end, without gaps."""


class TreeView(msgspec.Struct, frozen=True):
    """All nodes, and sums over them."""

    nodes: dict[NodeKey, TreeNode]
    """A parent comes before its children."""
    roots: list[NodeKey]
    paths: list[TrialPath]
    requested: int
    """Units that the trials would train, had each trained alone."""
    trained: int
    """Units that were trained here, repetitions after losses included."""
    elsewhere: int
    """Units that other studies trained instead."""
    served: int
    """Units that the trials have reached, added up over all trials."""
    horizon: int
    """The resource where the tree ends, at least 1."""

    @property
    def is_shared(self) -> bool:
        """Whether a trial trains on from what another one has trained, here or in another study."""
        kinds = [(interval.count, interval.kind) for node in self.nodes.values() for interval in node.intervals]
        return any(count > 1 or kind is Kind.ELSEWHERE for count, kind in kinds)

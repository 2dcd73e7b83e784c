"""Hippo's Algorithm 1 without its traps: the stage tree, generated afresh from all that the plan knows.

This is what ``plan.stage_tree`` must always be equal to, written to be read; it takes time in the size of the plan.
Source: Hippo (PVLDB 15(5), 2022), Algorithm 1. What is printed there was mended in six places: (a) a root's own
checkpoints are looked for too; (b) "it runs" and "from the beginning" are two answers; (c) a checkpoint answers before
a running worker does, and what runs is an interval of a node, not a node; (d) the targets of a node are a chain, each
stage begins where the one before ends; (e) nothing is scanned step by step; (f) what is durable has no stage, but for
one of no units where somebody asks for its metric and nobody reported it: it is evaluated, and not trained.
"""

from __future__ import annotations

import enum
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

import msgspec

from asyncsearch.ids import CheckpointRef, NodeKey, TrialId
from asyncsearch.plan.nodes import FIRST, HELD_WORTH
from asyncsearch.trial import UNBOUNDED


class Source(enum.Enum):
    """Where a stage begins."""

    FRESH = "fresh"
    """At the beginning of training."""
    SAVED = "saved"
    """At a durable checkpoint."""
    RUNNING = "running"
    """Where a worker will save, or may be told to: it waits for that."""
    STAGE = "stage"
    """At the end of another pending stage."""


class PendingStage(msgspec.Struct, frozen=True):
    """An interval of a node that is to be trained, and its place in the stage tree; lengths are costs.

    One of no units, start == stop, is an evaluation, whose height and total are those of what comes first.
    """

    node: NodeKey
    start: int
    stop: int
    source: Source
    load: CheckpointRef | None
    """Where it begins. None means at the beginning of training."""
    height: int
    """The longest way from its start to a leaf of the tree."""
    total: int
    """It and all stages that follow it."""
    trial: TrialId
    """The first of the trials that wait for it."""
    is_urgent: bool

    @property
    def is_ready(self) -> bool:
        """Whether it can be begun now."""
        return self.source in (Source.FRESH, Source.SAVED)

    @property
    def rank(self) -> tuple[bool, int, int, TrialId]:
        """What comes first among stages that could be chosen is smallest."""
        return (not self.is_urgent, -self.height, self.total, self.trial)


class NodeFacts(NamedTuple):
    """A node: its parent (None for a root), where it begins, and the cost of a unit."""

    parent: NodeKey | None
    start: int
    cost: int


class SpanFacts(NamedTuple):
    """What a lease trains of one node: units ``position`` to ``stop`` are still to come."""

    lease: int
    node: NodeKey
    position: int
    stop: int


class RequestFacts(NamedTuple):
    """What a trial asks for."""

    node: NodeKey
    target: int
    is_urgent: bool


class Facts(NamedTuple):
    """All that a stage tree follows from."""

    nodes: dict[NodeKey, NodeFacts]
    """Parents before their children."""
    saved: dict[NodeKey, list[int]]
    """Resources with durable checkpoints, in order."""
    running: list[SpanFacts]
    requests: dict[TrialId, RequestFacts]
    blocked: frozenset[NodeKey] = frozenset()
    """Nodes that somebody else trains: all in them that is not durable counts as running."""
    unmeasured: frozenset[CheckpointRef] = frozenset()
    """Durable checkpoints at which nobody reported the metric, or is on the way to report it."""


Position = tuple[NodeKey, int]


def generate(facts: Facts) -> dict[Position, PendingStage]:
    """Return all pending stages by their ends."""
    begins = _resolve(facts)
    waiting: defaultdict[Position, list[RequestFacts]] = defaultdict(list)
    first: dict[Position, TrialId] = {}
    for trial, request in sorted(facts.requests.items()):
        end = (request.node, request.target)
        waiting[end].append(request)
        first.setdefault(end, trial)
    following: defaultdict[Position, list[PendingStage]] = defaultdict(list)
    stages: dict[Position, PendingStage] = {}
    for end, (source, begin) in begins.items():
        node, stop = end
        start = 0 if begin is None else begin[1]
        length = (1 if stop == UNBOUNDED else stop - start) * facts.nodes[node].cost
        after = following[end]
        stages[end] = PendingStage(
            node=node,
            start=start,
            stop=stop,
            source=source,
            load=None if begin is None else CheckpointRef(*begin),
            height=length + max((stage.height for stage in after), default=0),
            total=length + sum(stage.total for stage in after),
            trial=min([stage.trial for stage in after] + ([first[end]] if end in first else [])),
            is_urgent=any(request.is_urgent for request in waiting[end]) or any(stage.is_urgent for stage in after),
        )
        if begin is not None:
            following[begin].append(stages[end])
    for ref in facts.unmeasured:
        end = (ref.node, ref.resource)
        if end in first and ref.node not in facts.blocked:
            stages[end] = PendingStage(
                node=ref.node,
                start=ref.resource,
                stop=ref.resource,
                source=Source.SAVED,
                load=ref,
                height=FIRST,
                total=FIRST,
                trial=first[end],
                is_urgent=any(request.is_urgent for request in waiting[end]),
            )
    return stages


def _resolve(facts: Facts) -> dict[Position, tuple[Source, Position | None]]:
    """Return the end of each stage with its source and its beginning; what follows a stage comes before it."""
    needed: defaultdict[NodeKey, set[int]] = defaultdict(set)
    for request in facts.requests.values():
        needed[request.node].add(request.target)
    spans: defaultdict[NodeKey, list[SpanFacts]] = defaultdict(list)
    for span in facts.running:
        spans[span.node].append(span)
    begins: dict[Position, tuple[Source, Position | None]] = {}
    # Children first, so that a node knows all that its children need of it before its own turn.
    for key, node in reversed(facts.nodes.items()):
        saved = set(facts.saved.get(key, ()))
        pending = [
            target
            for target in sorted(needed[key])
            if target not in saved
            and key not in facts.blocked
            and not any(span.position < target <= span.stop for span in spans[key])
        ]
        known = sorted({*saved, *needed[key], *(span.stop for span in spans[key])})
        for target in reversed(pending):
            index = bisect_left(known, target)
            if index:
                begin = (key, known[index - 1])
            elif node.parent is not None:
                begin = (node.parent, node.start)
                needed[node.parent].add(node.start)
            else:
                begins[key, target] = (Source.FRESH, None)
                continue
            begins[key, target] = (_source(facts, spans[begin[0]], begin), begin)
    return begins


def _source(facts: Facts, spans: list[SpanFacts], begin: Position) -> Source:
    node, resource = begin
    if resource in facts.saved.get(node, []):
        return Source.SAVED
    if node in facts.blocked or any(span.position < resource <= span.stop for span in spans):
        return Source.RUNNING
    return Source.STAGE


def choose(stages: dict[Position, PendingStage], held: Collection[CheckpointRef] = ()) -> list[PendingStage]:
    """Return the batch to begin with: a path of stages, none if nothing is ready."""
    following: defaultdict[Position | None, list[PendingStage]] = defaultdict(list)
    for stage in stages.values():
        following[None if stage.load is None else (stage.load.node, stage.load.resource)].append(stage)

    batch: list[PendingStage] = []
    ready = [stage for stage in stages.values() if stage.is_ready]
    urgent = [stage for stage in ready if stage.is_urgent] or ready
    longest = max((stage.height for stage in urgent), default=0)

    def rank(stage: PendingStage) -> tuple[bool, bool, int, int, TrialId]:
        is_held = stage.load is not None and stage.load in held and stage.height * HELD_WORTH >= longest
        return (not stage.is_urgent, not is_held, *stage.rank[1:])

    while ready:
        batch.append(min(ready, key=rank if not batch else lambda stage: stage.rank))
        ready = [] if batch[-1].start == batch[-1].stop else following[batch[-1].node, batch[-1].stop]
    return batch

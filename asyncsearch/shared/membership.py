"""A driver's part in a shared folder: its leases in claimed nodes, the facts on their paths, and reports to publish.

Rule: always read children before their parents, so that the facts of a path have no gap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from asyncsearch.engine.attempts import Attempt
from asyncsearch.events import Reported
from asyncsearch.ids import CheckpointRef, NodeKey, PathStep
from asyncsearch.shared.folder import NodeFacts, SharedFolder
from asyncsearch.trial import Metrics


class FolderAnswer(NamedTuple):
    """The facts of nodes, and the drivers that train in them."""

    busy: dict[NodeKey, str]
    """The nodes in which other drivers train, each with its driver in words."""
    facts: list[tuple[NodeKey, NodeFacts]]
    """Parents before their children."""


class FolderMembership:
    """A study's membership of a shared folder: which of its leases train in the claimed nodes. One thread calls it.

    Args:
        folder: the shared folder.
        study: the unique name of the study there: the URL of its own store, without a password.
    """

    def __init__(self, folder: SharedFolder, study: str) -> None:
        self._folder, self._study = folder, study
        self.lease_s = folder.lease_s
        self.close = folder.close
        self.store = folder.store
        """Where the checkpoints are."""
        self._users: dict[NodeKey, set[int]] = {}
        """The attempts that train in each claimed node."""
        self._forbidden: set[tuple[int, NodeKey]] = set()
        """Attempts that lost a node to another driver while they trained in it."""
        self._packed: set[int] = set()
        """Attempts that train in packs, or go on with weights that were trained in packs."""

    def claim(
        self,
        wanted: Mapping[int, list[NodeKey]],
        paths: set[tuple[PathStep, ...]],
        needed: frozenset[CheckpointRef] | None,
        packed: Collection[int] = (),
        loads: Mapping[int, CheckpointRef] = MappingProxyType({}),
    ) -> FolderAnswer:
        """Claim the nodes of attempts; return the holders of refused nodes, and the facts of all nodes on the paths.

        Args:
            wanted: the nodes in which each attempt trains.
            paths: of the trials that it trains for.
            needed: the checkpoints that the study needs. None if they are those of the last hold.
            packed: the attempts that train together with others.
            loads: the checkpoints from which attempts continue.
        """
        nodes = [node for train_in in wanted.values() for node in train_in]
        claims = self._folder.claim(nodes, self._study)
        busy = {node: who for node, who in claims.items() if who is not None}
        for attempt, train_in in wanted.items():
            for node in train_in:
                if node not in busy:
                    self._users.setdefault(node, set()).add(attempt)
        for attempt in {*packed, *(one for one, load in loads.items() if self._folder.is_packed(load))}:
            self._packed.add(attempt)
            for node in wanted[attempt]:
                if node not in busy:
                    self._folder.begin_packed(node)
        if needed is not None:
            self.hold(needed)
        return FolderAnswer(busy, self._read_on(nodes, paths))

    def look(self, nodes: tuple[NodeKey, ...]) -> FolderAnswer:
        """Return the nodes that others train, and the facts of all nodes."""
        busy = {node: who for node in nodes if (who := self._folder.holder(node)) is not None}
        return FolderAnswer(busy, self._read(nodes))

    def publish(self, publication: Publication) -> None:
        if (publication.attempt, publication.node) not in self._forbidden:
            publish = self._folder.publish_packed if publication.attempt in self._packed else self._folder.publish
            publish(publication.node, publication.reports, publication.ended)

    def hold(self, references: frozenset[CheckpointRef]) -> None:
        self._folder.hold(self._study, references, self._study)

    def renew(self) -> None:
        for node in self._folder.renew():
            self._forbidden |= {(attempt, node) for attempt in self._users.pop(node, ())}

    def release(self, attempt: int, nodes: set[NodeKey]) -> None:
        for node in nodes:
            self._users.get(node, set()).discard(attempt)
        free = [node for node in nodes if node in self._users and not self._users[node]]
        self._folder.release(free)
        for node in free:  # not before: a release that fails is repeated
            del self._users[node]

    def _read(self, nodes: Iterable[NodeKey]) -> list[tuple[NodeKey, NodeFacts]]:
        """Read ordered nodes, the last first: facts of a node are published after those of its parent."""
        return [(node, self._folder.read(node)) for node in reversed(list(nodes))][::-1]

    def _read_on(self, nodes: list[NodeKey], paths: set[tuple[PathStep, ...]]) -> list[tuple[NodeKey, NodeFacts]]:
        """Read nodes with their ancestors and descendants on the paths, up to where any study has trained."""
        found: dict[NodeKey, NodeFacts] = {}
        levels: list[list[NodeKey]] = []
        open_paths = dict.fromkeys(sorted(paths), 0)
        while open_paths:
            depth = len(levels)
            ahead = [(steps, steps[depth]) for steps, reach in open_paths.items() if len(steps) > depth]
            ahead = [(steps, step) for steps, step in ahead if step.start <= open_paths[steps] or step.node in nodes]
            read = self._folder.read_many(step.node for _, step in ahead)
            open_paths = {steps: _reach(read[step.node]) for steps, step in ahead}
            levels.append([node for node, facts in read.items() if facts != NodeFacts()])
            found |= read
        if sum(map(len, levels)) > 1:
            for known in reversed(levels):
                found |= self._folder.read_many(known)
        return list(found.items())


def _reach(facts: NodeFacts) -> int:
    """Return the resource up to which any study has trained a node."""
    return max((*facts.checkpoints, *(at for at, _ in facts.reports[-1:])), default=0)


class Publication(NamedTuple):
    """Reports of one node in one attempt, to be published."""

    attempt: int
    node: NodeKey
    reports: tuple[tuple[int, Metrics], ...]
    ended: int | None


class UnpublishedReports:
    """The reports of one attempt that are not yet published."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._last = -1
        self._reports: defaultdict[NodeKey, list[tuple[int, Metrics]]] = defaultdict(list)

    def report(self, event: Reported) -> None:
        if event.resource > self._last:
            self._last = event.resource
            self._reports[self._attempt.node_at(event.resource)].append((event.resource, event.metrics))

    def reach(self, checkpoint: CheckpointRef) -> None:
        """Record that training reached a checkpoint, if nothing was reported there."""
        if checkpoint.resource > self._last:
            self._last = checkpoint.resource
            self._reports[checkpoint.node].append((checkpoint.resource, {}))

    def taken(self, ended: CheckpointRef | None = None) -> list[Publication]:
        """Return all reports, and forget them."""
        reports, self._reports = self._reports, defaultdict(list)
        if ended is not None:
            reports[ended.node] += []
        return [
            Publication(
                self._attempt.number,
                node,
                tuple(found),
                ended.resource if ended is not None and ended.node == node else None,
            )
            for node, found in reports.items()
        ]

"""The reports of each node, for all studies that share a folder.

    facts/<node>/000012-3f0c9a1b2c3d4e5f.json     12 reports; the name is a hash of the content
    packed/<node>/...                             those of training in packs, which agree only within a tolerance
    packed/<node>/begun, packed/begun             a study trains the node, or any node, in packs, or has done so

A file never changes. A publisher writes the union of its own reports and the existing ones as a new file, and then
removes the files that it has merged. Therefore concurrent writers lose nothing, a repetition changes nothing, and a
reader that knows a file's name need not read it again.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgspec

from asyncsearch.errors import UsageError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.shared.files import SharedFiles, Written
from asyncsearch.store.layout import node_folder
from asyncsearch.trial import Metrics
from asyncsearch.values import spell

_CACHED = 20_000
_BEGUN = "begun"


class NodeFacts(msgspec.Struct, frozen=True):
    """The published facts of a node."""

    reports: tuple[tuple[int, Metrics], ...] = ()
    """Resource -> metrics, ascending."""
    ended: int | None = None
    """Resource at which the trainable ended by itself in this node. None if no end was published."""
    checkpoints: tuple[int, ...] = ()
    """Resources of the committed checkpoints that are not being deleted, ascending."""
    packed: tuple[int, ...] = ()
    """Resources of those reports and checkpoints that were trained in packs, ascending."""


class Facts(Written, frozen=True, kw_only=True):
    """The content of one file."""

    node: NodeKey
    reports: tuple[tuple[int, Metrics], ...]
    ended: int | None
    published_s: float
    """Unix time by the writer's clock; if two files disagree, the older one counts."""

    @property
    def name(self) -> str:
        """The name of the file."""
        content = msgspec.json.encode([self.reports, self.ended], order="sorted")
        digest = hashlib.blake2b(content, digest_size=8).hexdigest()
        return f"{len(self.reports):06d}-{digest}.json"


_FACTS = msgspec.json.Decoder(Facts)


class FactsFolder:
    """Reports of nodes in a shared folder. Safe from any thread.

    Args:
        files: the shared folder.
        folder: where in it.
    """

    def __init__(self, files: SharedFiles, folder: str = "facts") -> None:
        self._files, self._name = files, folder
        self._known: dict[str, Facts] = {}
        self._guard = threading.Lock()

    def publish(self, node: NodeKey, reports: Sequence[tuple[int, Metrics]], ended: int | None) -> Facts:
        """Make reports durable, and return all facts of the node."""
        _check(node, reports, ended)
        plain = tuple((resource, _plain(metrics)) for resource, metrics in reports)
        new = Facts(node=node, reports=plain, ended=ended, published_s=time.time())
        found = self._load(node)
        merged = self._merge(node, [*found, new])
        names = [facts.name for facts in found]
        folder = self._folder(node)
        if merged.name not in names:
            if not merged.reports and merged.ended is None:
                return merged
            self._files.write(f"{folder}/{merged.name}", merged)
        for name in names:
            if name != merged.name:
                self._files.store.remove(f"{folder}/{name}")
        return merged

    def begin(self, node: NodeKey) -> None:
        """Mark a node as one that has facts here, or will have them, and the folder as one that has such nodes."""
        for name in (f"{self._name}/{_BEGUN}", f"{self._folder(node)}/{_BEGUN}"):
            self._files.store.create(name, b"")

    def begun(self, nodes: Iterable[NodeKey]) -> list[NodeKey]:
        """Return the nodes that are marked, of some; one small file is read where no node ever was."""
        store = self._files.store
        if self._files.content(f"{self._name}/{_BEGUN}") is None:
            return []
        return [node for node in nodes if _BEGUN in store.list(self._folder(node))]

    def read(self, node: NodeKey) -> Facts:
        """Return all facts of a node."""
        return self._merge(node, self._load(node))

    def _load(self, node: NodeKey) -> list[Facts]:
        """Return the content of all files of a node, the oldest first."""
        folder = self._folder(node)
        while True:
            names = [f"{folder}/{name}" for name in self._files.store.list(folder) if name.endswith(".json")]
            found = [self._read(name) for name in names]
            facts = [one for one in found if one is not None]
            # A vanished file was merged into a newer one, which a second listing shows.
            lacking = [name for name, one in zip(names, found, strict=True) if one is None]
            if not any(self._files.content(name) is None for name in lacking):
                return sorted(facts, key=lambda one: (one.published_s, one.name))

    def _read(self, name: str) -> Facts | None:
        with self._guard:
            known = self._known.get(name)
        if known is None:
            known = self._files.read(name, _FACTS)
            if known is not None and not _belongs(known, name):
                self._files.warn_once(
                    name, f"{name!r} in {self._files.store.shown!r} is not what was written there: it counts as absent."
                )
                known = None
            if known is not None:
                with self._guard:
                    if len(self._known) >= _CACHED:
                        self._known.clear()
                    self._known[name] = known
        return known

    def _merge(self, node: NodeKey, parts: Sequence[Facts]) -> Facts:
        """Merge several files of one node; if they disagree, the first one counts."""
        if len(parts) == 1:
            return parts[0]
        reports: dict[int, Metrics] = {}
        ended: int | None = None
        for part in parts:
            for resource, metrics in part.reports:
                first = reports.setdefault(resource, metrics)
                if not first or not metrics:
                    reports[resource] = first or metrics  # a node reached without a report was evaluated later
                elif first != metrics:
                    self._warn(node, f"at {resource} {first} and {metrics}")
            if ended is None:
                ended = part.ended
            elif part.ended is not None and part.ended != ended:
                self._warn(node, f"its end at {ended} and at {part.ended}")
        return Facts(
            node=node,
            reports=tuple(sorted(reports.items())),
            ended=ended,
            published_s=parts[0].published_s if parts else 0.0,
        )

    def _folder(self, node: NodeKey) -> str:
        return node_folder(CheckpointRef(node, 0)).replace("checkpoints", self._name, 1)

    def _warn(self, node: NodeKey, what: str) -> None:
        self._files.warn_once(
            f"{self._name}/{node}",
            f"Two studies that share {self._files.store.shown!r} report differently of node {node}: {what}; the older"
            " counts. Training differs from machine to machine, or code or data changed: then name a new version=...",
        )


def _belongs(facts: Facts, name: str) -> bool:
    """Return whether facts are those of the node and the content that the name of their file says."""
    _, node, file = name.split("/")
    return (facts.node, facts.name) == (node, file)


def _check(node: NodeKey, reports: Sequence[tuple[int, Metrics]], ended: int | None) -> None:
    resources = [resource for resource, _ in reports]
    if any(later <= earlier for earlier, later in pairwise([-1, *resources])):
        raise UsageError(
            f"Reports of node {node} cannot be published: their resources are {resources}, and must ascend strictly"
            " from 0 or more. Publish each resource once, in order."
        )
    if ended is not None and ended < 0:
        raise UsageError(
            f"Node {node} cannot have ended at {ended}: a resource is not negative. Pass None if it did not."
        )


def _plain(metrics: Metrics) -> Metrics:
    """Return metrics as a reader will decode them: a file's name is a hash of its content."""
    return {name: spell(float(value)) if not isinstance(value, str) else value for name, value in metrics.items()}

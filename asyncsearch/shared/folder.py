"""A folder that several studies share: each node is trained once, by the study that claims it first.

    shared.json                    description of the folder, for people and for ``asyncsearch clean``
    checkpoints/<node>/<resource>/ as in the store of a study
    facts/<node>/, packed/<node>/  reports, and those of packed training; see asyncsearch.shared.facts
    packs/<code>/                  how fast packs train; see asyncsearch.shared.pack_times
    drivers/, claims/<node>/       drivers, and the nodes that they train; see asyncsearch.shared.claims
    holds/, deleting/              checkpoints that are needed or being deleted; see asyncsearch.shared.holds

This module does not choose the nodes to train. A node's results exist or not, and one driver at a time may make them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from asyncsearch.errors import StoreError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.shared.claims import Claims
from asyncsearch.shared.facts import FactsFolder, NodeFacts
from asyncsearch.shared.files import SharedFiles, Survey, Written, survey
from asyncsearch.shared.holds import Holds, root_of
from asyncsearch.store.base_store import Store
from asyncsearch.store.layout import MANIFEST, node_folder, versions_of
from asyncsearch.store.manifest import packed_with_in
from asyncsearch.store.opening import foreign
from asyncsearch.trial import Metrics

__all__ = ["LEASE_S", "RETENTION_S", "SHARED_FILE", "NodeFacts", "SharedFolder", "open_shared"]

SHARED_FILE = "shared.json"
LEASE_S = 60.0
RETENTION_S = 7 * 86400.0
_FOLDER = "plan"
_THREADS = 16


class Marker(Written, frozen=True, kw_only=True):
    """The content of ``shared.json``."""

    about: str = "Trained nodes that studies share; see docs/sharing.md of asyncsearch. `asyncsearch clean` tidies it."


_MARKER = msgspec.json.Decoder(Marker)


class Stored(NamedTuple):
    """A committed checkpoint."""

    ref: CheckpointRef
    size_bytes: int
    """Total of all its versions."""
    used_s: float
    """Unix time of its last use: the end of its last hold, else its commit, else 0.0."""


class SharedFolder:
    """One study's access to a shared folder. Safe from any thread; it starts none.

    A study keeps the checkpoints that it needs by calling in this order: ``claim`` before it trains, ``hold`` before it
    relies on a checkpoint, ``hold`` and ``publish`` before ``release``.

    Args:
        store: The shared folder; apart from the files written here, only its checkpoints are used.
        lease_s: Seconds without ``renew`` after which others may take over our claims.
        retention_s: Seconds for which a study's hold counts after its last write, if the store of the study is gone;
            while that store exists, the hold always counts.
        takes_packed: Whether facts include training in packs, for a study that packs or tolerates it.
        roots: Folders and URLs that the user has named: only of studies whose stores lie below them, or below the
            parent of the shared folder, is asked whether they still exist.
    """

    def __init__(
        self,
        store: Store,
        *,
        lease_s: float = LEASE_S,
        retention_s: float = RETENTION_S,
        takes_packed: bool = False,
        roots: Sequence[str] = (),
    ) -> None:
        self.store = store
        self._takes_packed = takes_packed
        self.lease_s = lease_s
        self.files = SharedFiles(store)
        self._facts, self._packed = FactsFolder(self.files), FactsFolder(self.files, "packed")
        self.claims = claims = Claims(self.files, lease_s)
        self.claim, self.renew, self.release = claims.claim, claims.renew, claims.release
        self.take_over, self.holder, self.close = claims.take_over, claims.holder, claims.close
        self._holds = holds = Holds(self.files, claims, retention_s, (root_of(store.shown), *roots))
        self.hold, self.let_go, self.current_holds, self.needed = holds.hold, holds.let_go, holds.current, holds.needed
        self.delete, self.abandoned, self.finish_one = holds.delete, holds.abandoned, holds.finish_one

    def prepare(self) -> None:
        """Make the folder, and prove that it can be written and is a shared folder.

        Raises:
            StoreError: it cannot be written, was made by a newer version, or is the store of a study.
        """
        require_shareable(self.store)
        self.store.prepare()
        if self.files.read(SHARED_FILE, _MARKER) is None:
            self.files.write(SHARED_FILE, Marker())

    # Facts of nodes

    def publish(self, node: NodeKey, reports: Sequence[tuple[int, Metrics]], ended: int | None = None) -> NodeFacts:
        """Make reports of a node durable that was trained alone, and return all such facts of the node.

        They are merged with the existing reports. If both have a resource and disagree, the existing report counts,
        and a warning is logged once for each node.

        Args:
            node: Its key.
            reports: Resource and metrics, resources strictly ascending from 0 or more.
            ended: Resource at which the trainable ended by itself in this node. None if it did not.

        Raises:
            UsageError: the resources do not ascend.
        """
        merged = self._facts.publish(node, reports, ended)
        return NodeFacts(merged.reports, merged.ended, self._checkpoints(node, self._holds.marked()))

    def publish_packed(self, node: NodeKey, reports: Sequence[tuple[int, Metrics]], ended: int | None = None) -> None:
        """Make reports of a node durable that was trained in packs, or goes on with weights that were; see above."""
        self._packed.publish(node, reports, ended)

    def begin_packed(self, node: NodeKey) -> None:
        """Let others look from now on whether a checkpoint of this node was trained in packs; call it before any is."""
        self._packed.begin(node)

    def is_packed(self, checkpoint: CheckpointRef) -> bool:
        """Return whether a checkpoint was trained in packs."""
        return bool(self._packed.begun([checkpoint.node])) and self._is_packed(checkpoint)

    def read(self, node: NodeKey) -> NodeFacts:
        """Return the facts of a node; empty if there are none."""
        return self.read_many([node])[node]

    def read_many(self, nodes: Iterable[NodeKey]) -> dict[NodeKey, NodeFacts]:
        """Return the facts of nodes, with one or two listings for each and a read of each new file."""
        wanted = list(dict.fromkeys(nodes))
        marked = self._holds.marked()

        def read(node: NodeKey) -> NodeFacts:
            facts = self._facts.read(node)
            return NodeFacts(facts.reports, facts.ended, self._checkpoints(node, marked))

        if len(wanted) < 2 or not self.store.is_far:
            known = {node: read(node) for node in wanted}
        else:
            with ThreadPoolExecutor(min(_THREADS, len(wanted)), "asyncsearch-shared") as pool:
                known = dict(zip(wanted, pool.map(read, wanted), strict=True))
        # After the checkpoints: a node is marked before any of its checkpoints is trained in a pack.
        return known | {node: self._with_packed(node, known[node]) for node in self._packed.begun(known)}

    def _checkpoints(self, node: NodeKey, marked: Collection[CheckpointRef]) -> tuple[int, ...]:
        return tuple(ref.resource for ref in self.store.checkpoints(node) if ref not in marked)

    def _with_packed(self, node: NodeKey, facts: NodeFacts) -> NodeFacts:
        """Return facts with those of packs, if they are taken over, else without the checkpoints of packs."""
        packed = {at for at in facts.checkpoints if self._is_packed(CheckpointRef(node, at))}
        if not self._takes_packed:
            alone = tuple(at for at in facts.checkpoints if at not in packed)
            return msgspec.structs.replace(facts, checkpoints=alone)
        others = self._packed.read(node)
        taken = {at: metrics for at, metrics in others.reports if at not in dict(facts.reports)}
        return NodeFacts(
            tuple(sorted((taken | dict(facts.reports)).items())),
            others.ended if facts.ended is None else facts.ended,
            facts.checkpoints,
            tuple(sorted(packed | taken.keys())),
        )

    def _is_packed(self, checkpoint: CheckpointRef) -> bool:
        """Return whether the newest manifest that can be read names a pack."""
        folder = node_folder(checkpoint)
        versions = versions_of(checkpoint.resource, self.store.list(folder))
        manifests = (self.files.content(f"{folder}/{version}/{MANIFEST}") for version in reversed(versions))
        return packed_with_in(next(filter(None, manifests), None)) is not None

    # Holds

    def holds(self) -> frozenset[CheckpointRef]:
        """Return the checkpoints of all holds that count: recent holds, and holds of studies whose stores exist."""
        return frozenset(ref for hold in self.current_holds().holds.values() for ref in hold.references())

    # How much there is

    def stored(self) -> list[Stored]:
        """Return all committed checkpoints, in the order in which they would be evicted."""
        return in_order_of_use(survey(self.store), self._holds.last_uses())

    def usage(self) -> dict[CheckpointRef, int]:
        """Return the size of every committed checkpoint in bytes, including all its versions and its manifest."""
        return {one.ref: one.size_bytes for one in self.stored()}

    def evict(self, quota_bytes: int, keep: Collection[CheckpointRef] = ()) -> dict[CheckpointRef, int]:
        """Delete unneeded checkpoints until the total is within a quota, and return the deleted ones with their bytes.

        The least recently used one is deleted first; among equals the deepest, from which the fewest trials can
        continue. Checkpoints that are held or in ``keep`` count and stay, so the total may remain above the quota.
        """
        self.finish()
        stored = self.stored()
        total = sum(one.size_bytes for one in stored)
        current = self.current_holds()
        gone: dict[CheckpointRef, int] = {}
        for one in stored:
            if total <= quota_bytes:
                break
            if one.ref not in keep and not self.needed(one.ref, current) and self.delete(one.ref):
                gone[one.ref] = one.size_bytes
                total -= one.size_bytes
        return gone

    def finish(self) -> None:
        """Finish the deletions of drivers that died during them."""
        for ref, name in self.abandoned():
            self.finish_one(ref, name)
        for name in {name.split("/")[0] for name in self.store.walk("tmp")}:
            if name.startswith("removed-"):
                self.store.remove_tree(f"tmp/{name}")


def in_order_of_use(found: Survey, uses: Mapping[CheckpointRef, float]) -> list[Stored]:
    """Return committed checkpoints, the least recently used first; among equals the deepest."""
    stored = [
        Stored(ref, entry.size_bytes, max(entry.modified_s or 0.0, uses.get(ref, 0.0)))
        for ref, entry in found.committed.items()
    ]
    return sorted(stored, key=lambda one: (one.used_s, -one.ref.resource, one.ref.node))


def require_shareable(store: Store) -> None:
    """Check that a folder is one that studies share, or may become one; nothing is written.

    Raises:
        StoreError: it is the store of a study, or another program keeps checkpoints there, which a quota would remove.
    """
    if store.read("study.json") is not None:
        raise StoreError(
            f"{store.shown!r} is the store of a study and cannot be the folder that studies share. Name another one:"
            " Sharing(shared=...)."
        )
    if "checkpoints" in foreign(store.entries()) and store.read(SHARED_FILE) is None:
        raise StoreError(
            f"{store.shown!r} has a folder 'checkpoints' that is not of asyncsearch, whose files it might remove. Name"
            " another folder for what studies share: Sharing(shared=...)."
        )


def open_shared(store: Store, shared: str | Path | Literal[False] | None = None) -> Store | None:
    """Return the folder that a study shares, or None if it shares with nobody. Nothing is written.

    Args:
        store: The study's own store.
        shared: ``Sharing(shared=...)``: a folder or URL. None is ``plan`` beside the study's store, False no folder.

    Raises:
        StoreError: the study's store has no folder beside it (top of its file system), or is itself that folder.
    """
    from asyncsearch.store import open_store

    if shared is False:
        return None
    chosen = store.sibling(_FOLDER) if shared is None else open_store(shared)
    if chosen.shown == store.shown:
        raise StoreError(
            f"The study's store and the folder that it shares are both {store.shown!r}. Name another folder:"
            " Sharing(shared=...), or share with nobody: Sharing(shared=False)."
        )
    return chosen

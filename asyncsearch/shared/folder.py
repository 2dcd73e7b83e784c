"""A folder that several studies share: each node is trained once, by whichever study comes first.

    shared.json                    what this folder is, for people and for ``asyncsearch clean``
    checkpoints/<node>/<resource>/ as in the store of a study
    facts/<node>/                  what was reported; see asyncsearch.shared.facts
    drivers/, claims/<node>/       who trains what; see asyncsearch.shared.claims
    holds/, deleting/              what is needed, and what goes; see asyncsearch.shared.holds

Nothing here decides which nodes are trained. A node's results exist or not, and one driver at a time may make them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from asyncsearch.errors import StoreError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.shared.checkpoint_files import Survey, survey
from asyncsearch.shared.claims import Claims
from asyncsearch.shared.facts import Facts, FactsFolder, NodeFacts
from asyncsearch.shared.files import SharedFiles, Written
from asyncsearch.shared.holds import Holds
from asyncsearch.store.base_store import Store
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
    """All its versions."""
    used_s: float
    """Unix time at which it was last of use: until when it was held, else when it was committed, else 0.0."""


class SharedFolder:
    """One study's part in a shared folder. Safe from any thread; it starts none.

    The order in which a study does things keeps what it needs: ``claim`` before it trains, ``hold`` before it counts
    on a checkpoint, ``hold`` and ``publish`` before ``release``.

    Args:
        store: The shared folder; only its checkpoints are used besides what is written here.
        lease_s: After how many seconds without ``renew`` others may take our claims over.
        retention_s: For how many seconds a study's hold counts without being written again, if the store of the study
            is gone; while that is there, it counts for ever.
    """

    def __init__(self, store: Store, *, lease_s: float = LEASE_S, retention_s: float = RETENTION_S) -> None:
        self.store = store
        self.lease_s = lease_s
        self.files = SharedFiles(store)
        self._facts = FactsFolder(self.files)
        self.claims = claims = Claims(self.files, lease_s)
        self.claim, self.renew, self.release = claims.claim, claims.renew, claims.release
        self.take_over, self.holder, self.close = claims.take_over, claims.holder, claims.close
        self._holds = holds = Holds(self.files, claims, retention_s)
        self.hold, self.let_go, self.current_holds, self.needed = holds.hold, holds.let_go, holds.current, holds.needed
        self.delete, self.abandoned, self.finish_one = holds.delete, holds.abandoned, holds.finish_one

    def prepare(self) -> None:
        """Make the folder, and prove that it can be written and is one of ours.

        Raises:
            StoreError: it cannot be written, was made by a newer version, or is the store of a study.
        """
        if self.store.read("study.json") is not None:
            raise StoreError(
                f"{self.store.shown!r} is the store of a study and cannot be the folder that studies share. Name"
                " another one: Sharing(shared=...)."
            )
        self.store.prepare()
        if self.files.read(SHARED_FILE, _MARKER) is None:
            self.files.write(SHARED_FILE, Marker())

    # What is known

    def publish(self, node: NodeKey, reports: Sequence[tuple[int, Metrics]], ended: int | None = None) -> NodeFacts:
        """Make durable what was reported in a node, and return all that is known of it afterwards.

        What is there already is united with it, so the longer list wins. Where both have a resource and disagree, what
        was there counts, and that is logged once for each node.

        Args:
            node: Its key.
            reports: Resource and metrics, resources strictly ascending from 0 or more.
            ended: Resource at which the trainable ended by itself in this node; None: it did not.

        Raises:
            UsageError: the resources do not ascend.
        """
        return self._with_checkpoints(self._facts.publish(node, reports, ended), self._holds.marked())

    def read(self, node: NodeKey) -> NodeFacts:
        """Return what is known of a node; empty if nothing is."""
        return self.read_many([node])[node]

    def read_many(self, nodes: Iterable[NodeKey]) -> dict[NodeKey, NodeFacts]:
        """Return what is known of nodes: a listing or two for each, and a file where something is new."""
        wanted = list(dict.fromkeys(nodes))
        marked = self._holds.marked()

        def read(node: NodeKey) -> NodeFacts:
            return self._with_checkpoints(self._facts.read(node), marked)

        if len(wanted) < 2 or not self.store.is_far:
            return {node: read(node) for node in wanted}
        with ThreadPoolExecutor(min(_THREADS, len(wanted)), "asyncsearch-shared") as pool:
            return dict(zip(wanted, pool.map(read, wanted), strict=True))

    def _with_checkpoints(self, facts: Facts, marked: Collection[CheckpointRef]) -> NodeFacts:
        found = [ref.resource for ref in self.store.checkpoints(facts.node) if ref not in marked]
        return NodeFacts(facts.reports, facts.ended, tuple(found))

    # What is needed

    def holds(self) -> frozenset[CheckpointRef]:
        """Return the checkpoints of all holds that count: written lately, or of studies whose stores still exist."""
        return frozenset(ref for hold in self.current_holds().holds.values() for ref in hold.references())

    # How much there is

    def stored(self) -> list[Stored]:
        """Return all committed checkpoints, in the order in which they would be evicted."""
        return in_order_of_use(survey(self.store), self._holds.last_uses())

    def usage(self) -> dict[CheckpointRef, int]:
        """Return the size of every committed checkpoint in bytes, all its versions and its manifest included."""
        return {one.ref: one.size_bytes for one in self.stored()}

    def evict(self, quota_bytes: int, keep: Collection[CheckpointRef] = ()) -> dict[CheckpointRef, int]:
        """Delete unneeded checkpoints until the total is within a quota, and return the deleted ones with their bytes.

        The least recently used one is deleted first; among equals the deepest, from which the fewest trials can go on.
        Checkpoints that are held or in ``keep`` count and stay, so the quota may not be reached.
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
        """Finish the deletions in whose middle a driver died."""
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


def open_shared(store: Store, shared: str | Path | Literal[False] | None = None) -> Store | None:
    """Return the folder that a study shares, or None if it shares with nobody. Nothing is written.

    Args:
        store: The study's own store.
        shared: ``Sharing(shared=...)``: a folder or URL; None: ``plan`` beside the study's store; False: none.

    Raises:
        StoreError: the study's store is at the top of its file system or is that very folder: there is no place beside.
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

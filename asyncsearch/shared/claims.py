"""Claims: the exclusive right to train in a node, among the drivers that share a folder.

    drivers/<token>.json          a driver and its last heartbeat; one write renews all its claims; see .drivers
    claims/<node>/000007.json     the seventh claim of that node; see asyncsearch.store.locks.exclusive_right

A claim is void when it was released, or when its driver has left, has died on this machine, or sent no heartbeat for
``lease_s`` by the clock of the folder's file system, so that the clocks of the drivers' hosts may differ. Exactly one
of several rivals is granted a claim where a file is created exclusively (disk, S3, Google's object store), and never
two, provided that a listing shows all files that were created before it began (NFS, HDFS, S3 and Google's store do).
Only where a file system does not say when a file was written must the drivers' clocks agree, within a quarter of
``lease_s``.

Elsewhere the name of a claim contains its driver's token, and simultaneous rivals may all be refused; the next attempt
decides. Where a file is missing for a moment while it is replaced (WebHDFS, SMB, FTP), its driver can seem to have left
at that moment, and two drivers may train the same node: both results are correct, and one is redundant. A driver that
was suspended for longer than its lease notices at its next ``renew``.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.shared.drivers import DRIVER, FOLDER, ClaimHolder, Drivers, driver_file
from asyncsearch.shared.files import SharedFiles, Unreadable, Written, encode
from asyncsearch.store.base_store import FileInfo
from asyncsearch.store.layout import node_folder
from asyncsearch.store.locks.exclusive_right import AT_THIS_MOMENT, ExclusiveRight, NumberedFile
from asyncsearch.store.locks.file_clock import age_s
from asyncsearch.store.locks.lease_lock import LockRecord


class Claim(Written, frozen=True, kw_only=True):
    """A claim on one node."""

    study: str
    token: str
    """Names the driver's file."""
    host: str
    pid: int
    since: str
    claimed_s: float
    """Unix time by the claimant's clock when this was written."""
    released: bool = False


CLAIM = msgspec.json.Decoder(Claim)


class OwnClaim(NamedTuple):
    """A claim that we hold."""

    owner: str
    entry: NumberedFile


class Claims:
    """The claims of one driver. Safe from any thread.

    Args:
        files: the shared folder.
        lease_s: seconds without a heartbeat after which others may take over the claims.
    """

    def __init__(self, files: SharedFiles, lease_s: float) -> None:
        self._files = files
        self._drivers = Drivers(files)
        self._lease_s = lease_s
        self.token = uuid.uuid4().hex
        self._study = ""
        self._since = ""
        self._fresh: tuple[float, float] | None = None
        self._mine: dict[NodeKey, OwnClaim] = {}
        self._lost: set[NodeKey] = set()
        self._unclear: dict[str, float] = {}
        self._guard = threading.RLock()

    @property
    def mine(self) -> frozenset[NodeKey]:
        """The nodes that we hold, as of the last heartbeat."""
        with self._guard:
            return frozenset(self._mine)

    def claim(self, nodes: Iterable[NodeKey], owner: str) -> dict[NodeKey, str | None]:
        """Try to get the exclusive right to train in nodes.

        Args:
            nodes: Their keys.
            owner: The study, one for each ``SharedFolder``; shown to others.

        Returns:
            For each node None if we hold it now (or did before), else its holder: study, process, host, start time.
        """
        with self._guard:
            self.announce(owner)
            return {node: self._claim(node, owner) for node in nodes}

    def announce(self, study: str) -> None:
        """Make sure that other drivers see that this one is alive."""
        with self._guard:
            is_named = bool(self._study) or not study
            if self._fresh is None or self._age() > 0.75 * self._lease_s or not is_named:
                self._study = self._study or study
                self._since = self._since or time.strftime("%Y-%m-%d %H:%M:%S %z")
                self._renew()

    def renew(self) -> frozenset[NodeKey]:
        """Send a heartbeat, which extends all our claims, and return the nodes that we lost.

        Call it several times per ``lease_s``, from any thread; it writes one small file, and nothing while the last one
        is fresh. A node is lost only if heartbeats stopped for longer and another driver has taken it over: further
        training there must not be published under that claim.
        """
        with self._guard:
            if self._fresh is not None and self._age() >= 0.1 * self._lease_s:
                self._renew()
            lost, self._lost = frozenset(self._lost), set()
            return lost

    def release(self, nodes: Iterable[NodeKey]) -> None:
        """Release nodes; nodes that we do not hold are ignored."""
        with self._guard:
            if self._age() > 0.75 * self._lease_s:
                self._renew()  # a node that was lost belongs to another driver: do not release it
            for node in nodes:
                mine = self._mine.get(node)
                if mine is not None:
                    self._withdraw(mine)
                    del self._mine[node]

    def close(self) -> None:
        """Release all claims. The study's hold remains."""
        with self._guard:
            self.release(list(self._mine))
            if self._fresh is not None:
                self._files.store.remove(driver_file(self.token))
                self._fresh = None

    def take_over(self, study: str) -> int:
        """Invalidate the claims of earlier drivers of a study at once, and return the number of these drivers.

        Call it only while you hold the lock of that study's own store: then an earlier driver has died or must stop
        writing. Without this call their claims end with their leases.
        """
        count = 0
        for token in self._drivers.tokens():
            driver = self._drivers.read(token)
            if token != self.token and driver is not None and driver.study == study:
                self._files.store.remove(driver_file(token))
                count += 1
        return count

    # Claims of others

    def is_alive(self, token: str) -> bool:
        """Return whether a driver is alive, as far as can be seen from this process."""
        now_s = self.now_s()
        driver = self._drivers.read(token)
        return driver is not None and not driver.has_left(self._drivers.silent_s(token, driver, now_s))

    def holder(self, node: NodeKey) -> str | None:
        """Describe the other driver that trains in a node now, or return None."""
        return self._right(node).holder()

    def entries(self, node: NodeKey) -> list[NumberedFile]:
        """Return the files of a node's claims in order."""
        return self._right(node).entries()

    def expired(self, after_s: float) -> dict[str, str]:
        """Return the files of void claims and silent drivers that are older than ``after_s``, each with the reason.

        A suspended driver remembers only younger files when it continues, so no claim number that it knows is used a
        second time; ``after_s`` is much longer than any lease.
        """
        now_s = self.now_s()
        silent = self._silent(now_s, after_s)
        found = {name: why for name, why in silent.items() if why}
        nodes: dict[str, dict[str, bool]] = {}
        for name, file in self._files.store.walk("claims").items():
            claim = self._files.read(f"claims/{name}", CLAIM)
            is_old = _age_s(file, now_s, None if claim is None else claim.claimed_s) > after_s
            is_free = claim is None or claim.released or silent.get(driver_file(claim.token)) != ""
            nodes.setdefault(name.partition("/")[0], {})[f"claims/{name}"] = is_old and is_free
        for claims in nodes.values():
            if all(claims.values()):
                found |= dict.fromkeys(claims, "nobody holds this claim any more")
        return found

    def now_s(self) -> float | None:
        """Return the Unix time of the folder's file system. None if it does not tell, and the clock here will do."""
        return self._drivers.now_s(may_only_read=self._fresh is None)

    def _silent(self, now_s: float | None, after_s: float) -> dict[str, str]:
        """Return why the file of each driver may go. Empty if it may not."""
        found = {}
        for name, file in self._files.store.walk(FOLDER).items():
            path = f"{FOLDER}/{name}"
            driver = self._files.read(path, DRIVER) if name.endswith(".json") else None
            silent_s = _age_s(file, now_s, None if driver is None else driver.holder.refreshed)
            is_over = silent_s > after_s and (driver is None or driver.has_left(silent_s))
            why = "it cannot be read" if driver is None else f"study {driver.study!r} is no longer driven from there"
            found[path] = why if is_over else ""
        return found

    def _right(self, node: NodeKey) -> ExclusiveRight:
        folder = node_folder(CheckpointRef(node, 0)).replace("checkpoints/", "claims/", 1)
        return ExclusiveRight(self._files.store, folder, self._other)

    def _other(self, entry: NumberedFile) -> str | None:
        """Describe the driver of the claim in a file. None if the claim is void or ours."""
        claim = self._files.look(entry.name, CLAIM)
        if isinstance(claim, Unreadable):
            return self._unsettled(claim)
        self._unclear.pop(entry.name, None)
        if claim is None or claim.released or claim.token == self.token:
            return None
        now_s = self.now_s()
        driver = self._drivers.look(claim.token)
        if isinstance(driver, Unreadable):
            return self._unsettled(driver)
        self._unclear.pop(driver_file(claim.token), None)
        if driver is None:
            return None
        silent_s = self._drivers.silent_s(claim.token, driver, now_s)
        claimant = msgspec.structs.replace(driver, study=claim.study, since=claim.since)
        return None if driver.has_left(silent_s) else claimant.described(silent_s)

    def _unsettled(self, file: Unreadable) -> str | None:
        # Some file systems show a name before its content, and the writer may die in between.
        first = self._unclear.setdefault(file.name, time.monotonic())
        return AT_THIS_MOMENT if time.monotonic() - first <= self._lease_s else None

    # Claims of this driver

    def _claim(self, node: NodeKey, owner: str) -> str | None:
        mine = self._mine.get(node)
        if mine is not None:
            return None if mine.owner == owner else f"study {mine.owner!r} in this same driver"
        suffix = "" if self._files.store.is_exclusive else f"-{self.token}"
        found = self._right(node).acquire(
            lambda name: self._record(owner, name), lambda name: self._record(owner, name, released=True), suffix
        )
        if isinstance(found, str):
            return found
        self._mine[node] = OwnClaim(owner, found)
        return None

    def _renew(self) -> None:
        name = driver_file(self.token)
        doubtful = self._age() > 0.75 * self._lease_s or not self._files.content(name)
        begun = time.monotonic(), time.time()
        holder = LockRecord.here(self.token)
        self._files.write(name, ClaimHolder(study=self._study, since=self._since, lease_s=self._lease_s, holder=holder))
        # First write the heartbeat, then read the claims: a driver that takes one over does both in the opposite order,
        # so at least one of the two sees the other.
        lost = {node for node, mine in self._mine.items() if doubtful and not self._is_held(node, mine.entry)}
        for node in lost:
            mine = self._mine.pop(node)
            claim = self._files.read(mine.entry.name, CLAIM)
            if claim is not None and claim.token == self.token:
                self._withdraw(mine)
        self._lost |= lost
        # As of before the write: others count the lease from the file, which a slow write may have dated early.
        self._fresh = begun

    def _is_held(self, node: NodeKey, own: NumberedFile) -> bool:
        claim = self._files.read(own.name, CLAIM)
        return claim is not None and claim.token == self.token and self._right(node).rival(own) is None

    def _age(self) -> float:
        """Return the seconds since our last heartbeat; the monotonic clock may stop while a machine is suspended."""
        if self._fresh is None:
            return 0.0
        return max(time.monotonic() - self._fresh[0], time.time() - self._fresh[1])

    def _withdraw(self, claim: OwnClaim) -> None:
        self._files.put(claim.entry.name, self._record(claim.owner, claim.entry.name, released=True))

    def _record(self, owner: str, name: str, released: bool = False) -> bytes:
        return encode(
            Claim(
                study=owner,
                token=self.token,
                host=socket.gethostname(),
                pid=os.getpid(),
                since=time.strftime("%Y-%m-%d %H:%M:%S %z"),
                claimed_s=time.time(),
                released=released,
            ),
            name,
        )


def _age_s(file: FileInfo, now_s: float | None, refreshed_s: float | None) -> float:
    """Return the age of a file; 0.0 where nobody can tell."""
    return 0.0 if refreshed_s is None and file.modified_s is None else age_s(file, now_s, refreshed_s or 0.0)

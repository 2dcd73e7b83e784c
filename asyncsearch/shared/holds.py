"""Holds: the checkpoints of a shared folder that a study may still need; and the deletion of all others.

    holds/<study>.json                       the hold of one study; it alone writes the file
    deleting/<node>.<resource>.<token>.json  a driver is about to delete that checkpoint

A driver that deletes a checkpoint first writes the second file and then reads the holds; a study that holds one first
writes its hold and then lists such files. So at least one of the two sees the other: the checkpoint is not deleted, or
the study learns not to rely on it. The next driver that deletes finishes the deletions of a driver that died.

Anybody who can write into the folder can write a hold, and a hold names the store of its study. Only stores below roots
that the user has named are opened: another address could be a server of a stranger, who would learn of this user's
rights there.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from asyncsearch.errors import StoreError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.shared.claims import Claims
from asyncsearch.shared.files import SharedFiles, Unreadable, Written
from asyncsearch.store.base_store import FileInfo
from asyncsearch.store.layout import node_folder, versions_of
from asyncsearch.store.locks.file_clock import age_s
from asyncsearch.store.passwords import lacks_password

_CODED = re.compile(r"%2e|%2f|%5c", re.IGNORECASE)


_OF_THIS_MACHINE = ("file", "local")


class _Place(NamedTuple):
    server: str
    """Protocol, user, host and port. Empty means a folder of this machine."""
    parts: tuple[str, ...]


def root_of(url: str) -> str:
    """Return the folder that a store lies in: who names a store also names its neighbours."""
    start, separator, place = url.rstrip("/").rpartition("://")
    parent = place.rpartition("/")[0]
    return f"{start}{separator}{parent}" or "/"


def is_below(home: str, roots: Iterable[str]) -> bool:
    """Return whether a store lies below one of some roots, folders or URLs; an address that is not plain does not."""
    place = _place(home)
    return place is not None and any(
        root is not None and root.server == place.server and place.parts[: len(root.parts)] == root.parts
        for root in map(_place, roots)
    )


def _place(url: str) -> _Place | None:
    """Return the place that an address leads to. None if more than one thing could be meant."""
    protocol, separator, rest = url.rstrip("/").partition("://")
    if protocol.lower() in _OF_THIS_MACHINE:
        protocol, separator, url = "", "", rest or "/"
    if not separator:
        if not url.startswith("/") or "\0" in url or posixpath.normpath(url) != (url.rstrip("/") or "/"):
            return None
        return _Place("", tuple(part for part in url.split("/") if part))
    server, _, path = ("", "", rest) if protocol == "memory" else rest.partition("/")
    parts = tuple(path.split("/")) if path else ()
    is_plain = all(part not in ("", ".", "..") and "\\" not in part for part in parts)
    if not is_plain or _CODED.search(url) or not re.fullmatch(r"[A-Za-z0-9+.-]+", protocol) or "\0" in url:
        return None
    return _Place(f"{protocol.lower()}://{server}", parts)


_DROPPED = 5_000
_STUDY_FILE = "study.json"


class Hold(Written, frozen=True, kw_only=True):
    """The checkpoints that one study holds."""

    study: str
    home: str
    """URL of the study's own store, without a password; empty if unknown."""
    refreshed_s: float
    """Unix time by the study's clock when this was written; it counts where the file system tells no times."""
    refs: dict[NodeKey, list[int]]
    dropped: dict[NodeKey, dict[int, float]] = msgspec.field(default_factory=dict)
    """Checkpoints that it held before, each with the time at which the hold ended: its last use."""

    def references(self) -> Iterator[CheckpointRef]:
        """Yield the held checkpoints."""
        for node, resources in self.refs.items():
            for resource in resources:
                yield CheckpointRef(node, resource)


_HOLD = msgspec.json.Decoder(Hold)


class Mark(Written, frozen=True, kw_only=True):
    """The mark of a driver that is about to delete a checkpoint."""

    node: NodeKey
    resource: int
    token: str
    """Names the driver's file."""


class CurrentHolds(NamedTuple):
    """All holds that count now."""

    holds: dict[str, Hold]
    """By file name."""
    gone: dict[str, str]
    """Files that do not count, each with the reason."""
    unreadable: tuple[str, ...]
    """Files that cannot be read: the needs of their studies are unknown."""


class Holds:
    """Holds and deletions in a shared folder. Safe from any thread."""

    def __init__(self, files: SharedFiles, claims: Claims, retention_s: float, roots: Sequence[str]) -> None:
        self._files = files
        self._roots = roots
        self._claims = claims
        self._retention_s = retention_s
        self._last: dict[str, Hold] = {}
        self._guard = threading.Lock()
        self._deleting = threading.RLock()

    def hold(self, study: str, refs: Iterable[CheckpointRef], home: str = "") -> frozenset[CheckpointRef]:
        """Write the checkpoints that a study may still need, replacing its previous hold.

        Args:
            study: Unique name of the study; one process at a time writes its hold.
            refs: Checkpoints, committed already or not.
            home: URL of the study's own store, without a password: the hold counts while ``study.json`` exists there or
                cannot be checked. Once given it is kept.

        Returns:
            The checkpoints that a driver is deleting now: do not rely on them, though ``SharedFolder.read`` may show
            one again later. A checkpoint that ``read`` shows after this call is kept.
        """
        wanted = sorted(set(refs), key=lambda ref: (ref.node, ref.resource))
        name, now = study_file("holds", study), time.time()
        with self._guard:
            last = self._last.get(study) or self._files.read(name, _HOLD)
            grouped: dict[NodeKey, list[int]] = {}
            for ref in wanted:
                node_folder(ref)
                grouped.setdefault(ref.node, []).append(ref.resource)
            dropped = _dropped(last, set(wanted), now) if last is not None else {}
            home = home or (last.home if last is not None else "")
            hold = Hold(study=study, home=home, refreshed_s=now, refs=grouped, dropped=dropped)
            self._files.write(name, hold)
            self._last[study] = hold
        # Listed after the hold is written: see delete.
        return frozenset(self.marked().intersection(wanted))

    def let_go(self, study: str) -> None:
        """Remove the hold of a study that no longer needs any checkpoint."""
        with self._guard:
            self._last.pop(study, None)
            self._files.store.remove(study_file("holds", study))

    def current(self) -> CurrentHolds:
        """Return the holds that count now and those that do not."""
        holds: dict[str, Hold] = {}
        gone: dict[str, str] = {}
        unreadable: list[str] = []
        now_s = self._claims.now_s()
        files = self._files.store.walk("holds")
        for entry in self._files.store.list("holds"):
            name, file = f"holds/{entry}", files.get(entry, FileInfo(0, None))
            hold = self._files.look(name, _HOLD) if entry.endswith(".json") else None
            if isinstance(hold, Hold) and study_file("holds", hold.study) != name:
                hold = Unreadable(name)  # that of another study
            if isinstance(hold, Unreadable):
                unreadable.append(name)
                self._files.warn_once(
                    name,
                    f"{name!r} in the shared folder {self._files.store.shown!r} is damaged, so nobody knows what that"
                    " study needs, and no checkpoint is deleted there. Run that study, or remove the file.",
                )
            elif hold is not None:
                why = self._why_gone(hold, age_s(file, now_s, hold.refreshed_s))
                if why:
                    gone[name] = why
                else:
                    holds[name] = hold
        return CurrentHolds(holds, gone, tuple(unreadable))

    def last_uses(self) -> dict[CheckpointRef, float]:
        """Return the Unix times at which the holds on formerly held checkpoints ended."""
        uses: dict[CheckpointRef, float] = {}
        for entry in self._files.store.list("holds"):
            hold = self._files.read(f"holds/{entry}", _HOLD)
            for node, times in (hold.dropped if hold is not None else {}).items():
                for resource, until in times.items():
                    ref = CheckpointRef(node, resource)
                    uses[ref] = max(uses.get(ref, 0.0), until)
        return uses

    def _why_gone(self, hold: Hold, unwritten_s: float) -> str:
        if unwritten_s <= self._retention_s:
            return ""
        if not hold.home:
            return f"study {hold.study!r} gave no sign of life for {unwritten_s / 86400:.0f} days"
        if lacks_password(hold.home) or not is_below(hold.home, self._roots):
            return ""  # a store that cannot be asked may exist
        from asyncsearch.store import open_store

        try:
            if open_store(hold.home).read(_STUDY_FILE) is not None:
                return ""
        except StoreError:
            return ""
        return f"study {hold.study!r} is no longer at {hold.home!r}"

    # Deleting

    def marked(self) -> set[CheckpointRef]:
        """Return the checkpoints that are being deleted."""
        return {ref for name in self._files.store.list("deleting") if (ref := _marked(name)) is not None}

    def delete(self, ref: CheckpointRef, study: str = "") -> bool:
        """Delete a checkpoint and return True, or False if it stays, since another study may need it.

        It stays if a study other than ``study`` holds it, another driver trains in its node, or a hold is damaged, so
        that its content is unknown.
        """
        self._claims.announce(study)
        name = f"deleting/{ref.node}.{ref.resource}.{self._claims.token}.json"
        node_folder(ref)
        with self._deleting:
            # The mark first, then the look: a study that writes its hold meanwhile sees the mark, or is seen here.
            self._files.write(name, Mark(node=ref.node, resource=ref.resource, token=self._claims.token))
            if self.needed(ref, besides=study):
                self._files.store.remove(name)
                return False
            # If this fails, the mark stays, and ``finish`` completes the deletion.
            self._files.store.delete(ref)
            self._files.store.remove(name)
            return True

    def needed(self, ref: CheckpointRef, current: CurrentHolds | None = None, besides: str = "") -> str:
        """Describe the study or driver that may need a checkpoint, or return an empty string.

        Args:
            ref: The checkpoint.
            current: A recent result of ``current``, if there is one.
            besides: A study to ignore.
        """
        current = current or self.current()
        if current.unreadable:
            return f"{current.unreadable[0]!r} is damaged: nobody knows what that study needs"
        for hold in current.holds.values():
            if (not besides or hold.study != besides) and ref.resource in hold.refs.get(ref.node, ()):
                return f"held by study {hold.study!r}"
        who = self._claims.holder(ref.node)
        return f"its node is being trained by {who}" if who is not None else ""

    def finish_one(self, ref: CheckpointRef, name: str) -> bool:
        """Finish a deletion. Return False if it was cancelled, since the checkpoint is needed by now."""
        with self._deleting:
            is_free = not self.needed(ref)
            if is_free:
                self._files.store.delete(ref)
                self._remove_halves(ref)
            self._files.store.remove(name)
            return is_free

    def abandoned(self) -> list[tuple[CheckpointRef, str]]:
        """Return the deletions whose drivers have died, and their files."""
        found = []
        for entry in self._files.store.list("deleting"):
            if (ref := _marked(entry)) is None:
                continue
            token = entry.split(".")[-2]
            if token == self._claims.token or not self._claims.is_alive(token):
                found.append((ref, f"deleting/{entry}"))
        return found

    def _remove_halves(self, ref: CheckpointRef) -> None:
        folder = node_folder(ref)
        attempts = {name.split("/")[0] for name in self._files.store.walk(folder)}
        for version in versions_of(ref.resource, attempts):
            self._files.store.remove_tree(f"{folder}/{version}")


def _dropped(last: Hold, wanted: set[CheckpointRef], now: float) -> dict[NodeKey, dict[int, float]]:
    """Return the end of the hold for each checkpoint that is no longer held, the newest entries only."""
    until = {CheckpointRef(node, at): s for node, times in last.dropped.items() for at, s in times.items()}
    until |= dict.fromkeys(last.references(), now)
    newest = sorted((item for item in until.items() if item[0] not in wanted), key=lambda item: -item[1])[:_DROPPED]
    dropped: dict[NodeKey, dict[int, float]] = {}
    for ref, s in newest:
        dropped.setdefault(ref.node, {})[ref.resource] = s
    return dropped


def study_file(folder: str, study: str) -> str:
    """Return the name of a study's file: readable, and unique to the study."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", study)[-40:].strip("-") or "study"
    return f"{folder}/{readable}-{hashlib.blake2b(study.encode(), digest_size=4).hexdigest()}.json"


def _marked(name: str) -> CheckpointRef | None:
    match = re.fullmatch(r"([A-Za-z0-9_-]{1,64})\.(\d+)\.[0-9a-f]{32}\.json", name)
    return CheckpointRef(NodeKey(match[1]), int(match[2])) if match else None

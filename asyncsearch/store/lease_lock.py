"""A lock for file systems that do not know when a process has died: a record that its holder keeps refreshing.

    lock/000007.json    the seventh holder; the highest number counts

To take the lock is to create the next number, which only one can do where the file system creates exclusively (disk,
and the S3 and Google object stores; others look first, and two that come at the same moment are told apart by their
tokens at the next refresh). It may be taken when the last holder has released it, has died on this very machine, or
has not refreshed it for ``lease_s``; that last rule trusts that the clocks of driver hosts agree within a quarter of
it. A holder that was away so long finds out before its next write, and writes no more. Like every lease, this cannot
stop a write that was already on its way when the lease ran out: where that matters, use a store with real locks.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import time
import uuid
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec

from asyncsearch.errors import StoreError, StoreLockedError

logger = logging.getLogger(__name__)


class Files(Protocol):
    """What the lock needs of a file system."""

    @property
    def shown(self) -> str: ...
    def names(self, folder: str) -> list[str]: ...
    def read(self, name: str) -> bytes | None: ...
    def create(self, name: str, data: bytes) -> bool: ...
    def replace(self, name: str, data: bytes) -> None: ...
    def remove(self, name: str) -> None: ...


class LockRecord(msgspec.Struct, frozen=True):
    """Who holds the lock, or held it."""

    host: str
    pid: int
    machine: str
    """Identifies the running system in which ``pid`` means something; empty if that is unknown."""
    token: str
    refreshed: float
    """Unix time by the holder's clock."""
    released: bool = False

    @classmethod
    def here(cls, token: str, released: bool = False) -> LockRecord:
        """Return this process's record of now."""
        return cls(socket.gethostname(), os.getpid(), machine(), token, time.time(), released)

    def is_void(self, lease_s: float) -> bool:
        """Return whether the lock was released, or its holder has died or was silent for longer than the lease."""
        return self.released or time.time() - self.refreshed > lease_s or self.has_died()

    def has_died(self) -> bool:
        """Return whether the holder was a process of this machine and is gone."""
        if not self.machine or self.machine != machine():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


_NUMBERED = re.compile(r"(\d{6,})(?:-[0-9a-f]{32})?\.json")
_RECORD = msgspec.json.Decoder(LockRecord)


class NumberedFile(NamedTuple):
    """One of the files of which the highest number counts."""

    number: int
    name: str


def numbered(folder: str, names: Iterable[str]) -> list[NumberedFile]:
    """Return the numbered files among the names in a folder, in order."""
    matches = ((match, name) for name in names if (match := _NUMBERED.fullmatch(name)))
    return sorted(NumberedFile(int(match[1]), f"{folder}/{name}") for match, name in matches)


def last_number(entries: Iterable[NumberedFile]) -> int:
    """Return the number that counts, 0 if there is none."""
    return max((entry.number for entry in entries), default=0)


class LeaseLock:
    """One attempt to hold the lock of a store."""

    def __init__(self, files: Files, lease_s: float) -> None:
        self._files = files
        self._lease_s = lease_s
        self._token = uuid.uuid4().hex
        self._number = 0
        self._fresh_until = 0.0
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="asyncsearch-store-lock", daemon=True)

    def is_held(self) -> bool:
        """Return whether somebody holds the lock now."""
        found = _decode(self._files.read(_name(last_number(self._entries()))))
        return found is not None and not found.is_void(self._lease_s)

    def acquire(self) -> None:
        """Take the lock and keep it.

        Raises:
            StoreLockedError: somebody else holds it.
        """
        before = self._entries()
        last = last_number(before)
        if last:
            self._refuse_unless_free(last)
        self._number = last + 1
        begun = time.monotonic()
        if not self._files.create(_name(self._number), self._record()):
            self._refuse_unless_free(self._number, just_created=True)
        self._fresh_until = begun + 0.75 * self._lease_s
        for entry in before:
            self._files.remove(entry.name)
        self._thread.start()

    def refresh(self) -> None:
        """Say that the holder lives.

        Raises:
            StoreLockedError: another driver has taken the lock.
            StoreError: the file system does not answer.
        """
        with self._guard:
            begun = time.monotonic()
            found = _decode(self._files.read(_name(self._number)))
            if last_number(self._entries()) != self._number or (found is not None and found.token != self._token):
                self._fresh_until = 0.0
                raise StoreLockedError(
                    f"Process {os.getpid()} has lost the study at {self._files.shown!r} to another driver, because it"
                    f" did not refresh its lock for {self._lease_s:g} s: it was stopped, or the store did not answer."
                    " Nothing more is written from here; the other driver goes on with the study."
                )
            self._files.replace(_name(self._number), self._record())
            self._fresh_until = begun + 0.75 * self._lease_s

    def check(self) -> None:
        """Make sure that the lock is still held; costs nothing while it is fresh.

        Raises:
            StoreLockedError: it was lost.
            StoreError: the file system does not answer.
        """
        if time.monotonic() > self._fresh_until:
            self.refresh()

    def release(self) -> None:
        """Give the lock back."""
        self._stop.set()
        self._thread.join(timeout=self._lease_s / 4)  # a file system that does not answer must not hold up the end
        try:
            self.refresh()
            self._files.replace(_name(self._number), self._record(released=True))
        except StoreError as error:
            logger.warning("The lock could not be released; others can take it in %g s: %s", self._lease_s, error)

    def _keep(self) -> None:
        while not self._stop.wait(self._lease_s / 4):
            try:
                self.refresh()
            except StoreLockedError as error:
                logger.error("%s", error)
                return
            except StoreError as error:
                logger.warning("The lock could not be refreshed, and will be tried again: %s", error)

    def _entries(self) -> list[NumberedFile]:
        return numbered("lock", self._files.names("lock"))

    def _record(self, released: bool = False) -> bytes:
        return msgspec.json.encode(LockRecord.here(self._token, released))

    def _refuse_unless_free(self, number: int, just_created: bool = False) -> None:
        found = _decode(self._files.read(_name(number)))
        where = f"{self._files.shown}/{_name(number)}"
        if found is None or just_created:
            who = "a process that takes it at this moment" if found is None else f"process {found.pid} on {found.host}"
            wait = f"try again; if it stays so and no driver runs, remove {where!r}"
        else:
            age = time.time() - found.refreshed
            if found.is_void(self._lease_s):
                return
            who = f"process {found.pid} on {found.host}, seen {max(age, 0):.0f} s ago"
            wait = f"wait for it or stop it (if it was killed, its lock is void in {self._lease_s - age:.0f} s)"
        raise StoreLockedError(
            f"Another driver has the study at {self._files.shown!r} open: {who}. One study has one driver: {wait}, or"
            " give this study another store."
        )


def _name(number: int) -> str:
    return f"lock/{number:06d}.json"


def _decode(data: bytes | None) -> LockRecord | None:
    try:
        return _RECORD.decode(data or b"")
    except msgspec.DecodeError:
        return None


def machine() -> str:
    """Return a name of the running system and its space of process ids; empty if that is unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""

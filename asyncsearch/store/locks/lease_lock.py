"""A lock for file systems that cannot detect a dead process: a record that its holder keeps refreshing.

    lock/000007.json    the seventh holder; see asyncsearch.store.locks.exclusive_right

Only one process can take the lock where the file system creates files exclusively (disk, and the S3 and Google object
stores; others check first, and the tokens of two simultaneous holders tell them apart at the next refresh). It may be
taken when the last holder has released it, has died on this machine, or has not refreshed it for ``lease_s`` by the
clock of the file system, so that the clocks of driver hosts may differ. Only where the file system does not say when a
file was written must they agree, within a quarter of ``lease_s``. A holder that was suspended so long notices before
its next write, and stops writing. Like every lease, this cannot stop a write that was in progress when the lease
expired: where that matters, use a store with real locks.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from typing import Protocol

import msgspec

from asyncsearch.errors import NotAFileError, StoreError, StoreLockedError
from asyncsearch.files import decoded
from asyncsearch.files.plain import read_text
from asyncsearch.store.base_store import FileInfo
from asyncsearch.store.disk import is_running
from asyncsearch.store.locks.exclusive_right import AT_THIS_MOMENT, ExclusiveRight, Files, NumberedFile
from asyncsearch.store.locks.file_clock import FileClock

logger = logging.getLogger(__name__)


class LockRecord(msgspec.Struct, frozen=True):
    """The present or former holder of the lock."""

    host: str
    pid: int
    machine: str
    """Identifies the running system in which ``pid`` is valid; empty if that is unknown."""
    token: str
    refreshed: float
    """Unix time by the holder's clock."""
    released: bool = False

    @classmethod
    def here(cls, token: str, released: bool = False) -> LockRecord:
        """Return the current record of this process."""
        return cls(socket.gethostname(), os.getpid(), machine(), token, time.time(), released)

    def has_died(self) -> bool:
        """Return whether the holder was a process of this machine and is gone."""
        return bool(self.machine) and self.machine == machine() and not is_running(self.pid)


_RECORD = msgspec.json.Decoder(LockRecord)


class LockFiles(Files, Protocol):
    """The file operations that a lock needs."""

    def find(self, folder: str) -> Mapping[str, FileInfo]: ...


class LeaseLock:
    """One attempt to hold the lock of a store."""

    def __init__(self, files: LockFiles, lease_s: float) -> None:
        self._files = files
        self._lease_s = lease_s
        self._token = uuid.uuid4().hex
        self._right = ExclusiveRight(files, "lock", self._holder)
        self._clock = FileClock(files.write, files.find, files.remove)
        self._own = NumberedFile(0, "")
        self._fresh_until = 0.0
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="asyncsearch-store-lock", daemon=True)

    def is_held(self) -> bool:
        """Return whether a process holds the lock now, by the clock here where nothing can be written."""
        for entry in self._right.entries()[-1:]:
            found = self._read(entry)
            if found is not None and not found.released and not found.has_died():
                return self._age_s(entry, found) <= self._lease_s
        return False

    def _age_s(self, entry: NumberedFile, found: LockRecord) -> float:
        try:
            return self._clock.age_s(entry.name, found.refreshed)
        except StoreError:  # who may only read
            return time.time() - found.refreshed

    def acquire(self) -> None:
        """Take the lock and keep it.

        Raises:
            StoreLockedError: another driver holds it.
        """
        # Before the write: a slow one must not make the lease last longer here than others believe.
        begun = time.monotonic()
        found = self._right.acquire(lambda name: self._record(), lambda name: self._record(released=True))
        if isinstance(found, str):
            raise StoreLockedError(
                f"Another driver has the study at {self._files.shown!r} open: {found}. One study has one driver: wait"
                " for it or stop it, or give this study another store."
            )
        self._own = found
        self._fresh_until = begun + 0.75 * self._lease_s
        self._thread.start()

    def refresh(self) -> None:
        """Extend the lease.

        Raises:
            StoreLockedError: another driver has taken the lock.
            StoreError: the file system does not answer.
        """
        with self._guard:
            begun = time.monotonic()
            self._require_own()
            self._files.write(self._own.name, self._record())
            self._fresh_until = begun + 0.75 * self._lease_s

    def confirm(self) -> None:
        """Read the lock anew, however fresh the lease is.

        Raises:
            StoreLockedError: another driver has taken the lock.
            StoreError: the file system does not answer.
        """
        with self._guard:
            self._require_own()

    def check(self) -> None:
        """Make sure that the lock is still held; free while the lease is fresh.

        Raises:
            StoreLockedError: it was lost.
            StoreError: the file system does not answer.
        """
        if time.monotonic() > self._fresh_until:
            self.refresh()

    def release(self) -> None:
        """Release the lock."""
        self._stop.set()
        self._thread.join(timeout=self._lease_s / 4)  # a file system that does not answer must not delay the end
        try:
            self.refresh()
            self._files.write(self._own.name, self._record(released=True))
        except StoreLockedError:
            logger.debug("The lock belongs to another driver: there is nothing to release.")
        except StoreError as error:
            logger.warning("The lock could not be released; others can take it in %g s: %s", self._lease_s, error)

    def _require_own(self) -> None:
        found = self._read(self._own)
        later = self._right.later(self._own)
        if later or (found is not None and found.token != self._token):
            self._fresh_until = 0.0
            other = self._read(later[-1]) if later else found
            who = "" if other is None else f", process {other.pid} on {other.host}"
            raise StoreLockedError(
                f"Process {os.getpid()} has lost the study at {self._files.shown!r} to another driver{who}, because it"
                f" did not refresh its lock for {self._lease_s:g} s: it was stopped, or the store did not answer."
                " Nothing more is written from here; the other driver goes on with the study."
            )

    def _keep(self) -> None:
        is_warned = False
        while not self._stop.wait(self._lease_s / 4):
            try:
                self.refresh()
                is_warned = False
            except StoreLockedError as error:
                logger.error("%s", error)
                return
            except StoreError as error:
                if not is_warned:
                    logger.warning("The lock could not be refreshed, and will be tried again: %s", error)
                is_warned = True

    def _record(self, released: bool = False) -> bytes:
        return msgspec.json.encode(LockRecord.here(self._token, released))

    def _read(self, entry: NumberedFile) -> LockRecord | None:
        try:
            return decoded(_RECORD, self._files.read(entry.name) or b"")
        except NotAFileError:
            return None

    def _holder(self, entry: NumberedFile) -> str | None:
        found = self._read(entry)
        if found is None:
            where = f"{self._files.shown}/{entry.name}"
            return f"{AT_THIS_MOMENT} (try again; if it stays so and no driver runs, remove {where!r})"
        if found.token == self._token or found.released or found.has_died():
            return None
        # By its own clock, a driver that is an hour ahead would take the lock from one that lives.
        age = self._clock.age_s(entry.name, found.refreshed)
        if age > self._lease_s:
            return None
        return (
            f"process {found.pid} on {found.host}, seen {max(age, 0):.0f} s ago (if it was killed, its lock is void in"
            f" {self._lease_s - age:.0f} s)"
        )


def machine() -> str:
    """Return a name of the running system and its namespace of process ids; empty if that is unknown."""
    try:
        return f"{read_text('/proc/sys/kernel/random/boot_id').strip()}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""

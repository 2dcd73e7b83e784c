"""The drivers that use a shared folder, and for how long each of them has been silent.

drivers/<token>.json    a driver and its last heartbeat
drivers/probe-...       a file of a moment, which tells the time there; see asyncsearch.store.locks.file_clock
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from asyncsearch.errors import StoreError
from asyncsearch.shared.files import SharedFiles, Unreadable, Written
from asyncsearch.store.base_store import FileInfo
from asyncsearch.store.locks.file_clock import FileClock, age_s
from asyncsearch.store.locks.lease_lock import LockRecord

FOLDER = "drivers"
_TOKEN = re.compile(r"[0-9a-f]{32}")
_FILE = re.compile(r"[0-9a-f]{32}\.json")
_PROBE_COUNTS_S = 15.0


class ClaimHolder(Written, frozen=True, kw_only=True):
    """A driver that uses a shared folder."""

    study: str
    since: str
    lease_s: float
    holder: LockRecord

    def has_left(self, silent_s: float) -> bool:
        """Return whether the driver seems to have left or died, after so many seconds without a heartbeat."""
        return self.holder.released or silent_s > self.lease_s or self.holder.has_died()

    def described(self, silent_s: float) -> str:
        """Describe it for people."""
        return (
            f"study {self.study!r} (process {self.holder.pid} on {self.holder.host}, since {self.since},"
            f" seen {max(silent_s, 0):.0f} s ago)"
        )


DRIVER = msgspec.json.Decoder(ClaimHolder)


class Drivers:
    """The drivers of a shared folder. Safe from any thread.

    Args:
        files: the shared folder.
    """

    def __init__(self, files: SharedFiles) -> None:
        self._files = files
        store = files.store
        self._clock = FileClock(store.write, store.walk, store.remove, folder=FOLDER, reuse_s=_PROBE_COUNTS_S)

    def tokens(self) -> Sequence[str]:
        """Return the tokens of all known drivers."""
        return [name.removesuffix(".json") for name in self._files.store.list(FOLDER) if _FILE.fullmatch(name)]

    def look(self, token: str) -> ClaimHolder | Unreadable | None:
        """Return the record of a driver, ``Unreadable`` if it is damaged, or None if there is none."""
        if _TOKEN.fullmatch(token) is None:
            return Unreadable(f"{FOLDER}/{token}.json")
        found = self._files.look(driver_file(token), DRIVER)
        is_another = isinstance(found, ClaimHolder) and found.holder.token != token
        return Unreadable(driver_file(token)) if is_another else found

    def read(self, token: str) -> ClaimHolder | None:
        """Return the record of a driver, or None if there is none, or a damaged one."""
        found = self.look(token)
        if isinstance(found, Unreadable):
            self._files.warn_damaged(found.name)
            return None
        return found

    def now_s(self, may_only_read: bool = False) -> float | None:
        """Return the Unix time of the folder's file system. None if it does not tell.

        Args:
            may_only_read: Whether the clock of this machine will do where nothing can be written.

        Raises:
            StoreError: nothing can be written there.
        """
        try:
            return self._clock.now_s()
        except StoreError:
            if may_only_read:
                return None
            raise

    def silent_s(self, token: str, driver: ClaimHolder, now_s: float | None) -> float:
        """Return the seconds between the last heartbeat of a driver and a time of the file system.

        Ask for the time before the record: a process that is stopped in between then takes no living driver for dead.
        """
        file = self.files().get(f"{token}.json")
        return 0.0 if file is None else age_s(file, now_s, driver.holder.refreshed)  # it is replaced at this moment

    def files(self) -> Mapping[str, FileInfo]:
        """Return the files of the drivers, without probes, by their names."""
        found = self._files.store.walk(FOLDER)
        return {name: file for name, file in found.items() if _FILE.fullmatch(name)}


def driver_file(token: str) -> str:
    """Return the name of a driver's file.

    Raises:
        StoreError: the token is none.
    """
    if _TOKEN.fullmatch(token) is None:
        raise StoreError(f"{token!r} in a shared folder does not name a driver: remove that file from {FOLDER!r}.")
    return f"{FOLDER}/{token}.json"

"""Moments of a process at which it is killed or interrupted, counted in its own calls: no clock is involved.

A moment is ``<call>:<number>:<when>``: before, within or after the call with that number, from 1, of all threads.
Within a write, a part of the bytes is written. The same moment comes back; the search round it differs a little, since
threads and workers may be faster or slower.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from asyncsearch.driver.loop import Driver
from asyncsearch.launch.processes import ProcessLauncher
from asyncsearch.report.live.display import Plain
from asyncsearch.rpc.server import SearchServer
from asyncsearch.store import syncing

WRITES = ("write", "pwrite")
SYSTEM_CALLS = ("open", *WRITES, "fsync", "fdatasync", "ftruncate", "mkdir", "rename", "replace", "unlink", "rmdir")
OUR_CALLS: tuple[tuple[type[Any], str], ...] = (
    (Driver, "received"),
    (Driver, "_process"),
    (SearchServer, "attached"),
    (SearchServer, "send"),
    (SearchServer, "acknowledge"),
    (ProcessLauncher, "launch"),
    (ProcessLauncher, "kill"),
    (ProcessLauncher, "stop"),
    (Plain, "update"),
)
REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EFBIG, errno.EROFS)
"""Errors of system calls while a store cannot be written; all of these count as one kind of call, ``refused``."""
WHEN = ("before", "within", "after")


class Moment(NamedTuple):
    """One moment."""

    call: str
    number: int
    when: str

    def __str__(self) -> str:
        return f"{self.call}:{self.number}:{self.when}"

    @classmethod
    def parse(cls, text: str) -> Moment:
        call, number, when = text.split(":")
        return cls(call, int(number), when)


END = Moment("end", 1, "before")
"""After the search: what comes too late for another moment comes then."""


def draw(chance: random.Random, counts: Mapping[str, int], share: float = 1.0) -> Moment:
    """Draw a moment of the first ``share`` of a search that makes so many calls; each kind of call is as likely."""
    call = chance.choice(sorted(counts))
    when = chance.choice(WHEN if call in WRITES else ("before", "after"))
    return Moment(call, 1 + int(chance.random() * share * counts[call]), when)


def kill_this(_: Moment) -> None:
    """Die at once; no code of this process runs any more."""
    os.kill(os.getpid(), signal.SIGKILL)


def stop_this(_: Moment) -> None:
    """Stand still, all threads, until another process sends SIGCONT."""
    os.kill(os.getpid(), signal.SIGSTOP)


class Calls:
    """The calls of this process from now on, and what is done at which."""

    def __init__(self, moments: Mapping[Moment, Callable[[Moment], None]]) -> None:
        self.counts: Counter[str] = Counter()
        self._moments = dict(moments)
        self._lock = threading.Lock()
        self._acting = threading.local()
        self._pid = os.getpid()
        for name in SYSTEM_CALLS:
            if hasattr(os, name):
                setattr(os, name, self._counted(name, getattr(os, name)))
        syncing.sync_disk = self._counted("fsync", syncing.sync_disk)  # a call of Linux that Python has no name for

    def count_ours(self) -> None:
        """Count the calls between the parts of a driver too."""
        for owner, name in OUR_CALLS:
            if hasattr(owner, name):
                setattr(owner, name, self._counted(name.strip("_"), getattr(owner, name)))

    def end(self) -> None:
        """Do now what was to be done at moments that did not come."""
        for moment, act in list(self._moments.items()):
            self._moments.pop(moment, None)
            act(END)

    def _counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            if os.getpid() != self._pid or hasattr(self._acting, "now"):  # a forked child, or what a moment does
                return call(*args, **kwargs)
            number = self._count(name)
            self._reach(Moment(name, number, "before"))
            if name in WRITES and Moment(name, number, "within") in self._moments:
                descriptor, data, *offset = args
                done = call(descriptor, bytes(data)[: len(data) * 2 // 3], *offset)
                self._reach(Moment(name, number, "within"))
                return done + call(descriptor, bytes(data)[done:], *(start + done for start in offset))
            try:
                result = call(*args, **kwargs)
            except OSError as error:
                if error.errno in REFUSALS:
                    self._reach(Moment("refused", self._count("refused"), "after"))
                raise
            self._reach(Moment(name, number, "after"))
            return result

        return counted

    def _count(self, name: str) -> int:
        with self._lock:
            self.counts[name] += 1
            return self.counts[name]

    def _reach(self, moment: Moment) -> None:
        act = self._moments.pop(moment, None)
        if act is not None:
            self._acting.now = moment
            try:
                act(moment)
            finally:
                del self._acting.now

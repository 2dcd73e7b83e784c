"""Places in a trial at which its process, or its agent, is killed: by the trial itself, so that the moment is exact."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import psutil

from tests.system.trained import agent_pid

_open, _write, _close = os.open, os.write, os.close

PLACES = {"unit": 15, "reported": 15, "save": 9, "saving": 9, "saved": 9, "load": 3}
"""Each place, and how often at least a search comes by."""


class Victim(msgspec.Struct, frozen=True):
    """Who dies when a place is reached for the so-manieth time by any trial, from 1."""

    who: str
    """``runner`` or ``agent``, or several, which die at once: ``agent and driver``."""
    place: str
    number: int


class Places:
    """Counts in files, which all processes of a search share."""

    def __init__(self, folder: str, victims: Sequence[Victim]) -> None:
        self._folder = Path(folder)
        self._victims = {(victim.place, victim.number): victim.who for victim in victims}

    def reach(self, place: str) -> None:
        """Die here if it is time."""
        number = self._next(place)
        who = self._victims.get((place, number))
        if who is not None:
            self._next("deaths")
            agent = agent_pid()
            pids = {"driver": _driver_of(agent), "agent": agent, "runner": os.getpid()}
            for name, pid in pids.items():  # this process last, if it is one of them
                if name in who:
                    os.kill(pid, signal.SIGKILL)
            signal.pause()  # it dies with its agent

    def claim(self, name: str, act: Callable[[], None]) -> None:
        """Do something once in a search, in the process that comes first."""
        if self._next(name) == 1:
            act()

    def die_once(self, die: Callable[[], None]) -> None:
        """Die, if no other process of the search has been told to."""

        def counted() -> None:
            self._next("deaths")
            die()

        self.claim("agent", counted)

    def deaths(self) -> int:
        """Return how many were killed."""
        try:
            return (self._folder / "count-deaths").stat().st_size
        except FileNotFoundError:
            return 0

    def _next(self, name: str) -> int:
        descriptor = _open(self._folder / f"count-{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _write(descriptor, b".")
            return os.fstat(descriptor).st_size
        finally:
            _close(descriptor)


def _driver_of(agent: int) -> int:
    """Return the process that has launched an agent, by way of a template of workers where there is one."""
    above = psutil.Process(agent).parents()
    return next(one.pid for one in above if "asyncsearch.launch.worker_template" not in one.cmdline())

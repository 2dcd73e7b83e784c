"""Hands a configuration over to a task of this machine that was begun before there was one.

It goes through a pipe without a name, which the task opens as ``/proc/PID/fd/N``: the system allows that only to those
who may read the driver's memory anyhow. Nothing is left of it when the driver dies, and the task reads its end then.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from typing import NamedTuple

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.launch.value_pickler import dumps

IS_POSSIBLE = sys.platform == "linux"


class PipeAddress(NamedTuple):
    """Where a task finds its pipe. It is no secret."""

    process: int
    descriptor: int
    inode: int
    """By which a late task knows that its pipe is gone, and its descriptor that of another one."""


class Handover:
    """The driver's side, for one task."""

    def __init__(self) -> None:
        """Make the pipe.

        Raises:
            OSError: there are no descriptors to spare.
        """
        self._reading, writing = os.pipe()
        self._writing = open(writing, "wb")  # noqa: SIM115 - closed by each of its three methods
        self.address = PipeAddress(os.getpid(), self._reading, os.fstat(self._reading).st_ino)

    def give(self, config: WorkerConfig) -> None:
        """Give the configuration, and wait until it is read or fits into the pipe; called once."""
        # After ``close`` there is nobody to give it to, and the job's own end says why.
        with contextlib.suppress(BrokenPipeError, ValueError), self._writing:
            self._writing.write(dumps(config))

    def call_off(self) -> None:
        """Say that no configuration comes, in place of ``give``."""
        self._writing.close()

    def close(self) -> None:
        """Free the pipe once the task's job has ended. A ``give`` that still waits returns."""
        os.close(self._reading)  # first: the other end cannot be closed before that ``give`` has returned
        with contextlib.suppress(BrokenPipeError):
            self._writing.close()


def receive(address: PipeAddress) -> WorkerConfig | None:
    """Wait in the task for its configuration; None: it was called off, or the driver is gone.

    Raises:
        OSError: the pipe cannot be opened.
    """
    with open(f"/proc/{address.process}/fd/{address.descriptor}", "rb") as pipe:
        if os.fstat(pipe.fileno()).st_ino != address.inode:
            return None
        content = pipe.read()
    # Nobody can write to that pipe who could not write to the driver's memory.
    config: WorkerConfig | None = pickle.loads(content) if content else None  # noqa: S301
    return config

"""The task in Spark's Python worker, which runs the agent, and the configuration that it may be handed over later.

A task of this machine may be begun before there is a configuration. That goes through a pipe without a name, which the
task opens as ``/proc/PID/fd/N``: the system allows that only to those who may read the driver's memory anyhow. Nothing
is left of it when the driver dies, and the task reads its end then.

Rule: the process serves other tasks after this one, so change no global state: no environment, no handlers.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.errors import is_bug
from asyncsearch.launch.base_launcher import AgentFunction, import_agent
from asyncsearch.launch.value_pickler import dumps


class TaskMode(enum.Enum):
    """Kind of a worker's task."""

    INDEPENDENT = "independent"
    """Its own barrier stage, which Spark never reruns and never speculates."""
    PLAIN = "plain"
    """An ordinary task, for clusters with dynamic allocation, which forbids barrier stages."""


RUN_AGAIN = "Spark lost its task and ran it again, which only the driver may do"
NO_CONFIG = ""
"""Result of a task to which no configuration came."""

SparkTask = Callable[[Iterable[int]], list[str]]


def task(agent: AgentFunction, config: WorkerConfig | PipeAddress, mode: TaskMode) -> SparkTask:
    """Return the function that Spark pickles, which holds little except the configuration, or where it comes from."""
    return functools.partial(_run, agent, config, mode.value)


def _run(agent: AgentFunction, source: WorkerConfig | PipeAddress, mode: str, rows: Iterable[int]) -> list[str]:
    """Run the agent and return the reason for its end, or ``NO_CONFIG``.

    An exception becomes a result, because Spark would rerun a plain stage's failed task.
    """
    # Imported here and not at the top: the driver, which launches the task, needs none of it.
    from pyspark import TaskContext

    from asyncsearch.agent.runner_template import fork_template
    from asyncsearch.runner.template import main_in_fork

    del rows
    context = TaskContext.get()
    assert context is not None
    if mode == TaskMode.PLAIN.value and context.attemptNumber() > 0:
        return [RUN_AGAIN]
    fork_template(main_in_fork)
    config = source if isinstance(source, WorkerConfig) else _awaited(source)
    if config is None:
        return [NO_CONFIG]
    gpus = context.resources().get("gpu")
    if gpus is not None and config.gpus is None:
        config = msgspec.structs.replace(config, gpus=tuple(gpus.addresses))
    config = msgspec.structs.replace(config, keeps_template=True)
    try:
        return [agent(config)]
    except Exception as error:
        last = "".join(traceback.format_exception_only(error)).strip()
        return [f"its task failed: {last}\n{traceback.format_exc() if is_bug(error) else ''}".strip()]


def _awaited(address: PipeAddress) -> WorkerConfig | None:
    import_agent()
    try:
        return receive(address)
    except OSError:  # this system lets no process open the pipes of another
        return None


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
    """Wait in the task for its configuration; return None if it was called off, or the driver is gone.

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

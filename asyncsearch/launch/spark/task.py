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
import logging
import os
import pickle
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from typing import NamedTuple

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.errors import is_bug
from asyncsearch.launch.base_launcher import AgentFunction, import_agent
from asyncsearch.launch.remote.worker import MetDriver
from asyncsearch.launch.spark.base_session import AnySpark
from asyncsearch.launch.spark.broadcast import Carried
from asyncsearch.launch.spark.job_ends import refuses_barriers
from asyncsearch.launch.value_pickler import dumps

_log = logging.getLogger(__name__)


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


def task(agent: AgentFunction, config: Source, mode: TaskMode) -> SparkTask:
    """Return the function that Spark pickles, which holds little except the configuration, or where it comes from."""
    return functools.partial(_run, agent, config, mode.value)


def run_one(
    spark: AnySpark,
    function: Callable[[TaskMode], SparkTask],
    mode: TaskMode,
    *,
    tags: Sequence[str],
    description: str,
    places: Sequence[str] = (),
    prepared: Callable[[], object] = lambda: None,
) -> str:
    """Run a task to its end and return its result; as a plain one, if the cluster refuses its barrier stage.

    Args:
        function: of the task, for its kind.
        mode: its kind, as far as the settings that the session tells decide it.
    """

    def run(kind: TaskMode) -> str:
        is_barrier = kind is TaskMode.INDEPENDENT
        [result] = spark.run(
            function(kind),
            1,
            tags=tags,
            description=description,
            is_barrier=is_barrier,
            places=places,
            prepared=prepared,
        )
        return result

    if mode is TaskMode.PLAIN or spark.refuses_barriers:
        return run(TaskMode.PLAIN)
    try:
        return run(mode)
    except Exception as error:
        if not refuses_barriers(error):
            raise
    if not spark.refuses_barriers:
        spark.refuses_barriers = True
        _log.warning(
            "The cluster refuses barrier stages, as with dynamic allocation, of which the session does not tell: "
            "workers are plain Spark tasks. Spark may remove their executors, and their training since the last "
            "checkpoint is then repeated."
        )
    return run(TaskMode.PLAIN)


def _run(agent: AgentFunction, source: Source, mode: str, rows: Iterable[int]) -> list[str]:
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
    # Two agents with one lease epoch would both report: only the driver may launch a worker again.
    if mode == TaskMode.PLAIN.value and context.attemptNumber() > 0:
        return [RUN_AGAIN]
    fork_template(main_in_fork)
    config = _config_of(source)
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


def _config_of(source: Source) -> WorkerConfig | None:
    if isinstance(source, WorkerConfig):
        return source
    return _awaited(source) if isinstance(source, PipeAddress) else source.received()


def _awaited(address: PipeAddress) -> WorkerConfig | None:
    import_agent()
    try:
        return receive(address)
    except OSError:  # this system lets no process open the pipes of another
        return None


IS_POSSIBLE = sys.platform == "linux"


class PipeAddress(NamedTuple):
    """The place where a task finds its pipe. It is no secret."""

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
        # The driver has closed its pipe, and given the descriptor's number to another one.
        if os.fstat(pipe.fileno()).st_ino != address.inode:
            return None
        content = pipe.read()
    # Nobody can write to that pipe who could not write to the driver's memory.
    config: WorkerConfig | None = pickle.loads(content) if content else None  # noqa: S301
    return config


Source = Carried | PipeAddress | MetDriver
"""Where a task has its configuration from."""
CANCEL_AGAIN_S = 2.0
"""Interval of repeated cancellations: Spark ignores one that arrives before its job is submitted."""
CANCELLED_WITHIN_S = 30.0
"""Time that is waited for jobs that were cancelled."""


class SpareTask:
    """A task that is begun before a launch asks for it, so that it starts while the driver prepares the run.

    Either ``serve`` is called, once and in a thread of its own, or ``end``.
    """

    def __init__(
        self, spark: AnySpark, *, agent: AgentFunction, mode: TaskMode, tag: str, run_tag: str, description: str
    ) -> None:
        """Begin it.

        Args:
            tag: of its job alone.
            run_tag: of all jobs of the run.
            description: of its job, for people.

        Raises:
            OSError: there are no descriptors to spare.
        """
        self.tag = tag
        self._spark = spark
        self._handover = Handover()
        self._submitted = threading.Event()
        self._reason: Future[str] = Future()

        def run() -> None:
            try:
                [reason] = spark.run(
                    task(agent, self._handover.address, mode),
                    1,
                    tags=(run_tag, tag),
                    description=description,
                    is_barrier=mode is TaskMode.INDEPENDENT,
                    prepared=self._submitted.set,
                )
            except BaseException as error:
                self._free()
                self._reason.set_exception(error)
            else:
                self._free()
                self._reason.set_result(reason)

        spark.thread(run, f"asyncsearch-{tag}").start()

    def await_submission(self, timeout_s: float) -> None:
        """Wait at most ``timeout_s`` seconds until its job needs little more of this process's time."""
        self._submitted.wait(timeout_s)

    def serve(self, config: WorkerConfig) -> str:
        """Give the task a configuration, await its end, and return the reason; ``NO_CONFIG`` if it could not take it.

        Raises:
            Exception: its job failed.
        """
        self._handover.give(config)
        return self._reason.result()

    def call_off(self) -> None:
        """Tell it that no configuration comes."""
        self._handover.call_off()

    def end(self) -> None:
        """Wait for its end after ``call_off``; cancel it if it does not end by itself."""
        for _ in range(round(CANCELLED_WITHIN_S / CANCEL_AGAIN_S)):
            if wait([self._reason], CANCEL_AGAIN_S).done:
                return
            self._spark.cancel(self.tag)

    def _free(self) -> None:
        self._submitted.set()
        self._handover.close()

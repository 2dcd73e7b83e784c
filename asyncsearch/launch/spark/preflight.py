"""Checks before the first worker starts: slots, the executors' Python and packages, the driver's address."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import socket
from collections.abc import Callable, Sequence
from typing import TypeVar

from asyncsearch.errors import ClusterError, NotEnoughSlotsError, UnsupportedSparkError, UsageError
from asyncsearch.launch.base_launcher import Preflight
from asyncsearch.launch.machine import cores
from asyncsearch.launch.spark import slots
from asyncsearch.launch.spark.base_session import WAIT_LOGGED_AFTER_S, AnySpark, new_tag
from asyncsearch.launch.spark.clock_server import ClockServer
from asyncsearch.launch.spark.container_memory import given_bytes, memory_warning
from asyncsearch.launch.spark.job_ends import reason_of
from asyncsearch.launch.spark.probe import (
    PACKAGES,
    Answer,
    Callback,
    ExecutorFacts,
    as_packages_error,
    probe,
    require_same,
    why_unreached,
)
from asyncsearch.launch.spark.task import TaskMode

_log = logging.getLogger(__name__)
T = TypeVar("T")


def task_mode(spark: AnySpark) -> TaskMode:
    """Return the kind of tasks for workers: barrier tasks where they are allowed, and where one can be lost.

    In a local session none can, and a barrier stage takes longer to start.
    """
    return TaskMode.PLAIN if spark.has_dynamic_allocation or spark.is_one_process else TaskMode.INDEPENDENT


def examine(
    spark: AnySpark,
    parallelism: int | None,
    mode: TaskMode,
    start_timeout_s: float,
    *,
    remote_driver: bool | None = False,
) -> Preflight:
    """Check that the workers can run.

    Args:
        parallelism: number of workers wanted, from 1; None for one for each slot.
        start_timeout_s: time that the check itself may wait for a free slot.
        remote_driver: whether the driver is to be a task itself; None: where executors do not reach this process.

    Raises:
        ClusterError: they cannot; the message names the cause and the remedy.
        UsageError: ``parallelism`` is not a number of workers.
    """
    if parallelism is not None and parallelism < 1:
        raise UsageError(f"parallelism={parallelism} is too small: it counts workers, from 1.")
    if mode is TaskMode.INDEPENDENT and spark.has_dynamic_allocation:
        raise UnsupportedSparkError(
            "Dynamic allocation (spark.dynamicAllocation.enabled=true) does not allow barrier tasks. Omit mode=, so "
            "that workers are plain tasks, or make the session without dynamic allocation."
        )
    if spark.has_dynamic_allocation:
        workers = tasks = slots.elastic(spark, parallelism)
    else:
        workers, tasks = slots.fixed(spark, parallelism)
    host, bind = addresses(spark.driver_conf, spark.is_local, spark.machine)
    unreached = ""
    if not spark.runs_this_python:
        server = None if remote_driver else ClockServer(host, bind, port(spark.conf))
        unreached = _check_new_executors(spark, tasks, server, start_timeout_s)
    if unreached and (remote_driver is False or not spark.has_detached_tasks):
        raise ClusterError(f"{unreached} {_UNREACHED}")
    if unreached or remote_driver:
        return _remote(spark, parallelism, workers, mode, unreached)
    return Preflight(
        parallelism=workers,
        cpu_threads=spark.cpus_per_task,
        given_bytes=given_bytes(spark.conf, spark.master, spark.cpus_per_task),
        host=host,
        bind=bind,
        port=port(spark.conf),
        launches_at_once=max(1, cores() - 1) if spark.is_one_process and not spark.has_served else None,
        warnings=tuple(warnings(spark, mode)),
        is_elastic=spark.has_dynamic_allocation or not spark.is_made_here,
        place=spark.place,
    )


def _remote(spark: AnySpark, parallelism: int | None, workers: int, mode: TaskMode, unreached: str) -> Preflight:
    """Return the findings for a driver that is a task itself, and has a slot of its own."""
    there = spark.slots() if not spark.has_dynamic_allocation else None
    if there is not None and workers >= there:
        if there < 2 or parallelism is not None:
            wider = "" if there > 1 else ", and a cluster with 2 slots"
            raise NotEnoughSlotsError(
                f"{unreached} The driver of this search is therefore a task of the cluster, in a slot of its own, so "
                f"{max(workers, 1) + 1} slots are needed, and {spark.master} has {there}. Use "
                f"parallelism={max(1, there - 1)}{wider}.".strip()
            )
        workers = there - 1
    why = f"{unreached} So the" if unreached else "The"
    note = f"{why} driver of this search is a task of the cluster, in a slot of its own, and all comes by the store."
    return Preflight(
        parallelism=workers,
        cpu_threads=spark.cpus_per_task,
        given_bytes=given_bytes(spark.conf, spark.master, spark.cpus_per_task),
        bind="127.0.0.1" if spark.is_one_process else "0.0.0.0",
        warnings=(note, *warnings(spark, mode)),
        place=spark.place,
        is_remote=True,
    )


def warnings(spark: AnySpark, mode: TaskMode) -> list[str]:
    """Return warnings about the session and the settings of the application."""
    found = warnings_of_settings(spark, mode)
    # spark-submit has the master from its command, and its session ends with the application in any case.
    if spark.is_made_here and "PYSPARK_GATEWAY_PORT" not in os.environ:
        found.insert(
            0,
            f"There was no Spark session, so that one with master {spark.master} was started for this run; it "
            "ends with it. To choose its master, or to keep it for the next run, write before: "
            'SparkSession.builder.master("local[4]").getOrCreate().',
        )
    return found


def warnings_of_settings(spark: AnySpark, mode: TaskMode) -> list[str]:
    """Return warnings about the settings of the application."""
    found = []
    if spark.has_dynamic_allocation:
        found.append(
            "Dynamic allocation is on, so workers are plain Spark tasks: Spark may remove their executors, and their "
            "training since the last checkpoint is then repeated. Save more often (save_every=), or switch it off."
        )
    threshold = "spark.speculation.task.duration.threshold"
    may_repeat = mode is TaskMode.PLAIN and not spark.is_one_process
    if may_repeat and spark.is_on("spark.speculation") and spark.conf(threshold):
        found.append(
            f"spark.speculation with {threshold} starts copies of tasks that run long, as all workers do: switch it "
            "off for this application."
        )
    idle = spark.conf("spark.python.worker.idleTimeoutSeconds", "0").strip()
    if idle not in ("", "0", "0s") or spark.is_on("spark.python.worker.killOnIdleTimeout"):
        found.append(
            f"spark.python.worker.idleTimeoutSeconds={idle} may kill workers, which are silent towards Spark while "
            "they train: set it to 0, and spark.python.worker.killOnIdleTimeout to false."
        )
    gpus = ("spark.executor.resource.gpu.amount", "spark.task.resource.gpu.amount")
    if spark.conf("spark.executor.pyspark.memory") and any(spark.conf(key, "0") != "0" for key in gpus):
        found.append(
            "spark.executor.pyspark.memory limits the address space of trials, and CUDA asks for more of it than there "
            "is memory: remove it, and raise spark.executor.memoryOverhead instead."
        )
    overhead = memory_warning(spark.conf, spark.master, spark.cpus_per_task)
    return [*found, overhead] if overhead else found


def _check_new_executors(spark: AnySpark, slots: int, server: ClockServer | None, timeout_s: float) -> str:
    """Ask each executor that no earlier check has seen, by one task; all slots if Spark cannot name its executors.

    Args:
        server: they try to reach this; None if nobody needs to.

    Returns:
        Why they do not reach this process; empty if they do.
    """
    found = spark.executors()
    new = [one for one in found or () if one.name not in spark.examined]
    if found and not new:
        return ""
    # Without an executor one task brings the first, where the cluster allocates them as tasks come.
    tasks = slots if found is None else max(1, len(new))
    with contextlib.ExitStack() as stack:
        driver = None
        with contextlib.suppress(OSError):  # the port is taken, or the address is not ours, as the driver will say
            if server is not None:
                stack.enter_context(server)
                driver = Callback(server.host, server.port, server.token)
        answers = _ask_executors(spark, tasks, [one.place for one in new], driver, timeout_s)
    unreached = "" if driver is None else why_unreached(answers, driver.host, driver.port)
    # Else some were busy, and others ran their tasks; or this was about their packages alone.
    if not unreached and server is not None and len({(one.host, one.parent) for one in answers}) == len(new):
        spark.examined.update(one.name for one in new)
    return unreached


def _ask_executors(
    spark: AnySpark, tasks: int, places: Sequence[str], driver: Callback | None, timeout_s: float
) -> Sequence[ExecutorFacts]:
    """Run the probe, and return the answers of executors that are fit for workers."""
    tag = new_tag("check")
    done: queue.SimpleQueue[list[Answer] | Exception] = queue.SimpleQueue()

    def run() -> None:
        words = "asyncsearch: check of the executors"
        try:
            look = probe(PACKAGES, driver)
            done.put(spark.run(look, tasks, tags=(tag,), description=words, is_barrier=False, places=places))
        except Exception as error:
            done.put(error)

    spark.thread(run, "asyncsearch-check").start()
    try:
        result = _await(done, timeout_s)
    except BaseException:  # an interrupt of this thread does not end a Spark job
        spark.cancel(tag)
        raise
    if isinstance(result, Exception):
        raise as_packages_error(result, spark.is_local) or ClusterError(
            f"The check of the executors failed: {reason_of(result)}. Look at the executors' logs."
        ) from result
    answers = [ExecutorFacts(*answer) for answer in result]
    require_same(answers, spark.is_local)
    return answers


_UNREACHED = (
    "Set spark.asyncsearch.driver.host to the name or address of this machine at which they reach it, and "
    "spark.asyncsearch.driver.port to a port that the firewalls between them let through; if there is no such way, let "
    "the search's driver be a task of the cluster, with a store that both reach: Study(..., backend='spark-cluster')."
)


def _await(done: queue.SimpleQueue[T], timeout_s: float) -> T:
    logged_after_s = min(WAIT_LOGGED_AFTER_S, timeout_s)
    try:
        return done.get(timeout=logged_after_s)
    except queue.Empty:
        _log.warning("The check of the executors waits for a free task slot, or for Python to start there.")
    try:
        return done.get(timeout=timeout_s - logged_after_s)
    except queue.Empty:
        raise NotEnoughSlotsError(
            f"No task slot became free within {timeout_s:.0f} s: other jobs of this session hold them. Wait for their "
            "end, or cancel them."
        ) from None


_WILDCARDS = ("", "0.0.0.0", "::", "[::]")
HOST_KEY = "spark.asyncsearch.driver.host"
BIND_KEY = "spark.asyncsearch.driver.bindAddress"
PORT_KEY = "spark.asyncsearch.driver.port"


def addresses(
    conf: Callable[[str], str], is_local: bool, machine: Callable[[], str] = socket.gethostname
) -> tuple[str, str]:
    """Return (host, bind): the name at which workers reach the driver, and the address on which it listens.

    Args:
        conf: returns a setting of Spark, empty if it is not set.
        is_local: whether all executors are on this machine.
    """
    if is_local:
        return "127.0.0.1", "127.0.0.1"
    # On Kubernetes Spark may set the driver's host to its wildcard bind address.
    named = (conf(HOST_KEY), conf("spark.driver.host"))
    host = next((name for name in named if name not in _WILDCARDS), "") or machine()
    bind = conf(BIND_KEY) or conf("spark.driver.bindAddress")
    if not bind:
        everywhere = "::" if ":" in host else "0.0.0.0"
        bind = "127.0.0.1" if host.startswith("127.") or host == "localhost" else everywhere
    return _bracketed(host), _bracketed(bind)


def port(conf: Callable[[str], str]) -> int:
    """Return the port on which the driver must listen, 0 for any free one.

    Raises:
        UsageError: the setting is not a port.
    """
    text = conf(PORT_KEY).strip() or "0"
    if not text.isdecimal() or int(text) > 65_535:
        raise UsageError(f"{PORT_KEY}={text!r} is not a port: write a number up to 65535, or omit it for any port.")
    return int(text)


def _bracketed(address: str) -> str:
    """Return an address in a form to which a port can be appended."""
    return f"[{address}]" if ":" in address and not address.startswith("[") else address

"""Checks before the first worker starts: slots, the executors' Python and packages, the driver's address."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable

from asyncsearch.errors import ClusterError, NotEnoughSlotsError, UnsupportedSparkError, UsageError
from asyncsearch.launch.base_launcher import Preflight
from asyncsearch.launch.machine import cores
from asyncsearch.launch.spark import slots
from asyncsearch.launch.spark.base_session import AnySpark
from asyncsearch.launch.spark.clock_server import ClockServer
from asyncsearch.launch.spark.container_memory import given_bytes, memory_warning
from asyncsearch.launch.spark.probe import PACKAGES, Callback, ExecutorFacts, probe, require_same, why_unreached
from asyncsearch.launch.spark.spark_answers import ask_executors
from asyncsearch.launch.spark.task import TaskMode


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
        remote_driver: whether the driver is to be a task itself. None means where executors do not reach this process.

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
        look, places = probe(PACKAGES, driver), [one.place for one in new]
        answers = [
            ExecutorFacts(*answer)
            for answer in ask_executors(spark, look, tasks, what=_CHECK, timeout_s=timeout_s, places=places)
        ]
    require_same(answers, spark.is_local)
    unreached = "" if driver is None else why_unreached(answers, driver.host, driver.port)
    # Else some were busy, and others ran their tasks; or this was about their packages alone.
    if not unreached and server is not None and len({(one.host, one.parent) for one in answers}) == len(new):
        spark.examined.update(one.name for one in new)
    return unreached


_CHECK = "check of the executors"
_UNREACHED = (
    "Set spark.asyncsearch.driver.host to the name or address of this machine at which they reach it, and "
    "spark.asyncsearch.driver.port to a port that the firewalls between them let through; if there is no such way, let "
    "the search's driver be a task of the cluster, with a store that both reach: Study(..., backend='spark-cluster')."
)


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

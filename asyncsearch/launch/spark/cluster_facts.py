"""The offers of a Spark session to a search: slots, settings, and the facts that its tasks find on their machines."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from asyncsearch.errors import AsyncSearchError, ClusterError, NotEnoughSlotsError
from asyncsearch.launch.spark import slots
from asyncsearch.launch.spark.base_session import new_tag
from asyncsearch.launch.spark.clock_server import ClockServer
from asyncsearch.launch.spark.job_ends import reason_of
from asyncsearch.launch.spark.joining import join
from asyncsearch.launch.spark.preflight import addresses, port, task_mode, warnings_of_settings
from asyncsearch.launch.spark.probe import PACKAGES, as_packages_error
from asyncsearch.launch.spark.task_facts import StoreView, TaskFacts, store_view, task_facts

T = TypeVar("T")

_MOST_TASKS = 256
"""Tasks that are asked at once."""
_SETTINGS = (
    "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.maxExecutors",
    "spark.task.cpus",
    "spark.task.resource.gpu.amount",
    "spark.executor.resource.gpu.amount",
    "spark.executor.memory",
    "spark.executor.memoryOverhead",
)


class ClusterFacts(msgspec.Struct, kw_only=True):
    """The facts about a Spark session."""

    place: str
    """Its master: "local[2]", "yarn"."""
    spark_version: str
    is_local: bool
    settings: dict[str, str]
    """Those that matter to workers, as far as they are set."""
    driver: str
    """Where workers are told to connect: "host:port"."""
    packages: dict[str, str]
    """Versions on the driver, by the names that install them."""
    warnings: tuple[str, ...] = ()
    """Warnings about settings, with the line to change."""
    slots: int = 0
    slots_failure: str = ""
    """Why the number of workers is not known; empty if it is."""
    failure: str = ""
    """Why the tasks could not be asked; empty if they were."""
    tasks: tuple[TaskFacts, ...] = ()


class ExaminedSession:
    """A Spark session that is looked at, inside ``with ExaminedSession() as cluster: ...``."""

    def __init__(self, session: Any = None, *, timeout_s: float = 300.0) -> None:
        """Join a session: the given or the active one, else a new one.

        Args:
            timeout_s: time that the tasks may take, the wait for free slots included.

        Raises:
            UnsupportedSparkError: there is none, and none can be made.
        """
        self._spark = join(session)
        self._timeout_s = timeout_s
        self._tasks = 1

    def __enter__(self) -> ExaminedSession:
        return self

    def __exit__(self, *_: object) -> None:
        self._spark.close()

    def facts(self) -> ClusterFacts:
        """Return the facts about the session, and those that its tasks find."""
        spark = self._spark
        host, bind = addresses(spark.driver_conf, spark.is_local, spark.machine)
        packages = {"asyncsearch": "asyncsearch", "hdfs_native": "hdfs-native", **PACKAGES}
        found = ClusterFacts(
            place=spark.place.removeprefix("Spark "),
            spark_version=spark.version,
            is_local=spark.is_local,
            settings={key: spark.conf(key) for key in _SETTINGS if spark.conf(key)},
            driver=host,
            packages={},
            warnings=tuple(warnings_of_settings(spark, task_mode(spark))),
        )
        self._count(found)
        try:
            with ClockServer(host, bind, port(spark.conf)) as server:
                found.driver = f"{host}:{server.port}"
                look = task_facts(packages, server.host, server.port, server.token)
                found.packages = dict(look([])[0]["packages"])
                found.tasks = tuple(TaskFacts(**one) for one in self._run(look, "asyncsearch: doctor"))
        except OSError as error:
            found.failure = f"the driver cannot listen on {bind} for {host}: {error}"
        except AsyncSearchError as error:
            found.failure = str(error)
        return found

    def look_for(self, url: str, name: str, content: bytes, checkpoint_bytes: int) -> list[StoreView]:
        """Return how the tasks see a store, each of which saves and loads a checkpoint of that size at once.

        Raises:
            ClusterError: the tasks could not be asked.
        """
        look = store_view(url, name, content, checkpoint_bytes)
        return [StoreView(**one) for one in self._run(look, "asyncsearch: store")]

    def _count(self, found: ClusterFacts) -> None:
        try:
            if self._spark.has_dynamic_allocation:
                found.slots = slots.elastic(self._spark, None)
            else:
                found.slots = slots.fixed(self._spark, None)[1]
        except NotEnoughSlotsError as error:
            found.slots_failure = str(error)
        self._tasks = min(max(1, found.slots), _MOST_TASKS)

    def _run(self, look: Callable[[Iterable[Any]], list[T]], description: str) -> list[T]:
        """Run a function in a task of each slot, all at once, so that each executor has some."""
        tag = new_tag("doctor")
        done: queue.SimpleQueue[list[T] | Exception] = queue.SimpleQueue()

        def run() -> None:
            try:
                done.put(self._spark.run(look, self._tasks, tags=(tag,), description=description, is_barrier=False))
            except Exception as error:
                done.put(error)

        self._spark.thread(run, "asyncsearch-doctor").start()
        try:
            result = done.get(timeout=self._timeout_s)
        except queue.Empty:
            self._spark.cancel(tag)
            raise NotEnoughSlotsError(
                f"No task slot became free within {self._timeout_s:.0f} s: other jobs hold them, or the cluster gives "
                "this application no executors. Look at its page in the cluster's web interface."
            ) from None
        except BaseException:  # an interrupt of this thread does not end a Spark job
            self._spark.cancel(tag)
            raise
        if isinstance(result, Exception):
            raise as_packages_error(result, self._spark.is_local) or ClusterError(
                f"The executors could not be asked: {reason_of(result)}. Look at their logs."
            ) from result
        return result

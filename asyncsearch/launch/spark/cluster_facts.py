"""The offers of a Spark session to a search: slots, settings, and the facts that its tasks find on their machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import msgspec

from asyncsearch.errors import AsyncSearchError, NotEnoughSlotsError
from asyncsearch.launch.spark import slots
from asyncsearch.launch.spark.clock_server import ClockServer
from asyncsearch.launch.spark.joining import join
from asyncsearch.launch.spark.preflight import addresses, port, task_mode, warnings_of_settings
from asyncsearch.launch.spark.probe import PACKAGES
from asyncsearch.launch.spark.spark_answers import ask_executors
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
                found.tasks = tuple(TaskFacts(**one) for one in self._ask(look))
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
        return [StoreView(**one) for one in self._ask(look)]

    def _count(self, found: ClusterFacts) -> None:
        try:
            if self._spark.has_dynamic_allocation:
                found.slots = slots.elastic(self._spark, None)
            else:
                found.slots = slots.fixed(self._spark, None)[1]
        except NotEnoughSlotsError as error:
            found.slots_failure = str(error)
        self._tasks = min(max(1, found.slots), _MOST_TASKS)

    def _ask(self, look: Callable[[Iterable[Any]], list[T]]) -> list[T]:
        """Run a function in a task of each slot, all at once, so that each executor has some."""
        return ask_executors(self._spark, look, self._tasks, what="examination", timeout_s=self._timeout_s)

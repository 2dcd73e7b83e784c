"""A classic Spark session, whose Java process this one talks to.

Rule: every method talks to the JVM over the calling thread's own connection; gRPC's threads call none.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeVar

from asyncsearch.errors import UnsupportedSparkError
from asyncsearch.launch.base_launcher import Tokens
from asyncsearch.launch.delegation_tokens import delegation_tokens
from asyncsearch.launch.spark import job_ends, placement
from asyncsearch.launch.spark.base_session import AnySpark
from asyncsearch.launch.spark.probe import has_this_environment

T = TypeVar("T")

_GROUP_KEY = "spark.jobGroup.id"
_PYTHON_KEY = "spark.pyspark.python"


class Spark(AnySpark):
    """A classic Spark session."""

    def __init__(self, context: Any, made: Made | None = None) -> None:
        """Wrap a context; ``made`` counts the users of a session made here."""
        self.context = context
        self._made = made
        self._properties: Any = None
        self._places = job_ends.TaskPlaces(context)
        self._departures: job_ends.Departures | None = None
        self._emptiest = placement.Emptiest(self._busy)

    def conf(self, key: str, default: str = "") -> str:
        # Not getConf(): it copies each setting by a call of the JVM, some 40 ms in all.
        return str(self.context._conf.get(key, default))

    @property
    def master(self) -> str:
        return str(self.context.master)

    @property
    def version(self) -> str:
        return str(self.context.version)

    def machine(self) -> str:
        return socket.gethostname()

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def is_made_here(self) -> bool:
        return self._made is not None

    @property
    def hands_over(self) -> bool:
        return self.is_one_process

    @property
    def _decommissions(self) -> bool:
        return self.is_on(job_ends.DECOMMISSION_SETTING)

    @property
    def tells_departures(self) -> bool:
        return (self._decommissions or self.has_dynamic_allocation) and not self.is_one_process

    def executors(self) -> Sequence[placement.Executor] | None:
        try:
            return placement.executors(self.context)
        except Exception:  # an internal name of Spark has changed, or Spark is gone
            return None

    @property
    def examined(self) -> set[str]:
        return KNOWN.examined.setdefault(self.context, set())

    @property
    def has_served(self) -> bool:
        return self.context in KNOWN.served

    def serves(self) -> None:
        KNOWN.served.add(self.context)

    @property
    def runs_this_python(self) -> bool:
        return self.is_local and has_this_environment(str(self.context.pythonExec))

    @property
    def age_s(self) -> float:
        return time.time() - float(self.context.startTime) / 1000

    def slots(self) -> int | None:
        scala = self.context._jsc.sc()
        profile = scala.resourceProfileManager().defaultResourceProfile()
        return int(scala.maxNumConcurrentTasks(profile))

    def run(
        self,
        task: Callable[[Iterable[int]], Iterable[T]],
        tasks: int,
        *,
        tags: Sequence[str],
        description: str,
        is_barrier: bool,
        places: Sequence[str] = (),
        prepared: Callable[[], object] = lambda: None,
    ) -> list[T]:
        for tag in tags:
            self.context.addJobTag(tag)
        self._name(description, tags[-1])
        rows = self._rows(tasks, places)
        job = (rows.barrier() if is_barrier else rows).mapPartitions(task)
        job.id()  # pickles the task, and makes the job's objects in the JVM
        prepared()
        return _collected(job)

    def _name(self, description: str, group: str) -> None:
        """Name this thread's jobs and their stages; they stay in a job group of the user's, who may end them by it."""
        self.context.setJobDescription(description)
        self.context.setLocalProperty("callSite.short", description)
        if self.context.getLocalProperty(_GROUP_KEY) is None:
            self.context.setLocalProperty(_GROUP_KEY, group)

    def _rows(self, tasks: int, places: Sequence[str]) -> Any:
        if all(places) and len(places) == tasks:
            with contextlib.suppress(Exception):  # an internal name of Spark has changed: any place will do
                return placement.placed(self.context, places)
        return self.context.parallelize(range(tasks), tasks)

    def emptiest(self) -> str:
        if self.is_one_process:
            return ""
        with contextlib.suppress(Exception):  # an internal name of Spark has changed, or Spark is gone
            return self._emptiest.choose()
        return ""

    def _busy(self) -> list[tuple[placement.Executor, int]]:
        running = placement.running_tasks(self.context)
        return [(one, running.get(one.name, 0)) for one in placement.executors(self.context)]

    def broadcast(self, data: bytes) -> Any:
        return self.context.broadcast(data)

    def cancel(self, tag: str) -> None:
        self.context.cancelJobsWithTag(tag)

    def running(self) -> Set[str] | None:
        try:
            return {tag for tags, _ in self._places.look() for tag in tags}
        except Exception:  # an internal name of Spark has changed, a job has just ended, or Spark is gone
            return None

    def departures(self) -> Mapping[str, str]:
        if self._departures is None:
            self._departures = job_ends.Departures(
                self.context, self._places, decommissions=self._decommissions, reruns=self.has_dynamic_allocation
            )
        return self._departures.look()

    def tokens_for(self, url: str) -> Tokens | None:
        return None if self.is_local else delegation_tokens(self.context, url)

    def inherit(self) -> None:
        """Give threads from ``thread`` the calling thread's present job properties: pool, job group, tags."""
        self._properties = self.context._jsc.sc().getLocalProperties().clone()

    def thread(self, target: Callable[[], None], name: str) -> Any:
        """Return a thread, not started, with its own job properties, initially those of ``inherit``."""
        from pyspark import InheritableThread

        def run() -> None:
            if self._properties is not None:
                with contextlib.suppress(Exception):  # Spark is gone, as the target will find
                    self.context._jsc.sc().setLocalProperties(self._properties.clone())
            target()

        return InheritableThread(target=run, name=name, daemon=True)

    def close(self) -> None:
        made, self._made = self._made, None
        with KNOWN.making:
            if made is None:
                return
            made.users -= 1
            if not made.users:
                KNOWN.made.pop(self.context, None)
                made.session.stop()


def _collected(job: Any) -> list[Any]:
    """Return the results of ``collect``, under the name that the job has.

    ``collect`` would name it after a line of this file, and all others of the process after none as long as it lasts.
    """
    from pyspark import RDD

    load = getattr(sys.modules[RDD.__module__], "_load_from_socket", None)
    if load is None:  # an internal name of Spark has changed
        return list(job.collect())
    found = load(job.ctx._jvm.PythonRDD.collectAndServe(job._jrdd.rdd()), job._jrdd_deserializer)
    # Spark 4 returns what closes its socket; Spark 3 closes it at the last result.
    with found if hasattr(found, "__exit__") else contextlib.nullcontext(found) as results:
        return list(results)


class Made:
    """A session made here. Launchers of concurrent studies share it."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.users = 0


class _KnownContexts:
    """The contexts of this process, of which Spark itself has one at a time."""

    def __init__(self) -> None:
        self.making = threading.RLock()
        """Held while a session is made, and while its users are counted."""
        self.made: dict[Any, Made] = {}
        """Sessions made here and not stopped."""
        self.examined: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
        """The executors of each that were fit for workers."""
        self.served: weakref.WeakSet[Any] = weakref.WeakSet()
        """Those in which workers were launched."""


KNOWN = _KnownContexts()


def checked(spark: Spark) -> Spark:
    """Return a session that can be used, with the calling thread's job properties.

    Raises:
        UnsupportedSparkError: it cannot.
    """
    from py4j.clientserver import ClientServer

    if spark.context._jsc is None or spark.context._jsc.sc().isStopped():
        raise UnsupportedSparkError("The Spark session was stopped. Make a new one, or omit session=.")
    if not isinstance(spark.context._gateway, ClientServer):
        raise UnsupportedSparkError(
            "PYSPARK_PIN_THREAD=false makes all threads share the tags of their Spark jobs, so that ending one worker "
            "would end all. Remove it from the environment and start the session again."
        )
    if spark.is_local and sys.executable and "PYSPARK_PYTHON" not in os.environ and not spark.conf(_PYTHON_KEY):
        # Otherwise its workers would run the first python3 of PATH, which has other packages.
        spark.context.pythonExec = sys.executable
    spark.inherit()
    return spark

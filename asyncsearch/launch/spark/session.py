"""The Spark session that a study joins, and the operations that it needs.

Rule: every method talks to the JVM over the calling thread's own connection; gRPC's threads call none.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence, Set
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

from asyncsearch.errors import UnsupportedSparkError
from asyncsearch.launch.spark import job_ends, placement
from asyncsearch.launch.spark.probe import has_this_environment

T = TypeVar("T")

WAIT_LOGGED_AFTER_S = 10.0
"""Time of waiting for a free task slot after which a warning is logged."""

_QUIET = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
"""Settings of sessions made here: jobs as long as a search would fill the screen with progress bars."""

_GROUP_KEY = "spark.jobGroup.id"
_PYTHON_KEY = "spark.pyspark.python"
_CONNECT = (
    "This is a Spark Connect session, and asyncsearch needs a classic one: its workers are tasks of an RDD, and they "
    "talk to this process, which the cluster of a Connect client usually cannot reach. Run it where the Spark driver "
    "runs: by spark-submit, or with SparkSession.builder.master(...) instead of .remote(...), on Databricks on a "
    "cluster with dedicated access mode. Or pass backend='processes' to run the workers on this machine."
)


def new_tag(study: str) -> str:
    """Return a tag for the jobs of one run; Spark does not allow commas in it."""
    return f"{job_ends.TAG}{study.replace(',', '_')}-{secrets.token_hex(4)}"


class Spark:
    """A classic Spark session."""

    def __init__(self, context: Any, made: Made | None = None) -> None:
        """Wrap a context; ``made`` counts the users of a session made here."""
        self.context = context
        self._made = made
        self._properties: Any = None
        self._places = job_ends.TaskPlaces(context)
        self._emptiest = placement.Emptiest(self._busy)

    def conf(self, key: str, default: str = "") -> str:
        """Return a setting of the application."""
        # Not getConf(): it copies each setting by a call of the JVM, some 40 ms in all.
        return str(self.context._conf.get(key, default))

    def is_on(self, key: str) -> bool:
        """Return whether a setting is ``true``."""
        return self.conf(key).strip().lower() == "true"

    @property
    def is_local(self) -> bool:
        """Whether all executors are on this machine, with this one."""
        return str(self.context.master).startswith("local")

    @property
    def is_one_process(self) -> bool:
        """Whether its tasks are threads of the driver's own Java process: none is lost alone or run a second time."""
        return re.match(r"local(\[|$)", str(self.context.master)) is not None

    @property
    def is_made_here(self) -> bool:
        """Whether the session was made for a run, and is stopped after it."""
        return self._made is not None

    def executors(self) -> Sequence[placement.Executor] | None:
        """Return the executors that are there; None if Spark cannot tell."""
        try:
            return placement.executors(self.context)
        except Exception:  # an internal name of Spark has changed, or Spark is gone
            return None

    @property
    def examined(self) -> set[str]:
        """The names of the executors that were found fit for workers in this session."""
        return _KNOWN.examined.setdefault(self.context, set())

    @property
    def has_served(self) -> bool:
        """Whether workers ran in this session before, so that its Python processes have imported their packages."""
        return self.context in _KNOWN.served

    def serves(self) -> None:
        """Note that a worker is launched here."""
        _KNOWN.served.add(self.context)

    @property
    def runs_this_python(self) -> bool:
        """Whether its tasks run on this machine, in the environment in which asyncsearch runs here."""
        return self.is_local and has_this_environment(str(self.context.pythonExec))

    @property
    def has_dynamic_allocation(self) -> bool:
        """Whether executors come and go; Spark ignores the setting in local mode."""
        return self.is_on("spark.dynamicAllocation.enabled") and not self.is_local

    @property
    def cpus_per_task(self) -> int:
        """Cores of one task, from 1; half a core counts as one."""
        try:
            return max(1, math.ceil(Decimal(self.conf("spark.task.cpus", "1"))))
        except InvalidOperation:
            return 1

    @property
    def age_s(self) -> float:
        """Seconds since the application started."""
        return time.time() - float(self.context.startTime) / 1000

    def slots(self) -> int:
        """Return the number of tasks that the current executors can run at once."""
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
        """Run a stage and return its tasks' results. Call it in a thread made by ``thread``: tags belong to threads.

        Args:
            places: for each task the one that it prefers, of ``Executor.place``; empty for any.
            prepared: called once the task is pickled, when Spark needs little more of this process's time.
        """
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
        """Return the place for the next worker; empty if any will do."""
        if self.is_one_process:
            return ""
        with contextlib.suppress(Exception):  # an internal name of Spark has changed, or Spark is gone
            return self._emptiest.choose()
        return ""

    def _busy(self) -> list[tuple[placement.Executor, int]]:
        running = placement.running_tasks(self.context)
        return [(one, running.get(one.name, 0)) for one in placement.executors(self.context)]

    def broadcast(self, data: bytes) -> Any:
        """Give bytes to all executors that will ask for them, until ``destroy`` of the result."""
        return self.context.broadcast(data)

    def cancel(self, tag: str) -> None:
        """Cancel the jobs with a tag. The Python workers live up to five seconds longer."""
        self.context.cancelJobsWithTag(tag)

    def running(self) -> Set[str] | None:
        """Return the tags of workers' jobs whose task has found a slot, by one look; None if Spark cannot tell."""
        try:
            return {tag for tags, _ in self._places.look() for tag in tags}
        except Exception:  # an internal name of Spark has changed, a job has just ended, or Spark is gone
            return None

    def leaving(self) -> Set[str]:
        """Return the tags of all workers' jobs on an executor that is being decommissioned, by one look."""
        return job_ends.leaving(self.context, self._places)

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
        """Release the session; the last user to do so stops it, if it was made here."""
        made, self._made = self._made, None
        with _KNOWN.making:
            if made is None:
                return
            made.users -= 1
            if not made.users:
                _KNOWN.made.pop(self.context, None)
                made.session.stop()


def _collected(job: Any) -> list[Any]:
    """Return what ``collect`` returns, under the name that the job has.

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


_KNOWN = _KnownContexts()


def present(session: Any = None) -> Spark | None:
    """Return the given or active session, to be looked at only; None if no classic one runs."""
    context = getattr(session, "_sc", None)
    if session is None:
        context = getattr(getattr(sys.modules.get("pyspark"), "SparkContext", None), "_active_spark_context", None)
    if context is None or context._jsc is None or context._jsc.sc().isStopped():
        return None
    return Spark(context)


def is_java_there() -> bool:
    """Return whether Spark's Java process runs already: that of an earlier session, or of ``spark-submit``."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return "PYSPARK_GATEWAY_PORT" in os.environ or getattr(context, "_gateway", None) is not None


def join(session: Any = None) -> Spark:
    """Join the given or active session, or make one; its jobs have the calling thread's job properties.

    The tasks of a local session run this Python, unless the user has named another one.

    Raises:
        UnsupportedSparkError: there is no pyspark or no Java, or the session is of a kind that cannot be used.
    """
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UnsupportedSparkError(
            f"pyspark cannot be imported: {error}. Install 'asyncsearch[spark]' with pip, or pass backend='processes'."
        ) from error
    if tuple(map(int, re.findall(r"\d+", pyspark.__version__)[:2])) < (3, 5):
        raise UnsupportedSparkError(f"pyspark {pyspark.__version__} is too old: asyncsearch needs 3.5.1 or newer.")
    _refuse_connect(session)
    from pyspark import SparkContext

    with _KNOWN.making:
        found = session or SparkSession.getActiveSession()
        context = SparkContext._active_spark_context if found is None else found.sparkContext
        if context is None:
            context = _make(SparkSession.builder)
        spark = Spark(context, _KNOWN.made.get(context))
        if spark._made is not None:
            spark._made.users += 1
    try:
        return _checked(spark)
    except BaseException:
        spark.close()
        raise


def _make(builder: Any) -> Any:
    """Make a session, and return its context."""
    try:
        builder = builder.appName("asyncsearch")
        for key, value in _QUIET.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    except Exception as error:
        raise UnsupportedSparkError(
            f"Spark could not be started: {job_ends.full_text(error).splitlines()[0]}. It needs Java 17 or newer "
            "(JAVA_HOME); where there is none, pass backend='processes'."
        ) from error
    context = session.sparkContext
    _KNOWN.made[context] = Made(session)
    return context


def _checked(spark: Spark) -> Spark:
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


def _refuse_connect(session: Any) -> None:
    from pyspark.sql.utils import is_remote

    if is_remote() or type(session).__module__.startswith("pyspark.sql.connect"):
        raise UnsupportedSparkError(_CONNECT)

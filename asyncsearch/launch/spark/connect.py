"""A session of Spark Connect: each task is a query, for this process has no connection to Spark's Java.

A query begins when its result is fetched, and ends with it: what a task says while it runs goes over the agent's own
stream. Spark Connect tells how many tasks of a query run, and nothing of executors, slots and places.

Rule: Spark's client tries for minutes to reach a server that is gone, so only a query's own thread may wait for it.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import socket
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any, TypeVar

from asyncsearch.launch.machine import cores
from asyncsearch.launch.spark import tag_notes
from asyncsearch.launch.spark.arrow_tasks import answer_in, arrow_task
from asyncsearch.launch.spark.base_session import AnySpark
from asyncsearch.launch.spark.connect_server import (
    LOOK_AGAIN_S,
    end_left_queries,
    give_up_retries,
    require_connect,
    server_answer,
    silence,
    why_silent,
)
from asyncsearch.launch.spark.job_ends import is_closed_session
from asyncsearch.launch.spark.placement import DRIVER, Executor
from asyncsearch.launch.spark.probe import has_this_environment

_log = logging.getLogger(__name__)
T = TypeVar("T")

_LOOPBACK = ("localhost", "127.", "::1", "[::1]")
EXECUTOR_DEVICES = "spark.executor.resource.gpu.amount"
_ANY_PORT = 9
"""A datagram socket that is "connected" sends nothing, so that its port does not matter."""


class ConnectSpark(AnySpark):
    """A session of Spark Connect."""

    has_broadcasts = False
    has_detached_tasks = True

    def __init__(self, session: Any) -> None:
        """Wrap a session, and ask its server for the settings.

        Raises:
            UnsupportedSparkError: its server does not tell them, or one of the two sides is too old.
            ClusterError: its server does not answer.
        """
        require_connect(session)
        self.session = session
        found = server_answer(session, lambda: session.conf.getAll, "settings")
        self._settings = {str(key): str(value) for key, value in found.items()}
        self._tags = frozenset(session.getTags())
        self._mine = threading.local()
        """In the thread of a query: its tags."""
        self._guard = threading.Lock()
        self._running: set[str] = set()
        self._cancelling: set[str] = set()
        self._server = str(session.client.host)
        self._listened: list[Any] = []
        """The sessions whose progress is heard."""
        self._is_renewed = False
        self._devices = 0.0
        """How many devices each task asks for by a profile; 0 for the default of its cluster."""
        self._look: tuple[float, OSError | None] = (0.0, None)
        """When the server was last looked for, and what was wrong."""

    @property
    def master(self) -> str:
        return self.conf("spark.master")

    @property
    def place(self) -> str:
        return f"Spark Connect on {self._server}" + (f" ({self.master})" if self.master else "")

    @property
    def version(self) -> str:
        return str(self.session.version)

    @property
    def is_local(self) -> bool:
        return self.is_one_process and self._is_server_here

    @property
    def runs_this_python(self) -> bool:
        return bool(self.is_local and self._own_python and has_this_environment(self._own_python))

    @property
    def hands_over(self) -> bool:
        return self.runs_this_python

    @functools.cached_property
    def _own_python(self) -> str:
        """The Python of its tasks if its server is in this process's Java; else empty: its server does not tell."""
        context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
        own = getattr(context, "_active_spark_context", None)
        with contextlib.suppress(Exception):  # its Java has ended, as the first query will say
            if own is not None and own.applicationId == self.conf("spark.app.id"):
                environment = own._jvm.java.lang.System.getenv
                named = (environment(name) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"))
                return next((str(python) for python in named if python), "python3")
        return ""

    def conf(self, key: str, default: str = "") -> str:
        return self._settings.get(key, default)

    def driver_conf(self, key: str) -> str:
        # Those of Spark's driver are about the server's machine.
        return "" if key.startswith("spark.driver.") and not self._is_server_here else self.conf(key)

    @property
    def _is_server_here(self) -> bool:
        return self._server.startswith(_LOOPBACK)

    def machine(self) -> str:
        """Return the address of this machine on its way to the server."""
        if not self._is_server_here:
            for family in (socket.AF_INET, socket.AF_INET6):
                with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as link:
                    link.connect((self._server.strip("[]"), _ANY_PORT))
                    return str(link.getsockname()[0])
        return socket.gethostname()

    @property
    def has_served(self) -> bool:
        return self.session in _SERVED

    def serves(self) -> None:
        _SERVED.add(self.session)

    @property
    def examined(self) -> set[str]:
        return _EXAMINED.setdefault(self.session, set())

    def executors(self) -> Sequence[Executor] | None:
        # One Java process is its only executor, and stays; others come and go untold.
        return [Executor(DRIVER, self._server, self.slots() or 1)] if self.is_one_process else None

    @property
    def tells_slots(self) -> bool:
        return self.slots() is not None

    def slots(self) -> int | None:
        if not self.is_one_process:
            return None
        number = self.master.partition("[")[2].partition("]")[0].partition(",")[0]
        if number.isdecimal():
            return int(number) // self.cpus_per_task
        return cores() // self.cpus_per_task if self.is_local and number == "*" else None

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
        del description, places  # its pages name queries themselves, and it has no places
        from pyspark.sql.types import LongType, StringType, StructField, StructType

        session = self._listen()
        for tag in (*self._tags, *tags):
            session.addTag(tag)
        self._mine.tags = tags
        rows = session.range(0, tasks, 1, tasks)
        rows._cached_schema = StructType(
            [StructField("id", LongType(), False)]
        )  # else the server is asked for it first
        answers = StructType([StructField("answer", StringType())])
        query = rows.mapInArrow(arrow_task(task), answers, is_barrier, self._profile(session))
        prepared()
        try:
            return [answer_in(row[0]) for row in query.collect()]
        except Exception as error:
            if is_closed_session(error):
                self._renew(session)
            raise

    def asks_for_devices(self, per_task: float) -> bool:
        if self.is_one_process or self.conf(EXECUTOR_DEVICES, "0") == "0":
            return False
        self._devices = per_task
        return True

    def _profile(self, session: Any) -> Any:
        """Return the profile of tasks that ask for devices; None for the default one."""
        if not self._devices:
            return None
        from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

        type(session)._set_default_and_active_session(session)  # of this thread, where the profile looks for it
        return ResourceProfileBuilder().require(TaskResourceRequests().resource("gpu", self._devices)).build

    def _listen(self) -> Any:
        """Return the present session, whose progress is heard from now on."""
        with self._guard:
            if self.session not in self._listened:
                self._listened.append(self.session)
                self.session.registerProgressHandler(self._progress)
            return self.session

    def _renew(self, closed: Any) -> None:
        """Replace a session that its server has closed, so that the next launch has one; its settings are lost."""
        from pyspark.sql.connect.session import SparkSession

        with self._guard:
            builder = getattr(closed.client, "_builder", None)
            # With a name of its own it would be the closed session again.
            if self.session is closed and builder is not None and builder.session_id is None:
                self.session, self._is_renewed = SparkSession(connection=builder), True
                _log.warning("The Spark Connect server has closed the session: the search goes on in a new one.")

    def _progress(self, *, inflight_tasks: int, done: bool, **_: object) -> None:
        """Note whether a query's task has its slot. Spark calls this in the thread of the query, for all of them."""
        tags = getattr(self._mine, "tags", None)
        if not tags:
            return
        with self._guard:
            if inflight_tasks and not done:
                self._running.update(tags)
            elif done:
                self._running.difference_update(tags)

    def cancel(self, tag: str) -> None:
        with self._guard:
            if tag in self._cancelling:  # the server does not answer
                return
            self._cancelling.add(tag)
        threading.Thread(target=self._interrupt, args=(tag,), name="asyncsearch-cancel", daemon=True).start()

    def _interrupt(self, tag: str) -> None:
        session = self.session
        try:
            session.interruptTag(tag)
        except Exception as error:  # the session is closed, or its server is gone: so are its queries
            if is_closed_session(error):  # its client tells the cause once: each later call just has no session
                self._renew(session)
        finally:
            with self._guard:
                self._cancelling.discard(tag)

    def tag_note(self, tag: str) -> bytes:
        return tag_notes.tag_note(self.session, tag)

    def end_tag_of(self, note: bytes) -> None:
        end_left_queries(self.session, note)

    def trouble(self) -> str:
        looked_s, found = self._look
        if time.monotonic() - looked_s > LOOK_AGAIN_S:
            found = why_silent(self.session)
            self._look = time.monotonic(), found
        return silence(self.session, found)

    @property
    def is_gone(self) -> bool:
        return isinstance(self._look[1], ConnectionRefusedError)

    def running(self) -> Set[str] | None:
        with self._guard:
            return set(self._running)

    def thread(self, target: Callable[[], None], name: str) -> Any:
        return threading.Thread(target=target, name=name, daemon=True)

    def close(self) -> None:
        if is_silent := self.trouble():
            for session in {id(one): one for one in (*self._listened, self.session)}.values():
                give_up_retries(session)
        for session in self._listened:
            with contextlib.suppress(ValueError):  # the user has cleared all handlers
                session.removeProgressHandler(self._progress)
        if self._is_renewed and not is_silent:
            with contextlib.suppress(Exception):  # its server has just gone
                self.session.client.release_session()
                self.session.client.close()


_SERVED: weakref.WeakSet[Any] = weakref.WeakSet()
"""The sessions in which workers were launched."""
_EXAMINED: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
"""The executors of each that were fit for workers."""

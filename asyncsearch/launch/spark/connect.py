"""A session of Spark Connect: each task is a query, for this process has no connection to Spark's Java.

A query begins when its result is fetched, and ends with it: what a task says while it runs goes over the agent's own
stream. Spark Connect tells how many tasks of a query run, and nothing of executors, slots and places.

Rule: Spark's client tries for minutes to reach a server that is gone, so only a query's own thread may wait for it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any, TypeVar

from asyncsearch.errors import UnsupportedSparkError
from asyncsearch.launch.machine import cores
from asyncsearch.launch.spark import tag_notes
from asyncsearch.launch.spark.base_session import AnySpark
from asyncsearch.launch.spark.job_ends import is_closed_session, query_failure
from asyncsearch.launch.spark.placement import DRIVER, Executor

_log = logging.getLogger(__name__)
T = TypeVar("T")

_LOOPBACK = ("localhost", "127.", "::1", "[::1]")
_LOOK_AGAIN_S = 2.0
EXECUTOR_DEVICES = "spark.executor.resource.gpu.amount"
_ANY_PORT = 9
"""A datagram socket that is "connected" sends nothing, so that its port does not matter."""


def is_connect(session: Any) -> bool:
    """Return whether a session is one of Spark Connect; pyspark is not imported for it."""
    return any(kind.__module__.startswith("pyspark.sql.connect") for kind in type(session).__mro__)


class ConnectSpark(AnySpark):
    """A session of Spark Connect."""

    has_broadcasts = False
    has_detached_tasks = True

    def __init__(self, session: Any) -> None:
        """Wrap a session, and ask its server for the settings.

        Raises:
            UnsupportedSparkError: its server does not answer with them, or one of the two sides is too old.
        """
        require_connect(session)
        self.session = session
        self._settings = _settings_of(session)
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
        self._look = (0.0, "")
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
        from pyspark.sql.types import StringType, StructField, StructType

        session = self._listen()
        for tag in (*self._tags, *tags):
            session.addTag(tag)
        self._mine.tags = tags
        rows = StructType([StructField("answer", StringType())])
        query = session.range(0, tasks, 1, tasks).mapInArrow(_query(task), rows, is_barrier, self._profile(session))
        prepared()
        try:
            return [_answer(json.loads(row[0])) for row in query.collect()]
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
        try:
            with contextlib.suppress(Exception):  # the session is closed, or its server is gone: so are its queries
                self.session.interruptTag(tag)
        finally:
            with self._guard:
                self._cancelling.discard(tag)

    def tag_note(self, tag: str) -> bytes:
        return tag_notes.tag_note(self.session, tag)

    def end_tag_of(self, note: bytes) -> None:
        tag_notes.end_tag_of(self.session, note)

    def trouble(self) -> str:
        looked_s, found = self._look
        if time.monotonic() - looked_s > _LOOK_AGAIN_S:
            found = _why_silent(self.session)
            self._look = time.monotonic(), found
        return found

    def running(self) -> Set[str] | None:
        with self._guard:
            return set(self._running)

    def thread(self, target: Callable[[], None], name: str) -> Any:
        return threading.Thread(target=target, name=name, daemon=True)

    def close(self) -> None:
        if self.trouble():
            for session in {id(one): one for one in (*self._listened, self.session)}.values():
                _give_up_retries(session)
        for session in self._listened:
            with contextlib.suppress(ValueError):  # the user has cleared all handlers
                session.removeProgressHandler(self._progress)
        if self._is_renewed:
            with contextlib.suppress(Exception):  # its server is gone
                self.session.client.release_session()
                self.session.client.close()


def _why_silent(session: Any) -> str:
    """Return why the server of a session cannot be reached, by one look; empty if it can."""
    endpoint = tag_notes.endpoint_of(session)
    host, _, port = endpoint.rpartition(":")
    if not port.isdecimal():
        return ""
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_LOOK_AGAIN_S).close()
    except OSError as error:
        return f"the Spark Connect server at {endpoint} does not answer: {error}"
    return ""


def _give_up_retries(session: Any) -> None:
    """Let this process end: at its exit Spark's client speaks to its server, and tries a dead one for 10 minutes.

    Threads that release results try it as long, and the exit waits for them, too.
    """
    for policy in session.client.get_retry_policies():
        policy.max_retries = 0  # for the tries under way
    session.client.set_retry_policies([])


def give_up_silent_servers() -> None:
    """Call off the tries for servers that have gone since the run: the exit of this process would wait for them."""
    for session in list(_FIT):
        if not session.is_stopped and _why_silent(session):
            _give_up_retries(session)


@functools.cache
def _look_at_exit() -> None:
    # Python's own hook for it is called too late: thread pools have been waited for by then.
    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(give_up_silent_servers)


_NEWEST_TOO_OLD = (3, 5)


def require_connect(session: Any) -> None:
    """Check that a session is open, and that this side and its server speak of tags and progress.

    Raises:
        UnsupportedSparkError: it is not, or one of them is too old; the message says which.
    """
    import pyspark

    if session.is_stopped:
        raise UnsupportedSparkError("The Spark session was stopped. Make a new one, or omit session=.")
    if session in _FIT:
        return
    _require_new("pyspark here", pyspark.__version__)
    _require_new("its server", str(_answer_of(lambda: session.version, "version")))
    _FIT.add(session)
    _look_at_exit()


def _require_new(name: str, version: str) -> None:
    if tuple(map(int, version.split(".")[:2])) <= _NEWEST_TOO_OLD:
        raise UnsupportedSparkError(
            f"Workers by Spark Connect need Spark 4.0 or newer on both sides, and {name} is {version}. Install a "
            "newer one, or use a classic session: SparkSession.builder.master(...) where the Spark driver runs."
        )


_FIT: weakref.WeakSet[Any] = weakref.WeakSet()
"""The sessions whose two sides are new enough."""
_SERVED: weakref.WeakSet[Any] = weakref.WeakSet()
"""The sessions in which workers were launched."""
_EXAMINED: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
"""The executors of each that were fit for workers."""


def _settings_of(session: Any) -> dict[str, str]:
    return {str(key): str(value) for key, value in _answer_of(lambda: session.conf.getAll, "settings").items()}


def _answer_of(ask: Callable[[], Any], what: str) -> Any:
    """Return what a server tells of its session."""
    try:
        return ask()
    except Exception as error:
        raise UnsupportedSparkError(
            f"The {what} of this Spark Connect session cannot be read: {query_failure(error)}. Make a new session: "
            'SparkSession.builder.remote("sc://...").getOrCreate().'
        ) from error


def _query(task: Callable[[Iterable[int]], Iterable[Any]]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return the function of a query. A nested function is sent by value, because executors may lack asyncsearch."""

    def batches(rows: Iterator[Any]) -> Iterator[Any]:
        import json

        import pyarrow

        for _ in rows:  # the numbers of the tasks
            pass
        yield pyarrow.RecordBatch.from_pydict({"answer": [json.dumps(one) for one in task([])]})

    return batches


def _answer(value: Any) -> Any:
    """Return an answer with the tuples that a classic session returns, which JSON has as lists."""
    if isinstance(value, list):
        return tuple(_answer(one) for one in value)
    if isinstance(value, dict):
        return {key: _answer(one) for key, one in value.items()}
    return value

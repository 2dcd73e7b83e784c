"""The server of a Spark Connect session: whether it is new enough, and whether it answers.

Spark's client would try one that does not for 10 minutes, also at the end of this process.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from asyncsearch.errors import ClusterError, UnsupportedSparkError
from asyncsearch.launch.spark import tag_notes
from asyncsearch.launch.spark.job_ends import query_failure
from asyncsearch.launch.spark.spark_answers import answer_of

T = TypeVar("T")

LOOK_AGAIN_S = 2.0
"""Time between two looks for a server, and of one look."""
_MET: weakref.WeakSet[Any] = weakref.WeakSet()
"""The sessions whose servers were asked for anything."""
_FIT: weakref.WeakSet[Any] = weakref.WeakSet()
"""The sessions whose two sides are new enough."""
_NEWEST_TOO_OLD = (3, 5)


def is_connect(session: Any) -> bool:
    """Return whether a session is one of Spark Connect; pyspark is not imported for it."""
    return any(kind.__module__.startswith("pyspark.sql.connect") for kind in type(session).__mro__)


def require_connect(session: Any) -> None:
    """Check that a session is open, and that this side and its server speak of tags and progress.

    Raises:
        UnsupportedSparkError: it is not, or one of them is too old; the message says which.
        ClusterError: its server does not answer.
    """
    import pyspark

    if session.is_stopped:
        raise UnsupportedSparkError("The Spark session was stopped. Make a new one, or omit session=.")
    if session in _FIT:
        return
    _require_new("pyspark here", pyspark.__version__)
    _MET.add(session)
    _look_at_exit()
    _require_new("its server", str(server_answer(session, lambda: session.version, "version")))
    _FIT.add(session)


def _require_new(name: str, version: str) -> None:
    if tuple(map(int, version.split(".")[:2])) <= _NEWEST_TOO_OLD:
        raise UnsupportedSparkError(
            f"Workers by Spark Connect need Spark 4.0 or newer on both sides, and {name} is {version}. Install a "
            "newer one, or use a classic session: SparkSession.builder.master(...) where the Spark driver runs."
        )


def server_answer(session: Any, ask: Callable[[], T], what: str) -> T:
    """Return the answer of a server to a question about its session.

    Raises:
        UnsupportedSparkError: it does not tell that.
        ClusterError: it does not answer.
    """
    try:
        return answer_of(ask, lambda: silence(session, why_silent(session)))
    except ClusterError:
        raise
    except Exception as error:
        raise UnsupportedSparkError(
            f"The {what} of this Spark Connect session cannot be read: {query_failure(error)}. Make a new session: "
            'SparkSession.builder.remote("sc://...").getOrCreate().'
        ) from error


def end_left_queries(session: Any, note: bytes) -> None:
    """End the queries of a note that a dead process has left, unless the server does not answer."""
    with contextlib.suppress(ClusterError):
        answer_of(lambda: tag_notes.end_tag_of(session, note), lambda: silence(session, why_silent(session)))


def silence(session: Any, why: OSError | None) -> str:
    """Return that the server of a session is silent, in words; empty if it is not."""
    return "" if why is None else f"the Spark Connect server at {tag_notes.endpoint_of(session)} does not answer: {why}"


def why_silent(session: Any) -> OSError | None:
    """Return why the server of a session cannot be reached, by one look; None if it can."""
    host, _, port = tag_notes.endpoint_of(session).rpartition(":")
    if not port.isdecimal():
        return None
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=LOOK_AGAIN_S).close()
    except OSError as error:
        return error
    return None


def give_up_retries(session: Any) -> None:
    """Let this process end: at its exit Spark's client speaks to its server, and tries a dead one for 10 minutes.

    Threads that release results try it as long, and the exit waits for them, too.
    """
    for policy in session.client.get_retry_policies():
        policy.max_retries = 0  # for the tries under way
    session.client.set_retry_policies([])


def give_up_silent_servers() -> None:
    """Call off the tries for servers that have gone since the run: the exit of this process would wait for them."""
    met = list(_MET)
    try:
        silent = [session for session in met if not session.is_stopped and why_silent(session)]
    except KeyboardInterrupt:  # who presses Ctrl-C here waits for none of them
        silent = met
    for session in silent:
        give_up_retries(session)


@functools.cache
def _look_at_exit() -> None:
    # Python's own hook for it is called too late: thread pools have been waited for by then.
    register = getattr(threading, "_register_atexit", None)
    if register is not None:
        register(give_up_silent_servers)

"""The Spark jobs of trials that train in threads of the driver, in a classic session and in one of Spark Connect."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

from asyncsearch.errors import UnsupportedSparkError
from asyncsearch.launch.spark.base_session import new_tag
from asyncsearch.launch.spark.connect_server import end_left_queries, require_connect, silence, why_silent
from asyncsearch.launch.spark.joining import active_connect
from asyncsearch.launch.spark.tag_notes import tag_note
from asyncsearch.launch.trial_jobs import JobNames, TrialJobs

_log = logging.getLogger(__name__)

_OF_THIS_PROCESS = new_tag("threads")
"""Tag of all queries of trainings in this process."""
_FIFO = (
    "Spark serves the jobs of these trials in the order of their coming, so that a long one holds up those of all "
    "others: start the session with spark.scheduler.mode=FAIR."
)


def spark_jobs() -> TrialJobs | None:
    """Return the jobs of the active session. None if there is none.

    Raises:
        UnsupportedSparkError: the jobs of its threads cannot be told apart.
    """
    if (session := active_connect()) is not None and not session.is_stopped:
        require_connect(session)
        return ConnectJobs(session)
    context = getattr(sys.modules["pyspark"], "SparkContext", None)
    context = getattr(context, "_active_spark_context", None)
    return None if context is None or context._jsc is None else ClassicJobs(context)


class ClassicJobs(TrialJobs):
    """The jobs of a classic session: each training has a job group, a tag, and the pool of its worker."""

    def __init__(self, context: Any) -> None:
        """Wrap a context.

        Raises:
            UnsupportedSparkError: its threads share one group of jobs.
        """
        from py4j.clientserver import ClientServer

        if not isinstance(context._gateway, ClientServer):
            raise UnsupportedSparkError(
                "PYSPARK_PIN_THREAD=false makes all threads share the tags of their Spark jobs, so that the stop of one"
                " trial would cancel those of all. Remove it from the environment and start the session again."
            )
        self._context = context
        self.place = f"Spark {context.master}"
        if str(context._conf.get("spark.scheduler.mode", "FIFO")).upper() != "FAIR":
            self.warnings = [_FIFO]

    def thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        from pyspark import InheritableThread

        # Its connection to Java is closed with it; a plain thread would leave one behind for each trial.
        thread: threading.Thread = InheritableThread(target=target, name=name, daemon=True)
        return thread

    def enter(self, names: JobNames) -> None:
        self._context.setJobGroup(names.tag, names.description, interruptOnCancel=True)
        self._context.addJobTag(names.tag)
        self._context.setLocalProperty("spark.scheduler.pool", names.pool)
        self._context.setLocalProperty("callSite.short", names.description)  # else each stage has the name of a thread

    def cancel(self, names: JobNames) -> None:
        # By its tag also what the function has put into a job group of its own.
        for cancel in (self._context.cancelJobGroup, self._context.cancelJobsWithTag):
            try:
                cancel(names.tag)
            except Exception as error:  # Spark is gone, and its jobs with it
                _log.debug("The jobs of %s could not be cancelled: %s", names.tag, error)


class ConnectJobs(TrialJobs):
    """The jobs of a session of Spark Connect: each training has a tag, all together have one, and no pool."""

    may_be_cut_off = True
    client = "pyspark"

    def __init__(self, session: Any) -> None:
        self._session = session
        self._tags = frozenset(session.getTags())
        self.place = f"Spark Connect on {session.client.host}"

    def enter(self, names: JobNames) -> None:
        for tag in (*self._tags, names.tag, _OF_THIS_PROCESS):
            self._session.addTag(tag)
        # Spark ML asks for the session of its thread.
        with contextlib.suppress(AttributeError):  # an internal name of Spark has changed: there is the default one
            type(self._session)._set_default_and_active_session(self._session)

    def cancel(self, names: JobNames) -> None:
        try:
            self._session.interruptTag(names.tag)
        except Exception as error:  # its server is gone, or the session is closed
            _log.debug("The queries of %s could not be cancelled: %s", names.tag, error)

    def trouble(self) -> str:
        return silence(self._session, why_silent(self._session))

    def note(self) -> bytes:
        return tag_note(self._session, _OF_THIS_PROCESS)

    def end_noted(self, note: bytes) -> None:
        end_left_queries(self._session, note)

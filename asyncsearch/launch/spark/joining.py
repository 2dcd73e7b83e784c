"""Which Spark session a study joins: the given one, the active one of either kind, or one that is made for it."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from asyncsearch.errors import UnsupportedSparkError
from asyncsearch.launch.spark import job_ends
from asyncsearch.launch.spark.base_session import AnySpark
from asyncsearch.launch.spark.connect import ConnectSpark
from asyncsearch.launch.spark.connect_server import is_connect
from asyncsearch.launch.spark.session import KNOWN, Made, Spark, checked

_QUIET = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
"""Settings of sessions made here: jobs as long as a search would fill the screen with progress bars."""


def active_connect() -> Any:
    """Return the active session of Spark Connect, or None; pyspark is not imported for it."""
    kind = getattr(sys.modules.get("pyspark.sql.connect.session"), "SparkSession", None)
    # The active one belongs to a thread, and studies may run in others.
    return None if kind is None else kind.getActiveSession() or kind._get_default_session()


def present(session: Any = None) -> AnySpark | None:
    """Return the given or active session, to be looked at only; None if none runs."""
    remote = active_connect() if session is None else session
    if is_connect(remote):
        return None if remote.is_stopped else ConnectSpark(remote)
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


def join(session: Any = None) -> AnySpark:
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
    found = session or active_connect() or SparkSession.getActiveSession()
    return ConnectSpark(found) if is_connect(found) else _joined(found)


def _joined(session: Any) -> AnySpark:
    """Join a classic session; None for the application's, or one that is made now, of whichever kind that is."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with KNOWN.making:
        context = SparkContext._active_spark_context if session is None else session.sparkContext
        if context is None:
            made = _make(SparkSession.builder)
            if is_connect(made):  # by SPARK_REMOTE
                return ConnectSpark(made)
            context = made.sparkContext
            KNOWN.made[context] = Made(made)
        spark = Spark(context, KNOWN.made.get(context))
        if spark._made is not None:
            spark._made.users += 1
    try:
        return checked(spark)
    except BaseException:
        spark.close()
        raise


def _make(builder: Any) -> Any:
    """Make a session."""
    try:
        builder = builder.appName("asyncsearch")
        for key, value in _QUIET.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()
    except Exception as error:
        if "CONNECT_URL_NOT_SET" in str(error):  # the environment says that one was there
            raise UnsupportedSparkError(
                "The Spark Connect session of this process was stopped. Make a new one: "
                'SparkSession.builder.remote("sc://...").getOrCreate().'
            ) from error
        raise UnsupportedSparkError(not_started(job_ends.full_text(error))) from error


def not_started(text: str) -> str:
    """Return why there is no Spark session, and what to do, for the message of Spark's error."""
    reason = text.strip().splitlines()[0].removeprefix("PySparkRuntimeError: ").rstrip(".")
    if "JAVA_GATEWAY_EXITED" in text or "UnsupportedClassVersionError" in text:
        step = "It needs Java 17 or newer (JAVA_HOME); where there is none, pass backend='processes'"
    else:
        step = (
            "The cluster may have refused the application, and Spark's log above says why: see its address "
            "(spark.master), spark.authenticate.secret and the queue. For a search on this machine pass "
            "backend='processes'"
        )
    return f"Spark could not be started: {reason}. {step}."

"""Backends, which start workers. ``choose`` returns one by its name; ``chosen`` is its context manager."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from asyncsearch.errors import UsageError
from asyncsearch.launch.base_launcher import Launcher

NAMES = ("auto", "inline", "processes", "spark", "spark-cluster", "threads")


def require_backend(backend: object) -> str | Launcher:
    """Return a backend if it is one, or the name of one; nothing of it is started.

    Raises:
        UsageError: it is neither; the message has the nearest name.
    """
    if isinstance(backend, Launcher) or backend in NAMES:
        return backend
    near = difflib.get_close_matches(str(backend), NAMES, 1)
    write = f"write backend={near[0]!r}, or " if near else ""
    raise UsageError(f"backend={backend!r} is not known: {write}choose one of {', '.join(map(repr, NAMES))}.")


def choose(backend: str | Launcher = "auto", *, study: str = "study") -> Launcher:
    """Return a backend, for one run.

    Args:
        backend: ``"auto"`` (Spark if a session is active, else processes), ``"spark"``, ``"spark-cluster"`` (Spark,
            with the search's driver as one of its tasks), ``"processes"``, ``"threads"``, ``"inline"``, or a
            ``Launcher`` object.
        study: name of the jobs in Spark's pages.

    Raises:
        UsageError: there is no backend of that name.
    """
    if isinstance(backend, Launcher):
        return backend
    name = ("spark" if is_spark_active() else "processes") if backend == "auto" else backend
    match name:
        case "inline":
            from asyncsearch.launch.inline import InlineLauncher

            return InlineLauncher()
        case "processes":
            from asyncsearch.launch.processes import ProcessLauncher

            return ProcessLauncher()
        case "spark" | "spark-cluster":
            from asyncsearch.launch.spark.launcher import SparkLauncher

            return SparkLauncher(study=study, remote_driver=True if name == "spark-cluster" else None)
        case "threads":
            from asyncsearch.launch.threads.launcher import ThreadLauncher

            return ThreadLauncher()
        case _:
            return choose(require_backend(backend), study=study)


@contextmanager
def chosen(backend: str | Launcher = "auto", *, study: str = "study") -> Iterator[Launcher]:
    """Yield a backend, chosen as by ``choose``, and stop it afterwards, even after an error."""
    launcher = choose(backend, study=study)
    try:
        yield launcher
    finally:
        launcher.stop(0.0)


def is_spark_active() -> bool:
    """Return whether this process has a Spark session, or ``spark-submit`` started it. Imports nothing."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return True
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    if getattr(context, "_active_spark_context", None) is not None:
        return True
    # A Connect session raises an error later; to ignore it here would run the search on the wrong machine.
    connect = getattr(sys.modules.get("pyspark.sql.connect.session"), "SparkSession", None)
    return connect is not None and connect.getActiveSession() is not None

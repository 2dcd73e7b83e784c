"""The jobs that a trial's thread starts on a cluster, as they are named and cancelled; without one there are none.

``asyncsearch.launch.spark.trial_jobs`` has those of Spark.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

CANCEL_AGAIN_S = 1.0
"""A function that catches the end of its job may start another one, and a job that is just being submitted has no tag
yet: both are cancelled a moment later."""


class JobNames(NamedTuple):
    """How the jobs of one training are named."""

    tag: str
    """Nobody else's: it is what they are cancelled by."""
    pool: str
    """That of its worker, so that trainings side by side share the cluster evenly, and pools do not pile up."""
    description: str
    """For the cluster's pages."""


class TrialJobs:
    """The jobs of trials, where there is no cluster: there are none."""

    place = ""
    """Where they run, for people."""
    warnings: Sequence[str] = ()

    def thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Return a thread, not started, whose jobs are its own."""
        return threading.Thread(target=target, name=name, daemon=True)

    def enter(self, names: JobNames) -> None:
        """Name the jobs that the calling thread starts from now on."""

    def cancel(self, names: JobNames) -> None:
        """Cancel the jobs of a training that run now; any thread may call this, and it may take long."""


def find_jobs() -> TrialJobs:
    """Return those of the active Spark session, of either kind; pyspark is not imported for it.

    Raises:
        UnsupportedSparkError: jobs of its threads cannot be told apart.
    """
    if "pyspark" not in sys.modules:
        return TrialJobs()
    from asyncsearch.launch.spark.trial_jobs import spark_jobs

    return spark_jobs() or TrialJobs()


class Cancelling:
    """Cancels the jobs of one training again and again until it has ended, in a thread: a cluster may be slow."""

    def __init__(self, jobs: TrialJobs, names: JobNames) -> None:
        self._jobs, self._names = jobs, names
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        """Begin, unless it has begun."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"cancel-{self._names.tag}", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """The training has ended: cancel once more what its threads may have left, and no more."""
        self._over.set()

    def wait(self, timeout_s: float) -> None:
        """Wait until the last jobs are cancelled."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._over.is_set():
            self._jobs.cancel(self._names)
            self._over.wait(CANCEL_AGAIN_S)
        self._jobs.cancel(self._names)

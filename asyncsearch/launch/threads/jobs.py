"""Finds the cluster on which a trial's thread starts jobs, and cancels these until the trial has ended."""

from __future__ import annotations

import sys
import threading

from asyncsearch.launch.trial_jobs import JobNames, TrialJobs

CANCEL_AGAIN_S = 1.0
"""A function that catches the end of its job may start another one, and a job that is just being submitted has no tag
yet: both are cancelled a moment later."""


def find_jobs() -> TrialJobs:
    """Return the jobs of the active Spark session, of either kind; pyspark is not imported for it.

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

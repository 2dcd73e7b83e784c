"""The jobs that a trial's thread starts on a cluster, as they are named and cancelled; without one there are none.

``asyncsearch.launch.spark.trial_jobs`` has those of Spark.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple


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
    may_be_cut_off: bool = False
    """Whether their cluster is behind a network that may drop what is asked of it, without a word to who asks."""

    client: str = ""
    """The package in which a trial is as long as it waits for that cluster."""

    def thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Return a thread, not started, whose jobs are its own."""
        return threading.Thread(target=target, name=name, daemon=True)

    def enter(self, names: JobNames) -> None:
        """Name the jobs that the calling thread starts from now on."""

    def cancel(self, names: JobNames) -> None:
        """Cancel the jobs of a training that run now; any thread may call this, and it may take long."""

    def trouble(self) -> str:
        """Return why the cluster does not answer now, by one look; empty if it does."""
        return ""

    def note(self) -> bytes:
        """Return a note by which another process ends the jobs of all trainings of this one, if this one dies.

        It holds no secrets; empty if those end with this process.
        """
        return b""

    def end_noted(self, note: bytes) -> None:
        """End the jobs of a process that is dead, by its note, where that can be done from here."""

"""The interface of a backend, which starts workers, reports their ends, and decides nothing.

The engine requests each launch (``LaunchWorker``) under its own epoch; ``ended`` reports each worker's end once,
whatever the reason, and the engine decides whether to launch the worker again.
"""

from __future__ import annotations

import abc
import contextlib
import threading
from collections.abc import Callable
from typing import Protocol

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.ids import WorkerId
from asyncsearch.rpc.messages import Transport, WorkerMessage
from asyncsearch.store.base_store import Store

LaunchKey = tuple[WorkerId, int]
"""One launch: a worker and an epoch."""
OnWorkerEnded = Callable[[WorkerId, int, str], None]
"""Called from any thread with (worker, epoch, reason) when a worker has ended, cleanly or not."""
AgentFunction = Callable[[WorkerConfig], str]
"""Serves the driver until the driver dismisses the worker, in the main thread of its process; returns the reason."""
ConfigFor = Callable[[WorkerId, int], WorkerConfig]
"""Returns the configuration of one launch of a worker."""
Post = Callable[[WorkerId, int, int, WorkerMessage], None]
"""Passes (worker, epoch, number, message) of a worker in this process to the driver, from any thread."""
TOO_LATE = "it was launched after the end of the run"
"""Reason for the end of a worker whose launch came after ``stop``."""
SILENT_FOR_S = 75.0
"""How long a cluster may not answer: time for a pause of the network, or for a server to start again."""


def run_agent(config: WorkerConfig) -> str:
    """Run the real agent: the default function of a launch on the worker's side; tests may replace it."""
    # Imported on the worker: a process that only launches workers needs no gRPC.
    from asyncsearch.agent.agent import run_agent as run

    return run(config)


def import_agent() -> None:
    """Import the libraries of ``run_agent``, while the driver still makes its configuration."""
    with contextlib.suppress(ImportError):  # the agent itself says what is missing
        import asyncsearch.agent.agent
        import asyncsearch.rpc.client  # noqa: F401


class Preflight(msgspec.Struct, frozen=True):
    """Findings of a backend before any worker starts."""

    parallelism: int
    """Number of workers to start, from 1."""
    cpu_threads: int = 1
    """Cores that each worker may use."""
    given_bytes: int | None = None
    """Memory that each worker has for its processes in its container, as the cluster says; None if it does not."""
    host: str = "127.0.0.1"
    """Name or address at which workers reach the driver."""
    bind: str = "127.0.0.1"
    """Address on which the driver's server listens."""
    port: int = 0
    """Port on which it listens, for firewalls that admit only one. 0 for any free port."""
    launches_at_once: int | None = None
    """How many workers may be starting, from 1, until one has attached. None for any number. Those that share the
    driver's cores hinder each other."""
    warnings: tuple[str, ...] = ()
    """Warnings for the user, in sentences."""
    is_elastic: bool = False
    """Whether others can use the slots of workers that are given back, and these can be launched again."""
    place: str = ""
    """Where the workers run, for people: ``processes on this machine``, ``Spark local[2]``."""
    is_remote: bool = False
    """Whether the driver itself must run as a task of the cluster, by ``Launcher.remote_tasks``."""


class Tokens(msgspec.Struct, frozen=True):
    """Delegation tokens of Hadoop, with which workers reach a store that asks for tickets of Kerberos."""

    file: bytes
    """As Hadoop writes them into a file."""
    renew_in_s: float
    """When to ask for others, seconds above 0."""

    def __repr__(self) -> str:
        return f"Tokens({len(self.file)} bytes, hidden, to be renewed in {self.renew_in_s:.0f} s)"


class RemoteTasks(Protocol):
    """Runs the driver and the workers of a search as tasks of a cluster; each call returns with the end of its task."""

    def drive(self, content: bytes, tag: str) -> str:
        """Unpickle a function in a task, call it with the address of that, and return what it returns.

        Raises:
            Exception: the task is lost, or was cancelled.
        """

    def work(self, store: Store, tag: str) -> str:
        """Run the task of any worker, which meets its driver by a store, and return the reason of its end.

        Raises:
            Exception: the task is lost, or was cancelled.
        """

    def is_running(self, tag: str) -> bool:
        """Return whether a task has its slot, as far as the cluster tells."""

    def cancel(self, tag: str) -> None:
        """Cancel a task; return at once."""

    def trouble(self) -> str:
        """Return why no task can begin or end now; empty if one can."""

    def why_lost(self, error: BaseException) -> str:
        """Return why a task is lost, in words."""


class Launcher(abc.ABC):
    """A backend, for one run of a study."""

    name: str
    """Name for users: ``inline``, ``processes``, ``spark``."""
    transport: Transport | None = None
    """Carries the driver's messages to workers in this process. None if workers attach to a gRPC server."""

    def workers_now(self) -> int | None:
        """Return how many workers a run without ``parallelism`` would have; nothing is started to find out.

        Returns:
            The number. None if it is not known yet.
        """
        return None

    def preparation(self) -> str:
        """Return the present step of ``check``, for people: it is shown if that takes longer than a moment."""
        return "checking that workers can run ..."

    @abc.abstractmethod
    def check(self, parallelism: int | None) -> Preflight:
        """Check that the workers can run, before any starts.

        Args:
            parallelism: number of workers wanted, from 1. None for one for each slot.

        Raises:
            ClusterError: they cannot; the message names the cause and the remedy.
        """

    def check_again(self, found: Preflight) -> Preflight:
        """Check as ``check`` does, for one more study on a cluster where an earlier check found ``found``.

        The studies that run already may hold all slots, so that nothing that needs one can be waited for.
        """
        return self.check(found.parallelism)

    def devices(self, per_worker: float) -> tuple[str, ...] | None:
        """Return the devices of this machine, of which the driver gives each worker its own.

        Called for a study with ``devices_per_trial=``: after ``check`` by a run, without it by a preview.

        Args:
            per_worker: how many devices each worker is to see, an integer, or below 1 its share of one.

        Returns:
            Their names. None if each worker sees its own already.

        Raises:
            UsageError: workers cannot see as many; the message says what to set.
        """
        return None

    def warm_up(self, workers: int) -> None:
        """Begin the slow preparations that do not depend on the study, for so many launches; called after ``check``."""

    @abc.abstractmethod
    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        """Prepare for launches."""

    @abc.abstractmethod
    def launch(self, worker: WorkerId, epoch: int) -> None:
        """Start a worker and return at once; ``ended`` reports any error.

        After ``stop`` no worker starts, and ``ended`` reports that, too.
        """

    def tokens_for(self, url: str) -> Tokens | None:
        """Return new tokens for the store at a URL. None if workers need none, or there are none to be had.

        Called after ``check``, and again for as long as the run lasts.

        Raises:
            Exception: those that there should be cannot be had now.
        """
        return None

    def await_submission(self, timeout_s: float) -> None:
        """Wait at most ``timeout_s`` seconds for a launch that still needs this process's time to be submitted.

        What the driver does next takes all of that time; called after ``launch``. By default it returns at once.
        """

    def attached(self, worker: WorkerId, epoch: int) -> None:
        """Note that the driver hears this launch of the worker, and so notices its loss by itself; return at once."""
        return

    @abc.abstractmethod
    def kill(self, worker: WorkerId, epoch: int) -> None:
        """Make sure that this launch of the worker, which the engine considers lost, ends; return at once."""

    @abc.abstractmethod
    def stop(self, grace_s: float) -> None:
        """Wait at most ``grace_s`` seconds until all workers have ended; then kill the others. Leaves nothing behind.

        Called after every ``check``, even if no worker was started, and possibly twice.
        """

    def train_here(self, post: Post, until: Callable[[], bool], tick: Callable[[], None]) -> None:
        """Train the driver's assignments in the calling thread. Called if ``transport`` is not None.

        Args:
            post: passes a message to the driver.
            until: returns whether the run is over.
            tick: called between trials and after each report, to show progress.

        Raises:
            KeyboardInterrupt: the user interrupted a trial, or left the debugger. The trial is over; the next call
                tells the driver and continues.
        """
        raise NotImplementedError(f"{type(self).__name__} has a transport and no train_here()")

    def has_shown(self, failure: str) -> bool:
        """Return whether the user has seen this traceback of a trial already, where the trial raised."""
        return False

    def tasks_note(self) -> bytes:
        """Return a note by which another process ends the tasks of this run, if this one dies; empty if it need not.

        It holds no secrets. Called after ``check``.
        """
        return b""

    def end_tasks_of(self, note: bytes) -> None:
        """End the tasks of an earlier run, by its note, where that can be done from here; its driver is dead.

        Called after ``check``.
        """

    @property
    def drives_remotely(self) -> bool:
        """Whether the driver of a run may be a task of its cluster, as far as can be told before ``check``."""
        return False

    def remote_tasks(self) -> RemoteTasks:
        """Return the tasks that run the driver. Called if ``check`` has found ``is_remote``, or before ``check``."""
        raise NotImplementedError(f"{type(self).__name__} runs no driver")

    def wake(self) -> None:
        """Make ``train_here`` check ``until`` again; any thread may call this."""

    def thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Return a thread, not started, that the cluster treats like the caller of ``check``."""
        return threading.Thread(target=target, name=name, daemon=True)

"""The interface of a backend, which starts workers, tells when they end, and decides nothing.

The engine asks for each launch (``LaunchWorker``) under an epoch of its own; a worker that ends for whatever reason is
reported once by ``ended``, and the engine says whether it is launched again.
"""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.driver.transport import Transport
from asyncsearch.ids import WorkerId
from asyncsearch.rpc.messages import WorkerMessage

OnWorkerEnded = Callable[[WorkerId, int, str], None]
"""Called from any thread with (worker, epoch, reason) when a worker has ended, cleanly or not."""
AgentFunction = Callable[[WorkerConfig], str]
"""Serves the driver until it lets the worker go, in the main thread of its process; returns why it ended."""
ConfigFor = Callable[[WorkerId, int], WorkerConfig]
"""Gives the configuration of one launch of a worker."""
Post = Callable[[WorkerId, int, int, WorkerMessage], None]
"""Passes (worker, epoch, number, message) of a worker in this process to the driver, from any thread."""
TOO_LATE = "it was launched after the end of the run"
"""Why a worker ends that ``stop`` has overtaken."""


def run_agent(config: WorkerConfig) -> str:
    """Run the real agent: what a launch runs on the worker's side, where a test puts nothing in its place."""
    # Imported on the worker: a process that only launches needs no gRPC.
    from asyncsearch.agent.agent import run_agent as run

    return run(config)


class Preflight(msgspec.Struct, frozen=True):
    """Findings of a backend before anything is started."""

    parallelism: int
    """How many workers will be started, from 1."""
    cpu_threads: int = 1
    """Cores that each worker may use."""
    host: str = "127.0.0.1"
    """Name or address under which workers reach the driver."""
    bind: str = "127.0.0.1"
    """Address on which the driver's server listens."""
    port: int = 0
    """Port on which it listens, where a firewall lets only that one through; 0: any that is free."""
    warnings: tuple[str, ...] = ()
    """What the user should know, in sentences."""


class Launcher(abc.ABC):
    """A backend, for one run of a study."""

    name: str
    """What people call it: ``inline``, ``processes``, ``spark``."""
    transport: Transport | None = None
    """Carries the driver's messages to workers in this process; None: workers attach to a gRPC server."""

    @abc.abstractmethod
    def check(self, parallelism: int | None) -> Preflight:
        """Prove that the workers can run, before any starts.

        Args:
            parallelism: how many workers are wanted, from 1; None: as many as there are slots.

        Raises:
            ClusterError: they cannot; the message says what was found and what to do.
        """

    @abc.abstractmethod
    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        """Get ready to launch."""

    @abc.abstractmethod
    def launch(self, worker: WorkerId, epoch: int) -> None:
        """Start a worker and return at once; what goes wrong is told through ``ended``.

        After ``stop`` none is started, and that too is told.
        """

    @abc.abstractmethod
    def kill(self, worker: WorkerId, epoch: int) -> None:
        """Make sure that this launch of the worker, which the engine holds for lost, ends; return at once."""

    @abc.abstractmethod
    def stop(self, grace_s: float) -> None:
        """Wait until all workers have ended, for ``grace_s`` seconds at most; then end them. Leaves nothing behind.

        It comes after every ``check``, also where nothing was started, and may come twice.
        """

    def train_here(self, post: Post, until: Callable[[], bool], tick: Callable[[], None]) -> None:
        """Train what the driver assigns, in the calling thread. Called where ``transport`` is not None.

        Args:
            post: passes a message to the driver.
            until: whether the run is over.
            tick: called between trials and after each report, to show progress.

        Raises:
            KeyboardInterrupt: the user interrupted a trial, or left the debugger. The trial is over; called again, this
                tells the driver and continues.
        """
        raise NotImplementedError(f"{type(self).__name__} has a transport and no train_here()")

    def wake(self) -> None:
        """Make ``train_here`` look at ``until`` again; any thread may call it."""

    def thread(self, target: Callable[[], None], name: str) -> threading.Thread:
        """Return a thread, not started, which is to the cluster as the one that called ``check``."""
        return threading.Thread(target=target, name=name, daemon=True)

"""Everything that an agent is given: its configuration, and the interface of its stream to the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from asyncsearch.ids import WorkerId
from asyncsearch.rpc.messages import DriverMessage, Endpoint, Hello, WorkerMessage
from asyncsearch.runner.trial_folder import MOST_BYTES
from asyncsearch.store.base_store import Store


class LogLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on a trial's output to send; above them, the newest lines are kept and the others counted."""

    lines_per_s: int = 1_000
    chars_per_s: int = 262_144
    line_chars: int = 4_000
    """Length at which a line is cut."""
    flush_s: float = 0.1
    """Time that a line may wait to join a batch."""


class WorkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a worker needs, in one value that travels in the launcher's closure."""

    study: str
    metric: str
    """Name of the study's metric."""
    bundle: bytes
    """The trainable, pickled by cloudpickle."""
    store: Store
    endpoint: Endpoint | None
    """The driver's address. None if the launcher gives ``run_agent`` its own connection."""
    worker: WorkerId
    epoch: int
    cpu_threads: int = 1
    gpus: tuple[str, ...] | None = None
    """Names of the devices that trials may see. None for those that the agent sees."""
    gpu_share: float = 1.0
    """Share of each device's memory that trials may take, above 0 and at most 1."""
    heartbeat_s: float = 1.0
    reconnect_s: float = 30.0
    """Time limit for reattaching to a lost driver."""
    stop_grace_s: float = 5.0
    """From the flag, at which the next report raises, to SIGTERM."""
    kill_grace_s: float = 5.0
    """From SIGTERM to SIGKILL, and from a runner's retirement to SIGKILL."""
    recycle_after: int | None = None
    """Trainings after which a runner is replaced, however little it has grown. None means any number."""
    recycle_growth_bytes: int = 1024**3
    """Growth of a runner's memory since its first training after which it is replaced."""
    given_bytes: int | None = None
    """Memory for all processes of the worker, in a container that is killed when it takes more. None if nobody says."""
    trial_bytes: int | None = None
    """Memory that a runner and the processes that it started may hold together. None for what there is."""
    untrusted: str = ""
    """Folder of the checkpoints, if it is shared and not trusted, so that nothing is unpickled from it; else empty."""
    is_shared: bool = False
    """Whether other studies write to the store of the checkpoints, too."""
    fresh_process: bool = False
    """Whether each training gets a new process."""
    keeps_template: bool = False
    """Whether the worker's process keeps a template that forks its runners, and ends what these leave behind."""
    preloads: bool = True
    """Whether a template imports what its first runner has imported, for the next ones."""
    dirs: Store | None = None
    """Where the folders of trials are stored when a training is over. None for nowhere."""
    dir_bytes: int = MOST_BYTES
    """The most that one of them may hold."""
    log: LogLimits = LogLimits()
    hash_seed: str = ""
    """The driver's ``PYTHONHASHSEED``; empty if it has none."""
    seal_key: bytes = b""
    """Seals what trials of this launch ask the driver; see ``runner.seal``."""

    def __repr__(self) -> str:
        return f"WorkerConfig({self.study!r}, worker {self.worker}.{self.epoch}, {self.endpoint!r})"


class DriverStream(Protocol):
    """Carries messages to the driver, each once and in order; ``asyncsearch.rpc.client.Connection`` is one."""

    @property
    def backlog(self) -> int:
        """Number of messages that the driver has not acknowledged."""

    def open(self) -> None:
        """Attach."""

    def send(self, message: WorkerMessage, /) -> None:
        """Send now or later, without waiting.

        Raises:
            ProtocolError: the message can never be sent.
        """

    def heartbeat(self) -> None:
        """Tell the driver that the worker is alive."""

    def flush(self, timeout_s: float, /) -> bool:
        """Wait until the driver has acknowledged everything, and return whether it has."""

    def close(self) -> None:
        """End the stream."""


class Connect(Protocol):
    """Makes a stream that is not open yet."""

    def __call__(
        self,
        endpoint: Endpoint | None,
        hello: Hello,
        *,
        deliver: Callable[[DriverMessage], None],
        closed: Callable[[Exception | None], None],
        reconnect_s: float,
    ) -> DriverStream:
        """Make a stream, which may call ``deliver`` and ``closed`` from any thread."""

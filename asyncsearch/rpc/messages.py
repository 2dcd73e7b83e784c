"""Messages between driver and worker, as Python values; no protobuf object ever leaves ``asyncsearch.rpc``.

Events and actions are messages themselves (``asyncsearch.events``, ``asyncsearch.actions``). Here are the others.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from asyncsearch.actions import AddLane, Assign, CutWork, DismissWorker, ExtendWork, SaveAt, StopTraining
from asyncsearch.events import (
    CheckpointCommitted,
    CheckpointFailed,
    PackMeasured,
    Reported,
    TrainingEnded,
    VolumeMeasured,
)
from asyncsearch.ids import Lease, WorkerId

PROTOCOL = 5
"""Version of the contract in ``rpc/search.proto``."""


class Hello(msgspec.Struct, frozen=True):
    """First message of an agent on each stream."""

    worker: WorkerId
    epoch: int
    agent: str
    """Random name of the agent process."""
    host: str = ""
    pid: int = 0
    protocol: int = PROTOCOL
    device: str = ""
    """The device on which it trains; empty if unknown."""


class Heartbeat(msgspec.Struct, frozen=True):
    """The agent is alive."""


class Welcome(msgspec.Struct, frozen=True):
    """First message of the driver on each stream: the worker is attached."""

    protocol: int = PROTOCOL


class LogLine(msgspec.Struct, frozen=True):
    """One line that a trial printed."""

    time_s: float
    """Clock of the worker, seconds since 1970; for display only."""
    text: str
    is_stderr: bool = False


class LogLines(msgspec.Struct, frozen=True):
    """A batch of lines of one lane."""

    lease: Lease
    lines: tuple[LogLine, ...]
    left_out: int = 0
    """Number of earlier lines omitted because there were too many."""
    lane: int = 0


class StoreOutage(msgspec.Struct, frozen=True):
    """The worker waits for a store that it cannot use, and tries again."""

    error: str = ""
    """The last answer of the store; empty if it can be used again."""


class GangNote(msgspec.Struct, frozen=True):
    """A note of one rank of a gang to the others; the driver passes it on and does not read it."""

    lease: Lease
    rank: int
    """Of the sender."""
    key: str
    """The name of the value; a rank tells each key once."""
    value: str


class TrialQuestion(msgspec.Struct, frozen=True):
    """A question of a trial to the one who answers in the driver, or what it tells; only these two read it."""

    lease: Lease
    number: int
    """From 2; it grows by one from question to question of a lane."""
    content: bytes
    is_awaited: bool = True
    """Whether an ``TrialAnswer`` follows."""
    has_more: bool = False
    """Whether the rest of the content follows in another message of this number."""
    lane: int = 0


class TrialAnswer(msgspec.Struct, frozen=True):
    """TrialAnswer to a ``TrialQuestion``."""

    lease: Lease
    number: int
    """That of the question; 1 for what a trial is told at its beginning without having asked."""
    content: bytes
    has_more: bool = False
    """Whether the rest of the content follows in another message of this number."""
    lane: int = 0


class RankFailed(msgspec.Struct, frozen=True):
    """The training of a rank above 0 failed, or its code has stopped the trial; with it that of its gang ends."""

    lease: Lease
    error: str
    """With the traceback or the last lines of output; the reason of a stop."""
    error_kind: str
    """As in ``TrainingEnded``."""
    has_stopped: bool = False
    """Whether its code has stopped the trial."""


class Refused(msgspec.Struct, frozen=True):
    """TrialAnswer to a message with a lease that is not current: drop all work under it."""

    lease: Lease
    reason: str


class Judged(msgspec.Struct, frozen=True):
    """TrialAnswer to a report that a trial awaits: all that follows from it was sent before this."""

    lease: Lease
    resource: int
    lane: int = 0
    next: int | None = None
    """Where the lane is judged next, besides a pause at its end. None if it is not."""


class StoreTokens(msgspec.Struct, frozen=True):
    """With these the worker reaches the store; they come before all work, and again whenever they were renewed."""

    tokens: bytes
    """A file of delegation tokens, as Hadoop writes it."""

    def __repr__(self) -> str:
        return f"StoreTokens({len(self.tokens)} bytes, hidden)"


WorkerMessage = (
    Hello
    | Heartbeat
    | Reported
    | TrainingEnded
    | PackMeasured
    | VolumeMeasured
    | CheckpointCommitted
    | CheckpointFailed
    | LogLines
    | StoreOutage
    | GangNote
    | RankFailed
    | TrialQuestion
)
DriverMessage = (
    Assign
    | AddLane
    | StopTraining
    | SaveAt
    | CutWork
    | ExtendWork
    | Judged
    | DismissWorker
    | Refused
    | StoreTokens
    | GangNote
    | TrialAnswer
)


class Endpoint(msgspec.Struct, frozen=True):
    """Driver's address and credentials, sent in the launcher's closure, never in configuration, arguments or logs."""

    address: str
    """``host:port``."""
    certificate_pem: bytes
    token: str
    worker_key_pem: bytes = b""
    """Key of the certificate that workers present; without it, the driver ends the connection in its handshake."""
    worker_certificate_pem: bytes = b""
    spare_port: int = 0
    """Another port of the same host, which nobody else is told: tried in turn with the first; 0 if there is none."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of the driver: a firewall may hide the second place, or a flood fill the first."""
        if not self.spare_port:
            return (self.address,)
        return (self.address, f"{self.address.rpartition(':')[0]}:{self.spare_port}")

    def __repr__(self) -> str:
        return f"Endpoint({self.address!r}, certificates, keys and token hidden)"


class Transport(Protocol):
    """Carries messages. All methods are called in the driver's loop thread and return at once."""

    def send(self, worker: WorkerId, epoch: int, message: DriverMessage) -> None:
        """Deliver a message to a launch of a worker, once, however often the stream breaks; drop it if that is over."""

    def acknowledge(self, worker: WorkerId, epoch: int, number: int) -> None:
        """Tell the worker that everything up to its message ``number`` is durable."""

    def disconnect(self, worker: WorkerId, epoch: int, reason: str) -> None:
        """Take nothing from this launch of the worker any more."""

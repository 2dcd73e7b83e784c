"""The agent's interface to its stream to the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from asyncsearch.rpc.messages import DriverMessage, Endpoint, Hello, WorkerMessage


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

"""What the driver asks of whatever carries messages to workers: the gRPC server, or the inline backend's queue."""

from __future__ import annotations

from typing import Protocol

from asyncsearch.ids import WorkerId
from asyncsearch.rpc.messages import DriverMessage


class Transport(Protocol):
    """Carries messages. All methods are called in the driver's loop thread and return at once."""

    def send(self, worker: WorkerId, epoch: int, message: DriverMessage) -> None:
        """Deliver a message to a launch of a worker, once, however often the stream breaks; drop it if that is over."""

    def acknowledge(self, worker: WorkerId, epoch: int, number: int) -> None:
        """Tell the worker that everything up to its message ``number`` is durable."""

    def disconnect(self, worker: WorkerId, epoch: int, reason: str) -> None:
        """Take nothing from this launch of the worker any more."""

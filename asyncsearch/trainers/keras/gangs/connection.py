"""Sums over the ranks of a gang, where the framework has none that can be made again in a process: a ring of sockets.

Each rank sends to the next one and receives from the one before. All ranks get the same bits, since each part of an
array is added up on one way round the ring and then passed on. Pseudocode, for k ranks and an array in k parts::

    for k - 1 times: send a part on; add the part that comes to the own one     # each rank has one part whole
    for k - 1 times: send the part on that is whole; take over the one that comes
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct
from typing import Any

import numpy as np

from asyncsearch.errors import RankLostError, UsageError
from asyncsearch.trainable.gang import TrialGang
from asyncsearch.trainers.keras.gangs.meeting import meet

_HEADER = struct.Struct("!QQ")
"""How often the ranks have summed, and how many bytes now."""


class Ring:
    """The way of this rank to the next one, and from the one before."""

    def __init__(self, rank: int, size: int, before: socket.socket, after: socket.socket) -> None:
        self.rank, self.size = rank, size
        self.error: RankLostError | UsageError | None = None
        """Why there are no sums any more."""
        self._before, self._after = before, after
        self._count = 0
        # All ranks send at once: if each waited until its part was sent, parts larger than buffers would hold up all.
        for one in (before, after):
            one.setblocking(False)

    def sum(self, values: Any) -> Any:
        """Return the sums over the ranks of a flat array, the same bits in each; every rank calls it.

        Args:
            values: a contiguous array of numbers with one dimension; the sums replace them.

        Raises:
            RankLostError: another rank is gone.
            UsageError: another rank sums something else.
        """
        try:
            self._require_same(values.nbytes)
            self._sum(np.array_split(values, self.size))
        except OSError as error:
            self.error = RankLostError(f"Rank {self.rank} lost the connection to another rank of its trial: {error}.")
            raise self.error from None
        except UsageError as error:
            self.error = error
            raise
        return values

    def pass_on(self, data: bytes) -> bytes:
        """Return the bytes of rank 0, in each rank; every rank calls it."""
        is_first = self.rank == 0
        length = self.sum(np.array([len(data) if is_first else 0]))
        content = np.zeros(int(length[0]), np.uint8)
        if is_first:
            content[:] = np.frombuffer(data, np.uint8)
        return self.sum(content).tobytes() if len(content) else b""

    def is_lost_rank(self, error: BaseException) -> bool:
        return isinstance(error, RankLostError)

    def close(self) -> None:
        """Close the connections."""
        for one in (self._before, self._after):
            with contextlib.suppress(OSError):
                one.close()

    def _sum(self, parts: list[Any]) -> None:
        rank, size = self.rank, self.size
        coming = np.empty_like(parts[0])  # the first part is the longest one
        for step in range(size - 1):
            mine = parts[(rank - step - 1) % size]
            self._exchange(parts[(rank - step) % size], coming[: len(mine)])
            mine += coming[: len(mine)]
        for step in range(size - 1):
            self._exchange(parts[(rank + 1 - step) % size], parts[(rank - step) % size])

    def _require_same(self, size: int) -> None:
        self._count += 1
        mine, other = _HEADER.pack(self._count, size), bytearray(_HEADER.size)
        self._exchange(mine, other)
        if other != mine:
            theirs = _HEADER.unpack(other)
            raise UsageError(
                f"Rank {self.rank} makes its sum {self._count} over the workers of the trial, of {size} bytes, and "
                f"the rank before it makes sum {theirs[0]}, of {theirs[1]} bytes: each must apply gradients of the "
                "same variables equally often."
            )

    def _exchange(self, out: Any, into: Any) -> None:
        """Send to the next rank while receiving from the one before: each waits for both, so neither is in order."""
        sending, coming = memoryview(out).cast("B"), memoryview(into).cast("B")
        while sending or coming:
            sent, got = self._send(sending), self._receive(coming)
            sending, coming = sending[sent:], coming[got:]
            if not sent and not got:
                self._wait(bool(sending), bool(coming))

    def _send(self, data: memoryview) -> int:
        try:
            return self._after.send(data) if data else 0
        except BlockingIOError:
            return 0

    def _receive(self, into: memoryview) -> int:
        if not into:
            return 0
        try:
            got = self._before.recv_into(into)
        except BlockingIOError:
            return 0
        if not got:
            raise ConnectionResetError("it has closed the connection")
        return got

    def _wait(self, is_sending: bool, is_coming: bool) -> None:
        waiting = select.poll()
        if is_sending:
            waiting.register(self._after, select.POLLOUT)
        if is_coming:
            waiting.register(self._before, select.POLLIN)
        waiting.poll()


def open_ring(gang: TrialGang) -> Ring:
    """Return the ring of a gang; the first call in a training makes it.

    Raises:
        RankLostError: a rank cannot be reached.
    """
    return gang.connected(Ring, lambda: Ring(gang.seat.rank, gang.seat.size, *meet(gang)))

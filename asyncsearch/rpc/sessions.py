"""The driver's sessions with its workers across streams, and the decision who may attach.

A session is one launch of a worker slot (its epoch), held by one agent process (its random name). The same three
resume the session; a higher epoch replaces it; any other process is a rival or a leftover, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from asyncsearch.errors import OtherProtocolError, StaleLeaseError
from asyncsearch.ids import WorkerId, worker_name
from asyncsearch.rpc.messages import PROTOCOL, Hello
from asyncsearch.rpc.worker_stream import Session


class Sessions:
    """The newest session of each worker, and the launches that are over."""

    def __init__(self) -> None:
        self._sessions: dict[WorkerId, Session] = {}
        self._over: dict[WorkerId, tuple[int, str]] = {}

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    def find(self, worker: WorkerId, epoch: int) -> Session | None:
        """Return the session of a launch, if it is the current one."""
        session = self._sessions.get(worker)
        return session if session is not None and session.epoch == epoch else None

    def of(self, worker: WorkerId) -> Session | None:
        """Return the current session of a worker."""
        return self._sessions.get(worker)

    def put(self, worker: WorkerId, session: Session | None) -> None:
        if session is None:
            self._sessions.pop(worker, None)
        else:
            self._sessions[worker] = session

    def end(self, worker: WorkerId, epoch: int, reason: str) -> Session | None:
        """Refuse a launch and all earlier ones from now on; return its session if it was the current one."""
        self._over[worker] = max((epoch, reason), self._over.get(worker, (0, "")))
        session = self.find(worker, epoch)
        if session is not None:
            del self._sessions[worker]
        return session

    def admit(self, hello: Hello, ack: int) -> Session:
        """Return the session that a worker resumes, or a new one, which is not yet the current one.

        Args:
            ack: number of the newest driver's message that the worker has received.

        Raises:
            OtherProtocolError: it speaks another version of the contract.
            StaleLeaseError: it is not the newest launch of its worker, or not the process that took the launch.
            ProtocolError: it acknowledges a message that was never sent.
        """
        if hello.protocol != PROTOCOL:
            raise OtherProtocolError(
                f"The worker speaks version {hello.protocol} of the protocol and the driver version {PROTOCOL}: "
                "install the same asyncsearch on both."
            )
        who = f"{worker_name(hello.worker)}, epoch {hello.epoch}"
        epoch, reason = self._over.get(hello.worker, (0, ""))
        if hello.epoch <= epoch:
            raise StaleLeaseError(f"{who}, is over; epoch {epoch} ended: {reason}")
        former = self._sessions.get(hello.worker)
        if former is not None and (former.epoch, former.agent) == (hello.epoch, hello.agent):
            former.outbox.acknowledge(ack)
            return former
        if former is not None and hello.epoch <= former.epoch:
            raise StaleLeaseError(
                f"{who}, came as process {hello.agent}; epoch {former.epoch} is held by {former.agent}."
            )
        if ack:
            raise StaleLeaseError(f"{who}, comes back to a driver that does not know it.")
        return Session(hello.worker, hello.epoch, hello.agent)


EVERY_S = 60.0
MOST = 1_000
"""Different peers, and so lines, in ``EVERY_S``."""


class RefusalLog:
    """Admits one line a peer and minute, and counts those between."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[float, int]] = {}
        """Peer -> when it was last logged, and how many of its refusals were not logged since; the oldest first."""

    def __len__(self) -> int:
        return len(self._last)

    def admit(self, peer: str, now: float) -> int | None:
        """Return how many refusals of a peer were left out before this one; None if this one is to be left out, too.

        Args:
            now: seconds of a clock that never goes back.
        """
        self._forget(now)
        logged_s, left_out = self._last.get(peer, (None, 0))
        if logged_s is not None and now - logged_s < EVERY_S:
            self._last[peer] = (logged_s, left_out + 1)
            return None
        if logged_s is None and len(self._last) >= MOST:
            return None
        self._last.pop(peer, None)
        self._last[peer] = (now, 0)
        return left_out

    def _forget(self, now: float) -> None:
        """Forget the peers that have been quiet for two periods, the first entries."""
        while self._last:
            peer = next(iter(self._last))
            if now - self._last[peer][0] < 2 * EVERY_S:
                return
            del self._last[peer]

"""How the ranks of a gang connect to a ring: each tells through the driver where it listens, and proves who it is.

The secret of the proofs comes from rank 0 through the driver, over TLS. Later traffic is neither encrypted nor
authenticated, as that of torch's process groups.
"""

from __future__ import annotations

import contextlib
import hmac
import selectors
import socket
import time

from asyncsearch.errors import RankLostError
from asyncsearch.trainable.gang import Ranks
from asyncsearch.trainers.ranks import PATIENCE_S, PROOF_BYTES, proof_of, secret_of

_ADDRESS = "ring address"
_WAITING = 128
"""How many may have connected before they are heard."""
STRANGER_S = 5.0
"""How long the whole proof of one that has connected may take, however it comes."""
MOST_AT_ONCE = 64
"""How many may prove themselves at a time; of more, the one that connected first is sent away."""


def meet(ranks: Ranks) -> tuple[socket.socket, socket.socket]:
    """Return the connections from the rank before this one, and to the one after it.

    Raises:
        RankLostError: one of them cannot be reached, or does not prove that it belongs to the gang.
    """
    rank, size = ranks.seat.rank, ranks.seat.size
    before, after = (rank - 1) % size, (rank + 1) % size
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(_listener(ranks.seat.host, size))
        address = "{} {}".format(*listener.getsockname())
        ranks.tell(_ADDRESS, address)
        secret = secret_of(ranks)
        # All are heard first: a rank that has told its address is about to connect, however long its start took.
        places = {other: ranks.await_value(other, _ADDRESS) for other in range(size) if other != rank}
        to_next = opened.enter_context(_connected(after, places[after], proof_of(secret, f"to {places[after]}")))
        from_before = opened.enter_context(_accepted(listener, secret, address, before))
        _require_proof(to_next, proof_of(secret, f"at {places[after]}"), after, places[after])
        opened.pop_all()
    listener.close()
    return from_before, to_next


def _listener(host: str, ranks: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, 0), family=family, backlog=max(ranks, _WAITING))


def _connected(rank: int, address: str, proof: bytes) -> socket.socket:
    host, port = address.split()
    try:
        found = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found.sendall(proof)
    except OSError as error:
        raise RankLostError(_words(rank, address, error)) from None
    return found


def _accepted(listener: socket.socket, secret: bytes, address: str, rank: int) -> socket.socket:
    """Return the connection from the rank before, and prove to it who this is; strangers are sent away."""
    due_s = time.monotonic() + PATIENCE_S
    found = await_member(listener, proof_of(secret, f"to {address}"), due_s)
    if found is None:
        why = f"it did not connect within {PATIENCE_S:.0f} s: does a firewall refuse it?"
        raise RankLostError(f"Rank {rank} of the trial cannot reach {address}: {why}")
    try:
        found.settimeout(max(due_s - time.monotonic(), 1.0))
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found.sendall(proof_of(secret, f"at {address}"))
    except OSError as error:
        found.close()
        raise RankLostError(_words(rank, address, error)) from None
    return found


def _require_proof(connection: socket.socket, expected: bytes, rank: int, address: str) -> None:
    try:
        is_right = hmac.compare_digest(read_whole(connection, time.monotonic() + PATIENCE_S), expected)
    except OSError as error:
        raise RankLostError(_words(rank, address, error)) from None
    if not is_right:
        raise RankLostError(_words(rank, address, "something else answers there"))


def _words(rank: int, address: str, why: object) -> str:
    return f"Rank {rank} of the trial cannot be reached at {address}: {why}."


def await_member(listener: socket.socket, proof: bytes, due_s: float) -> socket.socket | None:
    """Return the connection that sends a proof; None if none came in time.

    Args:
        listener: where members and strangers connect.
        proof: the first bytes of a member.
        due_s: when to give up, monotonic seconds.
    """
    proving: dict[socket.socket, _Proof] = {}
    listener.setblocking(False)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            while (now := time.monotonic()) < due_s:
                for one in [one for one, begun in proving.items() if now >= begun.due_s]:
                    _send_away(one, proving, selector)
                wait_s = min([due_s, *(begun.due_s for begun in proving.values())]) - now
                for key, _ in selector.select(max(wait_s, 0.0)):
                    found = key.fileobj
                    assert isinstance(found, socket.socket)
                    if found is listener:
                        _accept(listener, proving, selector)
                    elif found in proving and proving[found].is_over(found):
                        if hmac.compare_digest(proving[found].received, proof):
                            del proving[found]
                            return found
                        _send_away(found, proving, selector)
    finally:
        for one in proving:
            one.close()
    return None


def read_whole(connection: socket.socket, due_s: float) -> bytes:
    """Return the first bytes of a connection, as many as a proof has, or fewer if it ends before.

    Raises:
        OSError: it broke; TimeoutError: not all came before ``due_s``, monotonic seconds.
    """
    found = b""
    while len(found) < PROOF_BYTES:
        if (left_s := due_s - time.monotonic()) <= 0:
            raise TimeoutError("the proof took too long")
        connection.settimeout(left_s)
        if not (more := connection.recv(PROOF_BYTES - len(found))):
            break
        found += more
    return found


class _Proof:
    """The bytes of one connection so far."""

    def __init__(self) -> None:
        self.due_s = time.monotonic() + STRANGER_S
        self.received = b""

    def is_over(self, connection: socket.socket) -> bool:
        """Take the bytes that have come, and return whether no more are awaited."""
        try:
            more = connection.recv(PROOF_BYTES - len(self.received))
        except BlockingIOError:
            return False
        except OSError:
            more = b""
        self.received += more
        return not more or len(self.received) >= PROOF_BYTES


def _accept(listener: socket.socket, proving: dict[socket.socket, _Proof], selector: selectors.BaseSelector) -> None:
    with contextlib.suppress(OSError):  # it has gone again, or there is no descriptor for it
        found, _ = listener.accept()
        if len(proving) >= MOST_AT_ONCE:
            _send_away(next(iter(proving)), proving, selector)
        found.setblocking(False)
        proving[found] = _Proof()
        selector.register(found, selectors.EVENT_READ)


def _send_away(one: socket.socket, proving: dict[socket.socket, _Proof], selector: selectors.BaseSelector) -> None:
    del proving[one]
    selector.unregister(one)
    one.close()

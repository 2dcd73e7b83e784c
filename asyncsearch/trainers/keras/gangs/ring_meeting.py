"""How the ranks of a gang connect to a ring: each tells through the driver where it listens, and proves who it is.

The secret of the proofs comes from rank 0 through the driver, over TLS. Later traffic is neither encrypted nor
authenticated, as that of torch's process groups.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import time

from asyncsearch.errors import RankLostError
from asyncsearch.trainers.keras.gangs.strangers import PROOF_BYTES, await_member, read_whole
from asyncsearch.trainers.ranks import Ranks

_ADDRESS, _SECRET = "ring address", "ring secret"
_PATIENCE_S = 60.0
"""How long a rank that has told where it listens may take to connect: it does nothing else meanwhile."""
_WAITING = 128
"""How many may have connected before they are heard."""


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
        secret = _secret_of(ranks)
        # All are heard first: a rank that has told its address is about to connect, however long its start took.
        places = {other: ranks.await_value(other, _ADDRESS) for other in range(size) if other != rank}
        to_next = opened.enter_context(_connected(after, places[after], _proof(secret, f"to {places[after]}")))
        from_before = opened.enter_context(_accepted(listener, secret, address, before))
        _require_proof(to_next, _proof(secret, f"at {places[after]}"), after, places[after])
        opened.pop_all()
    listener.close()
    return from_before, to_next


def _listener(host: str, ranks: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, 0), family=family, backlog=max(ranks, _WAITING))


def _secret_of(ranks: Ranks) -> bytes:
    secret = ranks.await_value(0, _SECRET) if ranks.seat.rank else secrets.token_hex(PROOF_BYTES)
    if not ranks.seat.rank:
        ranks.tell(_SECRET, secret)
    return bytes.fromhex(secret)


def _connected(rank: int, address: str, proof: bytes) -> socket.socket:
    host, port = address.split()
    try:
        found = socket.create_connection((host, int(port)), timeout=_PATIENCE_S)
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found.sendall(proof)
    except OSError as error:
        raise RankLostError(_words(rank, address, error)) from None
    return found


def _accepted(listener: socket.socket, secret: bytes, address: str, rank: int) -> socket.socket:
    """Return the connection from the rank before, and prove to it who this is; strangers are sent away."""
    due_s = time.monotonic() + _PATIENCE_S
    found = await_member(listener, _proof(secret, f"to {address}"), due_s)
    if found is None:
        why = f"it did not connect within {_PATIENCE_S:.0f} s: does a firewall refuse it?"
        raise RankLostError(f"Rank {rank} of the trial cannot reach {address}: {why}")
    try:
        found.settimeout(max(due_s - time.monotonic(), 1.0))
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found.sendall(_proof(secret, f"at {address}"))
    except OSError as error:
        found.close()
        raise RankLostError(_words(rank, address, error)) from None
    return found


def _require_proof(connection: socket.socket, expected: bytes, rank: int, address: str) -> None:
    try:
        is_right = hmac.compare_digest(read_whole(connection, time.monotonic() + _PATIENCE_S), expected)
    except OSError as error:
        raise RankLostError(_words(rank, address, error)) from None
    if not is_right:
        raise RankLostError(_words(rank, address, "something else answers there"))


def _proof(secret: bytes, text: str) -> bytes:
    return hmac.digest(secret, text.encode(), "sha256")


def _words(rank: int, address: str, why: object) -> str:
    return f"Rank {rank} of the trial cannot be reached at {address}: {why}."

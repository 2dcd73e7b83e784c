"""Listens to all who connect to a port side by side, each for a bounded time, until one proves that it belongs here."""

from __future__ import annotations

import contextlib
import hmac
import selectors
import socket
import time

PROOF_BYTES = 32
STRANGER_S = 5.0
"""How long the whole proof of one that has connected may take, however it comes."""
MOST_AT_ONCE = 64
"""How many may prove themselves at a time; of more, the one that connected first is sent away."""


def await_member(listener: socket.socket, proof: bytes, due_s: float) -> socket.socket | None:
    """Return the connection that sends a proof; None: none came in time.

    Args:
        listener: where members and strangers connect.
        proof: what a member sends first.
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
    """What one that has connected has sent so far."""

    def __init__(self) -> None:
        self.due_s = time.monotonic() + STRANGER_S
        self.received = b""

    def is_over(self, connection: socket.socket) -> bool:
        """Take what has come, and return whether no more is awaited."""
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

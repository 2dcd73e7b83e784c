"""The meeting of workers with a driver that is a task of the cluster: its address is a file of a store that both reach.

A worker's task reads the address and a secret there, proves that it knows the secret, and is told of which launch it is
the worker; the configuration of that launch is a file of the store, too. The connection stands as long as the task
serves, so that each side notices at once that the other one is gone.

Rule: nothing that comes over this connection is unpickled, and nothing secret goes over it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import socket
import threading
import time
from collections.abc import Callable

import msgspec

from asyncsearch.errors import DisconnectedError
from asyncsearch.launch.listening_port import ListeningPort
from asyncsearch.store.base_store import Store

FOLDER = "remote"
"""The folder of a store with all that client, driver and workers tell each other; nothing in it outlives a run."""
DRIVER = f"{FOLDER}/driver.json"
LAUNCHES = f"{FOLDER}/launches"
BUNDLE = f"{FOLDER}/bundle.bin"
PATIENCE_S = 60.0
"""How long a worker's task looks for a driver, which has its slot and may still be starting."""
_LOOK_S = 0.5
_HANDSHAKE_S = 10.0
_MOST_HANDSHAKES = 256
"""Peers that have not proved themselves yet: strangers are to take no more threads."""
_NONCE_BYTES, _PROOF_BYTES = 16, 32
_LONGEST_LINE = 65_536
_SILENT_S, _PROBES = 20, 3
"""After this silence the system asks whether the other machine is there, so often and as long apart."""


class DriverPlace(msgspec.Struct, frozen=True):
    """The file by which a driver is met."""

    host: str
    port: int
    secret: str
    """Known to those who may read the store."""
    attempt: str
    """Names the task in which this driver runs; another one has another name."""

    def __repr__(self) -> str:
        return f"DriverPlace({self.host}:{self.port}, {self.attempt})"


class Assignment(msgspec.Struct, frozen=True):
    """The word to a worker's task: its launch, or that the run is over."""

    worker: int = 0
    epoch: int = 0
    is_over: bool = False


_PLACE = msgspec.json.Decoder(DriverPlace)
_ASSIGNMENT = msgspec.json.Decoder(Assignment)


def read_place(store: Store) -> DriverPlace | None:
    """Return where the driver of a store is, or was when it was killed; None if it told nobody."""
    found = store.read(DRIVER)
    try:
        return None if found is None else _PLACE.decode(found)
    except msgspec.MsgspecError:  # half of a file, where a store cannot write one at once
        return None


def launch_file(worker: int, epoch: int) -> str:
    """Return the name of the file with the configuration of a launch."""
    return f"{LAUNCHES}/worker-{worker}.{epoch}.bin"


class MeetingLine:
    """A connection of lines, each of them JSON."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (("TCP_KEEPIDLE", _SILENT_S), ("TCP_KEEPINTVL", _SILENT_S), ("TCP_KEEPCNT", _PROBES)):
            if hasattr(socket, name):  # not on each system
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def within(self, timeout_s: float | None) -> None:
        """Let later calls wait for at most so long. None means for any time."""
        self._connection.settimeout(timeout_s)

    def send(self, value: object) -> None:
        self._connection.sendall(msgspec.json.encode(value) + b"\n")

    def receive(self) -> bytes:
        """Return the next line; empty once the other side is gone, or sends something else.

        Raises:
            OSError: the connection is broken.
        """
        while b"\n" not in self._rest and len(self._rest) <= _LONGEST_LINE:
            part = self._connection.recv(4096)
            if not part:
                return b""
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        return line if len(line) <= _LONGEST_LINE else b""

    def exactly(self, count: int) -> bytes:
        """Return so many bytes, which come before all lines; empty if the other side is gone."""
        while len(self._rest) < count:
            part = self._connection.recv(count - len(self._rest))
            if not part:
                return b""
            self._rest += part
        found, self._rest = self._rest[:count], self._rest[count:]
        return found

    def raw(self, data: bytes) -> None:
        self._connection.sendall(data)

    def close(self) -> None:
        """End it; a thread that waits in ``receive`` returns."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def _proof(secret: str, nonce: bytes) -> bytes:
    return hmac.digest(secret.encode(), nonce, hashlib.sha256)


class MeetingPlace:
    """The port at which the driver is met, with the file that says so, inside ``with MeetingPlace(...) as place:``."""

    def __init__(self, host: str, bind: str, attempt: str, arrived: Callable[[MeetingLine], None]) -> None:
        """Describe it.

        Args:
            host: the name at which tasks of the cluster reach this one.
            bind: the address to listen on.
            attempt: names this driver.
            arrived: called in a thread of its own with each worker's task that has proved itself; it owns the line.
        """
        self._host, self._bind, self._attempt, self._arrived = host, bind, attempt, arrived
        self._secret = secrets.token_hex(32)
        self._handshakes = threading.BoundedSemaphore(_MOST_HANDSHAKES)
        self._listener: ListeningPort | None = None

    def open(self, store: Store) -> None:
        """Listen, and say so in the store.

        Raises:
            OSError: the address cannot be listened on.
            StoreError: the store cannot be written.
        """
        self._listener = ListeningPort(self._bind, 0, self._take, "asyncsearch-meeting")
        place = DriverPlace(self._host.strip("[]"), self._listener.port, self._secret, self._attempt)
        store.write(DRIVER, msgspec.json.encode(place))

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()

    def _take(self, connection: socket.socket) -> None:
        if self._handshakes.acquire(blocking=False):
            line = MeetingLine(connection)
            threading.Thread(target=self._meet, args=(line,), name="asyncsearch-met", daemon=True).start()
        else:  # a task tries again
            connection.close()

    def _meet(self, line: MeetingLine) -> None:
        try:
            line.within(_HANDSHAKE_S)
            nonce = secrets.token_bytes(_NONCE_BYTES)
            line.raw(nonce)
            is_known = hmac.compare_digest(line.exactly(_PROOF_BYTES), _proof(self._secret, nonce))
            line.within(None)
        except OSError:  # it is gone
            is_known = False
        finally:
            self._handshakes.release()
        if is_known:
            self._arrived(line)
        else:
            line.close()


def meet(store: Store, patience_s: float = PATIENCE_S) -> tuple[MeetingLine, Assignment]:
    """Wait in a worker's task for a driver and for a launch; return the connection, and what the driver has said.

    Raises:
        DisconnectedError: no driver was there for ``patience_s`` seconds; or one was, and has ended: the next one may
            be waiting for the slot of this task.
    """
    until_s = time.monotonic() + patience_s
    why = f"{store.shown}/{DRIVER} is not there"
    while time.monotonic() < until_s:
        place = read_place(store)
        if place is not None:
            try:
                line = _greeted(place)
            except OSError as error:
                why = f"the driver at {place.host}:{place.port} cannot be reached: {error}"
            else:
                assigned = _assigned(line)
                if assigned is not None:
                    return line, assigned
                line.close()
                raise DisconnectedError(f"The driver at {place.host}:{place.port} has ended.")
        time.sleep(_LOOK_S)  # a file of a store cannot be waited for
    raise DisconnectedError(f"This worker's task has met no driver for {patience_s:g} s: {why}.")


def _assigned(line: MeetingLine) -> Assignment | None:
    """Return the assignment that the driver sends once it has a launch; None if the driver is gone before."""
    try:
        return _ASSIGNMENT.decode(line.receive())
    except (OSError, msgspec.MsgspecError):
        return None


def _greeted(place: DriverPlace) -> MeetingLine:
    line = MeetingLine(socket.create_connection((place.host, place.port), timeout=_HANDSHAKE_S))
    try:
        nonce = line.exactly(_NONCE_BYTES)
        if not nonce:
            raise ConnectionResetError("it has closed the connection")
        line.raw(_proof(place.secret, nonce))
        line.within(None)
    except BaseException:
        line.close()
        raise
    return line

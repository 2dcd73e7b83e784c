"""A network between driver and workers that drops, delays, cuts and swallows: a TCP proxy for each launch."""

from __future__ import annotations

import contextlib
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import AgentFunction, ConfigFor, OnWorkerEnded, run_agent
from asyncsearch.launch.processes import ProcessLauncher
from asyncsearch.rpc import client
from asyncsearch.rpc.channel import Keepalive

PATIENCE_S = 300.0
UP, DOWN = "to the driver", "to the worker"
_RESET = struct.pack("ii", 1, 0)
"""Makes ``close`` send a reset: the peer learns at once that the connection is gone."""


class Weather(msgspec.Struct, frozen=True, kw_only=True):
    """What a link does to what it carries."""

    delay_s: float = 0.0
    """By how much later each piece arrives."""
    drops_after: tuple[int, ...] = ()
    """Bytes, of both directions, after which a connection is reset, for each connection in turn; empty: never."""
    swallows: frozenset[str] = frozenset()
    """Directions in which connections stand and carry nothing."""
    is_down: bool = False
    """Whether there is no connection, and none can be made."""


FAIR = Weather()


class Link:
    """The way of one launch of a worker to its driver."""

    def __init__(self, port: int, weather: Weather) -> None:
        self._target = port
        self.weather = weather
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs: list[_Pair] = []
        self._changed = threading.Condition()
        self.accepted = self.refused = 0
        self._to_refuse = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, weather: Weather) -> None:
        """Change what becomes of what is carried from now on."""
        with self._changed:
            self.weather = weather
            pairs = list(self._pairs)
        if weather.is_down:
            for pair in pairs:
                pair.reset()

    def cut(self) -> None:
        """Break the present connections; new ones can be made."""
        with self._changed:
            pairs = list(self._pairs)
        for pair in pairs:
            pair.reset()

    def refuse(self, times: int) -> None:
        """Break the present connections, and refuse so many new ones."""
        with self._changed:
            self._to_refuse = times
        self.cut()

    def wait_for(self, is_enough: Callable[[Link], bool]) -> None:
        """Wait until the connections made and refused are enough."""
        with self._changed:
            assert self._changed.wait_for(lambda: is_enough(self), PATIENCE_S), (self.accepted, self.refused)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                with self._changed:
                    if self.weather.is_down or self._to_refuse:
                        self.refused += 1
                        self._to_refuse = max(0, self._to_refuse - 1)
                        _reset(near)
                    else:
                        self.accepted += 1
                        self._pairs.append(_Pair(self, near, socket.create_connection(("127.0.0.1", self._target))))
                    self._changed.notify_all()


class _Pair:
    """One connection of a worker, and the one to the driver that carries on what comes from it."""

    def __init__(self, link: Link, near: socket.socket, far: socket.socket) -> None:
        self._link, self._sockets, self._number = link, (near, far), link.accepted
        self._carried = 0
        for source, sink, way in ((near, far, UP), (far, near, DOWN)):
            pieces: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            threading.Thread(target=self._read, args=(source, pieces), daemon=True).start()
            threading.Thread(target=self._write, args=(sink, pieces, way), daemon=True).start()

    def reset(self) -> None:
        for end in self._sockets:
            _reset(end)

    def _read(self, source: socket.socket, pieces: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        data = b"begun"
        while data:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            pieces.put((time.monotonic() + self._link.weather.delay_s, data))

    def _write(self, sink: socket.socket, pieces: queue.SimpleQueue[tuple[float, bytes]], way: str) -> None:
        with contextlib.suppress(OSError):
            while True:
                due, data = pieces.get()
                time.sleep(max(0.0, due - time.monotonic()))
                weather = self._link.weather
                if way in weather.swallows:
                    continue
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                self._carried += len(data)
                limits = weather.drops_after
                if limits and self._carried > limits[self._number % len(limits)]:
                    self.reset()
                    return
                sink.sendall(data)


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
    end.close()


class Network(ProcessLauncher):
    """Workers as processes, each launch behind a link of its own."""

    def __init__(
        self,
        weather: Callable[[WorkerId, int], Weather] = lambda worker, epoch: FAIR,
        *,
        is_split: bool = False,
        agent: AgentFunction = run_agent,
    ) -> None:
        """Make a network.

        Args:
            weather: what each launch of a worker begins with.
            is_split: whether lost workers live on, as on machines that the driver cannot reach.
            agent: as in ``ProcessLauncher``.
        """
        super().__init__(agent=agent)
        self._weather, self._is_split = weather, is_split
        self._links: dict[tuple[WorkerId, int], Link] = {}
        self._made = threading.Condition()
        self.ends: queue.Queue[tuple[WorkerId, int, str]] = queue.Queue()
        """The end of each launch, and its reason."""

    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        def through_link(worker: WorkerId, epoch: int) -> WorkerConfig:
            config = config_for(worker, epoch)
            assert config.endpoint is not None
            link = Link(int(config.endpoint.address.rpartition(":")[2]), self._weather(worker, epoch))
            with self._made:
                self._links[worker, epoch] = link
                self._made.notify_all()
            # Without a spare port, which would be a way round the link.
            endpoint = msgspec.structs.replace(config.endpoint, address=link.address, spare_port=0)
            return msgspec.structs.replace(config, endpoint=endpoint)

        def told(worker: WorkerId, epoch: int, reason: str) -> None:
            self.ends.put((worker, epoch, reason))
            ended(worker, epoch, reason)

        super().start(through_link, told)

    def kill(self, worker: WorkerId, epoch: int) -> None:
        if not self._is_split:
            super().kill(worker, epoch)

    def link(self, worker: int = 0, epoch: int = 1) -> Link:
        """Return the link of a launch, once there is one."""
        key = (WorkerId(worker), epoch)
        with self._made:
            assert self._made.wait_for(lambda: key in self._links, PATIENCE_S), key
            return self._links[key]

    def links(self, worker: int) -> list[Link]:
        """Return the links of all launches of a worker, the newest last."""
        with self._made:
            return [self._links[key] for key in sorted(self._links) if key[0] == worker]

    def end_of(self, worker: int, epoch: int) -> str:
        """Wait for the end of a launch, and return its reason."""
        while True:
            ended = self.ends.get(timeout=PATIENCE_S)
            if ended[:2] == (worker, epoch):
                return ended[2]

    def agents(self) -> dict[WorkerId, int]:
        """Return the process of each worker that has one."""
        with self._changed:
            launches = list(self._launches.items())
        return {key[0]: launch._process.pid for key, launch in launches if launch._process is not None}

    def close(self) -> None:
        """Close all links."""
        with self._made:
            links = list(self._links.values())
        for link in links:
            link.close()


def wary_agent(config: WorkerConfig) -> str:
    """Run an agent that looks every second whether its connection is dead."""

    def quick(*args: Any, **kwargs: Any) -> Keepalive:
        return Keepalive(every_s=1.0, timeout_s=1.0)

    client.Keepalive = quick  # type: ignore[assignment,misc]
    return run_agent(config)

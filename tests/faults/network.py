"""A network between driver and workers that drops, delays, cuts and swallows: a TCP proxy for each launch."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import msgspec

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.ids import WorkerId
from asyncsearch.launch.base_launcher import AgentFunction, ConfigFor, OnWorkerEnded, run_agent
from asyncsearch.launch.processes import ProcessLauncher
from asyncsearch.rpc import client
from asyncsearch.rpc.channel import Keepalive
from tests.rpc.proxy import FAIR, PATIENCE_S, Proxy, Weather


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
        self._links: dict[tuple[WorkerId, int], Proxy] = {}
        self._made = threading.Condition()
        self.ends: queue.Queue[tuple[WorkerId, int, str]] = queue.Queue()
        """The end of each launch, and its reason."""

    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        def through_link(worker: WorkerId, epoch: int) -> WorkerConfig:
            config = config_for(worker, epoch)
            assert config.endpoint is not None
            link = Proxy(int(config.endpoint.address.rpartition(":")[2]), self._weather(worker, epoch))
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

    def link(self, worker: int = 0, epoch: int = 1) -> Proxy:
        """Return the link of a launch, once there is one."""
        key = (WorkerId(worker), epoch)
        with self._made:
            assert self._made.wait_for(lambda: key in self._links, PATIENCE_S), key
            return self._links[key]

    def links(self, worker: int) -> list[Proxy]:
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

    vars(client)["Keepalive"] = quick
    return run_agent(config)

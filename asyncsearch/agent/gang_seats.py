"""The place of a worker in the gang that trains a work, and the address at which the other ranks reach it."""

from __future__ import annotations

import functools
import socket

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.runner.protocol import GangSeat
from asyncsearch.work import GangMember, Work


def seat_in(work: Work, config: WorkerConfig) -> GangSeat | None:
    """Return the place of this worker; None: it trains the work alone."""
    if not isinstance(work.gang, tuple):
        return None
    rank = work.gang.index(GangMember(config.worker, config.epoch))
    address = "" if config.endpoint is None else config.endpoint.address
    return GangSeat(rank, len(work.gang), own_address(address))


@functools.cache
def own_address(driver: str) -> str:
    """Return the address of this machine on the network on which it reaches the driver, ``host:port``.

    A host's name may stand for an address that other machines cannot reach, such as 127.0.1.1; this one has a way.
    """
    host, _, port = driver.rpartition(":")
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(place)  # sends nothing
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return "127.0.0.1"

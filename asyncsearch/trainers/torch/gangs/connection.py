"""PyTorch's process group of the workers that train a trial together, and the way in which its ranks agree.

It lives until this process begins another training: closing it at the end would break the last step of a rank that is
behind. torch's own traffic between its members is neither encrypted nor authenticated.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from asyncsearch.errors import RankLostError, UsageError
from asyncsearch.trainable.gang import RankConnection, Ranks, TrialGang
from asyncsearch.trainers.ranks import secret_of

_DEVICE = "torch device"
_SIOCGIFADDR = 0x8915
"""Linux: the address of a network interface."""


class GroupConnection:
    """A process group, as this library has made it."""

    def __init__(self, group: Any, backend: str) -> None:
        self.group = group
        self._device = torch.device("cuda" if backend == "nccl" else "cpu")

    def close(self) -> None:
        """Close the group, unless the user's code has made another one in its place."""
        with contextlib.suppress(Exception):  # the other ranks may be gone
            if dist.is_initialized() and dist.group.WORLD is self.group:
                dist.destroy_process_group()

    def is_lost_rank(self, error: BaseException) -> bool:
        return is_lost_rank(error)

    def pass_on(self, data: bytes) -> bytes:
        """Return the bytes of rank 0, in each rank; every rank calls it."""
        length = torch.tensor([len(data)], dtype=torch.int64, device=self._device)
        self.group.broadcast(length, 0).wait()
        if not (size := int(length)):
            return b""
        content = torch.tensor(list(data) if data else [0] * size, dtype=torch.uint8, device=self._device)
        self.group.broadcast(content, 0).wait()
        return bytes(content.tolist())


def open_group(gang: TrialGang, backend: str | None = None) -> Any:
    """Return the process group of a gang; the first call in a training makes it.

    Raises:
        RankLostError: another rank cannot be reached, or is none of the gang.
        UsageError: this torch has no such backend, or the ranks have unequal devices.
    """
    return connected(gang, backend).group


def connected(gang: TrialGang, backend: str | None = None) -> GroupConnection:
    """Return the connection of a gang; the rest is as in ``open_group``."""
    return gang.connected(GroupConnection, lambda: _meet(gang, backend))


def _meet(ranks: Ranks, backend: str | None) -> GroupConnection:
    chosen, seat = _backend(backend), ranks.seat
    if dist.is_initialized():
        return GroupConnection(dist.group.WORLD, dist.get_backend())
    from asyncsearch.trainers.torch.gangs.meeting import GangStore, require_members  # not in a torch without its base

    _use_interface_of(seat.host)
    device = "gloo" if backend == "gloo" else _device()
    if seat.rank == 0:
        ranks.tell(_DEVICE, device)
    else:
        require_equal_devices(ranks.await_value(0, _DEVICE), device, seat.rank)
    secret = secret_of(ranks)
    try:
        dist.init_process_group(chosen, store=GangStore(ranks), rank=seat.rank, world_size=seat.size)
    except RuntimeError as error:
        if is_lost_rank(error):  # said here: there is no connection yet that could be asked
            raise RankLostError(f"Rank {seat.rank} cannot reach another rank of its trial: {error}") from None
        raise
    if chosen == "gloo":  # NCCL takes only those who know the random number that its ranks got through the store
        require_members(ranks, secret, dist.group.WORLD)
    return GroupConnection(dist.group.WORLD, chosen)


def open_lone_group(backend: str | None, keep: Callable[[RankConnection], None]) -> Any:
    """Return a process group of this process alone, for code that also trains on several workers.

    Args:
        backend: as in ``open_group``.
        keep: takes the connection, to close it in the end, unless the group is the user's own.

    Raises:
        UsageError: this torch has no such backend.
    """
    chosen = _backend(backend)
    if not dist.is_initialized():
        dist.init_process_group(chosen, store=dist.HashStore(), rank=0, world_size=1)
        keep(GroupConnection(dist.group.WORLD, chosen))
    return dist.group.WORLD


def summed(values: list[float], group: Any, device: torch.device) -> list[float]:
    """Return sums over the ranks, in double precision."""
    total = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(total, group=group)
    sums: list[float] = total.tolist()
    return sums


def is_lost_rank(error: BaseException) -> bool:
    """Return whether an error says that another rank is gone, rather than what is wrong with this one."""
    if isinstance(error, getattr(dist, "DistNetworkError", ())):
        return True
    text = str(error)
    # Gloo has no type of its own: a RuntimeError of the user's may have the same words, but not Gloo's source file.
    is_by_backend = isinstance(error, getattr(dist, "DistBackendError", ())) or (
        isinstance(error, RuntimeError) and _GLOO in text
    )
    return is_by_backend and any(words in text for words in _LOST)


_GLOO = "gloo/transport/"
_LOST = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Socket closed",
    "remote process exited",
)


def _backend(asked: str | None) -> str:
    if not dist.is_available():
        raise UsageError("This torch was built without torch.distributed: install one that has it.")
    if asked not in (None, "gloo", "nccl"):
        raise UsageError(f"backend={asked!r} is unknown: write 'gloo', 'nccl', or nothing.")
    if asked == "nccl" and not torch.cuda.is_available():
        raise UsageError("backend='nccl' needs a GPU, and this worker sees none: write 'gloo', or nothing.")
    return asked or ("nccl" if torch.cuda.is_available() else "gloo")


def require_equal_devices(first: str, mine: str, rank: int) -> None:
    """Refuse ranks with unequal devices: a step takes as long as on the slowest, and backends differ with them.

    Raises:
        UsageError: this rank has another kind of device than rank 0.
    """
    if mine != first:
        raise UsageError(
            f"The workers of this trial have unequal devices: rank 0 has {first}, and rank {rank} has {mine}. Let the "
            "cluster give the study executors of one kind, with as many GPUs for each task, or leave out "
            "workers_per_trial=."
        )


def _device() -> str:
    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else "no GPU"


def _use_interface_of(host: str) -> None:
    """Let gloo use the interface of an address: by default it takes that of the host's name, which may lead nowhere."""
    for _, name in socket.if_nameindex():
        if _address_of(name) == host:
            os.environ["GLOO_SOCKET_IFNAME"] = name
            return


def _address_of(interface: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        found = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
        return socket.inet_ntoa(found[20:24])
    return ""

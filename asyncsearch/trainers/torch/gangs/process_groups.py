"""PyTorch's process group of the workers that train a trial together.

It lives until this process begins another training: closing it at the end would break the last step of a rank that is
behind. Its members meet at a store of rank 0, on a port that the system chose; torch's own traffic between them is
neither encrypted nor authenticated.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
from typing import Any

import torch
import torch.distributed as dist

from asyncsearch.errors import UsageError
from asyncsearch.trainers.ranks import Ranks

_MEETING = "torch store"
_lone: list[Any] = []
"""The group that ``open_lone_group`` has made, until it is closed."""
_SIOCGIFADDR = 0x8915
"""Linux: the address of a network interface."""


def open_group(ranks: Ranks, backend: str | None = None) -> Any:
    """Return the process group of a gang; the first call in a training makes it.

    Raises:
        UsageError: this torch has no such backend, or the ranks have unequal devices.
    """
    if dist.is_initialized():
        return dist.group.WORLD
    chosen, seat = _backend(backend), ranks.seat
    _use_interface_of(seat.host)
    device = "gloo" if backend == "gloo" else _device()
    if seat.rank == 0:
        store = dist.TCPStore(seat.host, 0, seat.size, is_master=True, wait_for_workers=False)
        ranks.tell(_MEETING, f"{seat.host} {store.port} {device}")
    else:
        host, port, first = ranks.await_value(0, _MEETING).split(" ", 2)
        require_equal_devices(first, device, seat.rank)
        store = dist.TCPStore(host, int(port), seat.size, is_master=False)
    dist.init_process_group(chosen, store=store, rank=seat.rank, world_size=seat.size)
    return dist.group.WORLD


def open_lone_group(backend: str | None = None) -> Any:
    """Return a process group of this process alone, for code that also trains on several workers.

    Raises:
        UsageError: this torch has no such backend.
    """
    if not dist.is_initialized():
        dist.init_process_group(_backend(backend), store=dist.HashStore(), rank=0, world_size=1)
        _lone.append(dist.group.WORLD)
    return dist.group.WORLD


def close_lone_group() -> None:
    """Close the group that ``open_lone_group`` has made in the user's process; one of the user's own stays."""
    if _lone and dist.is_initialized() and dist.group.WORLD is _lone[0]:
        close_group()
    _lone.clear()


def close_group() -> None:
    """Close the process group of the last training."""
    with contextlib.suppress(Exception):  # the other ranks may be gone
        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()


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

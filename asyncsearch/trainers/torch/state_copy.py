"""A copy, in the memory of the host, of a state of torch: tensors in mappings and sequences, with plain values.

It is what ``torch.save`` would write of the state: tensors that share memory share it in the copy, too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

_ALIGNMENT = 64
"""Bytes; a multiple of the size of every type."""


def copied(state: Any, may_take: Callable[[int], bool]) -> Any:
    """Return a copy of a state, which no later step changes. None if there is none.

    Args:
        state: the state.
        may_take: returns whether so many bytes may be copied.
    """
    tensors = list(_tensors(state))
    if not all(map(_is_plain, tensors)):
        return None
    storages = {_key(tensor): tensor.untyped_storage() for tensor in tensors}
    if not may_take(sum(storage.nbytes() for storage in storages.values())):
        return None
    with torch.no_grad():
        copies = _on_host(storages)
        memo = {id(tensor): _like(tensor, copies[_key(tensor)]) for tensor in tensors}
        return copy.deepcopy(state, memo)  # all else, such as the versions of modules, which a state_dict() carries


def _tensors(state: Any) -> Iterator[Any]:
    """Yield the tensors of a state."""
    if isinstance(state, torch.Tensor):
        yield state
    elif isinstance(state, Mapping):
        for part in state.values():
            yield from _tensors(part)
    elif isinstance(state, list | tuple):
        for part in state:
            yield from _tensors(part)


def _is_plain(tensor: Any) -> bool:
    """Return whether a tensor is all in its memory and its shape; another one is left to ``torch.save``."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and tensor.device.type in ("cpu", "cuda")
        and not (tensor.is_quantized or tensor.is_conj() or tensor.is_neg() or vars(tensor))
    )


def _key(tensor: Any) -> tuple[str, int]:
    """Return a key that tells the memory of a tensor from that of another one."""
    return str(tensor.device), tensor.untyped_storage().data_ptr()


def _on_host(storages: Mapping[tuple[str, int], Any]) -> dict[tuple[str, int], Any]:
    """Return copies of the memory of tensors; when it returns, the devices may reuse theirs."""
    found = {}
    here = [(key, storage) for key, storage in storages.items() if storage.device.type == "cpu"]
    for (key, storage), mine in zip(here, _parts([storage.nbytes() for _, storage in here]), strict=True):
        mine.copy_(storage)
        found[key] = mine
    devices = set()
    for key, storage in storages.items():
        if storage.device.type != "cpu":
            # Pinned, so that the device writes it; torch keeps such memory for the next copy.
            found[key] = torch.empty(storage.nbytes(), dtype=torch.uint8, pin_memory=True).untyped_storage()
            found[key].copy_(storage, non_blocking=True)
            devices.add(storage.device)
    for device in devices:
        torch.cuda.current_stream(device).synchronize()
    return found


def _parts(sizes: list[int]) -> Iterator[Any]:
    """Yield memory of these sizes, of one array: numpy asks for huge pages, which are there twice as fast."""
    steps = [-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes]
    array, at = np.empty(sum(steps), np.uint8), 0
    for size, step in zip(sizes, steps, strict=True):
        part = torch.frombuffer(array, dtype=torch.uint8, count=size, offset=at) if size else torch.empty(0)
        yield part.untyped_storage()
        at += step


def _like(tensor: Any, storage: Any) -> Any:
    """Return a tensor that has its values in other memory."""
    found = torch.empty(0, dtype=tensor.dtype, device="cpu")
    found.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
    found = found.requires_grad_(tensor.requires_grad)
    return torch.nn.Parameter(found, tensor.requires_grad) if type(tensor) is torch.nn.Parameter else found

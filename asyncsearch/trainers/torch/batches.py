"""Batches of PyTorch: a tensor, or a tuple or mapping of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from asyncsearch.trainers.sample_order import Indices


def length_of(batch: Any) -> int:
    """Return the number of samples in a batch."""
    if isinstance(batch, Mapping):
        batch = tuple(batch.values())
    return len(batch[0] if isinstance(batch, tuple | list) else batch)


def batch_of(data: Any, indices: Indices, collate: Callable[[list[Any]], Any]) -> Any:
    """Return the batch of some samples; ``collate`` makes it of the samples of a ``Dataset``."""
    if isinstance(data, tuple | list):
        return tuple(_rows(part, indices) for part in data)
    if isinstance(data, Mapping):
        return {name: _rows(part, indices) for name, part in data.items()}
    if isinstance(data, torch.Tensor | np.ndarray):
        return _rows(data, indices)
    return collate(samples_of(data, indices.tolist()))


def samples_of(data: Any, chosen: Sequence[int]) -> Any:
    """Return the chosen samples of a ``Dataset``, at once where it can."""
    fetch = getattr(data, "__getitems__", None)
    return fetch(chosen) if fetch is not None else [data[index] for index in chosen]


def joined(parts: Sequence[Any]) -> Any:
    """Return the batch whose parts these are, as torch's ``default_collate`` makes it of all their samples."""
    first = parts[0]
    if isinstance(first, torch.Tensor):
        return torch.cat(tuple(parts))
    if isinstance(first, Mapping):
        return {name: joined([part[name] for part in parts]) for name in first}
    if first and isinstance(first[0], str | bytes):  # one for each sample, and no part of a sample
        return type(first)(one for part in parts for one in part)
    fields = [joined(field) for field in zip(*parts, strict=True)]
    return type(first)(*fields) if hasattr(first, "_fields") else type(first)(fields)


def moved(batch: Any, device: Any) -> Any:
    """Return a batch on a device; a named tuple stays one."""
    if isinstance(batch, torch.Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: moved(part, device) for name, part in batch.items()}
    if isinstance(batch, tuple | list):
        parts = [moved(part, device) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch


def _rows(part: Any, indices: Indices) -> Any:
    chosen = torch.from_numpy(indices)
    return part[chosen] if isinstance(part, torch.Tensor) else torch.as_tensor(part[indices])

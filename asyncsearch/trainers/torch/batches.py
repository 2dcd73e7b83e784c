"""Batches of PyTorch: a tensor, or a tuple or mapping of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def length_of(batch: Any) -> int:
    """Return the number of samples in a batch."""
    if isinstance(batch, Mapping):
        batch = tuple(batch.values())
    return len(batch[0] if isinstance(batch, tuple | list) else batch)

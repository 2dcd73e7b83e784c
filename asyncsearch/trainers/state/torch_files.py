"""Reads torch's files without running code that they may hold."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch

from asyncsearch.errors import UsageError

_FIRST_SAFE = (2, 6)
"""Earlier versions run code from a file even with ``weights_only=True``: CVE-2025-32434."""


def load_without_code(path: Path, device: Any, *, maps: bool = False) -> Any:
    """Return what ``torch.save`` wrote, if it is tensors and plain values.

    Args:
        path: of the file.
        device: where to put tensors.
        maps: whether to read of a tensor only what is used of it, on the CPU; it stands in the file until then.

    Raises:
        UsageError: this version of torch could run code from the file.
    """
    if tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < _FIRST_SAFE:
        raise UsageError(
            f"torch {torch.__version__} can run code that a checkpoint holds, even with weights_only=True"
            " (CVE-2025-32434), so it loads none: pip install 'torch>=2.6'."
        )
    return torch.load(path, map_location="cpu" if maps else device, weights_only=True, mmap=maps or None)

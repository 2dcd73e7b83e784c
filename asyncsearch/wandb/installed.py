"""The module ``wandb`` of this process: the one that is installed, else a replacement with what sweeps need."""

from __future__ import annotations

import importlib
from types import ModuleType


def module() -> ModuleType:
    """Return that module."""
    try:
        return importlib.import_module("wandb")
    except ModuleNotFoundError as error:
        if error.name != "wandb":
            raise
        # Not "from asyncsearch.wandb import ...": the package would look for the name in this function.
        import asyncsearch.wandb.small_wandb as small_wandb

        return small_wandb

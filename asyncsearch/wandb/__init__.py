"""Sweeps of Weights & Biases on workers, offline: ``import asyncsearch.wandb as wandb`` is the whole change.

``sweep`` and ``agent`` are asyncsearch's; every other name is that of wandb itself where it is installed, so that
``wandb.init()``, ``wandb.config`` and ``wandb.log(...)`` in the function are real, in the mode that ``WANDB_MODE``
says, ``disabled`` by default. Without wandb these names are a small replacement. See docs/migrate_wandb_sweeps.md.
"""

from __future__ import annotations

import importlib
from typing import Any

_OURS = {"agent": "sweep_agent", "sweep": "sweeps", "workers": "sweep_workers"}

__all__ = ["agent", "sweep", "workers"]


def __getattr__(name: str) -> Any:
    if name in _OURS:
        return getattr(importlib.import_module(f"{__name__}.{_OURS[name]}"), name)
    if name.startswith("__") and name != "__version__":  # what Python itself looks for
        raise AttributeError(name)
    return getattr(importlib.import_module(f"{__name__}.installed").module(), name)


def __dir__() -> list[str]:
    return sorted({*_OURS, *dir(importlib.import_module(f"{__name__}.installed").module())})

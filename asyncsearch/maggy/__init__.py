"""Programs of Maggy on workers: ``from asyncsearch.maggy import experiment, Searchspace`` is the whole change.

The modules have Maggy's names, of its versions 0.x and 1.x, and need nothing of Maggy. See docs/migrate_maggy.md.
"""

from __future__ import annotations

import importlib
from typing import Any

_OURS = {"Searchspace": "searchspace", "workers": "settings"}
_MODULES = (
    "ablation",
    "callbacks",
    "config",
    "earlystop",
    "experiment",
    "experiment_config",
    "optimizer",
    "searchspace",
    "tensorboard",
)

__all__ = ["Searchspace", "ablation", "callbacks", "experiment", "optimizer", "tensorboard", "workers"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _OURS:
        return getattr(importlib.import_module(f"{__name__}.{_OURS[name]}"), name)
    raise AttributeError(
        f"asyncsearch.maggy has no {name!r}: it has {', '.join(sorted((*_MODULES, *_OURS)))}.", name=name
    )


def __dir__() -> list[str]:
    return sorted((*_MODULES, *_OURS))

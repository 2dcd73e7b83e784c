"""Where a study's runs are stored: each ``optimize`` in a folder of its own inside the study's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asyncsearch.journal.opening import read_study_file
from asyncsearch.store import open_store
from asyncsearch.study.kept.default_store import DefaultFolder

_ATTRIBUTE = "_asyncsearch_place"
_UNNAMED = "no-name-"
"""How Optuna begins the name of a study that has none."""


def place_of(study: Any, label: str, store: str | Path | None) -> str:
    """Return the folder of the next run of a study; ``label``: its objective's name, for a study without one."""
    base = getattr(study, _ATTRIBUTE, None)
    if base is None or (store is not None and str(store) != base):
        named = study.study_name if not study.study_name.startswith(_UNNAMED) else label
        base = str(store) if store is not None else _new_folder(named)
        setattr(study, _ATTRIBUTE, base)
    number = 1
    while read_study_file(open_store(f"{base}/{number}")) is not None:
        number += 1
    return f"{base}/{number}"


def _new_folder(name: str) -> str:
    default = DefaultFolder(name)
    return str(default.claim(default.choose()))

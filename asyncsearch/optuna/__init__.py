"""Programs of Optuna on workers: ``import asyncsearch.optuna as optuna`` is the whole change.

Every name is Optuna's own object, except ``Study``, ``create_study`` and ``load_study``, whose ``optimize`` runs the
objective on asyncsearch's workers, and ``workers``, which says where. Optuna's submodules are imported by this name
too: ``from asyncsearch.optuna.samplers import TPESampler``. See docs/migrate_optuna.md.
"""

from __future__ import annotations

import importlib
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.optuna.submodules import install

_OURS = {
    "Study": "study",
    "create_study": "study",
    "integration": "integration",
    "load_study": "study",
    "study": "study",
    "to_optuna": "conversion",
    "workers": "settings",
}


def __getattr__(name: str) -> Any:
    home = _OURS.get(name)
    if home is None:
        return getattr(_optuna(), name)
    _optuna()
    module = importlib.import_module(f"{__name__}.{home}")
    return module if name == home else getattr(module, name)


def _optuna() -> Any:
    """Return Optuna itself.

    Raises:
        UsageError: it is not installed, or of a version that is not known.
    """
    try:
        found = importlib.import_module("optuna")
    except ImportError as error:
        words = "asyncsearch.optuna needs optuna, which is not installed: pip install 'asyncsearch[optuna]'."
        raise UsageError(words) from error
    importlib.import_module(f"{__name__}.refusals").require_version(found.__version__)
    return found


install(_optuna)


def __dir__() -> list[str]:
    return sorted({*_OURS, *dir(_optuna())})

"""Programs of Hyperopt on workers: ``from asyncsearch.hyperopt import fmin, hp, tpe, Trials`` is the whole change.

Every name is Hyperopt's own object, except ``fmin``, ``Trials`` and ``SparkTrials``, whose points are evaluated on
asyncsearch's workers, and ``workers``, which says where. See docs/migrate_hyperopt.md.
"""

from __future__ import annotations

import importlib
from typing import Any

from asyncsearch.errors import UsageError

_OURS = {"SparkTrials": "trials", "Trials": "trials", "fmin": "minimize", "workers": "settings"}


def __getattr__(name: str) -> Any:
    theirs = _hyperopt()
    if name in _OURS:
        return getattr(importlib.import_module(f"{__name__}.{_OURS[name]}"), name)
    if not hasattr(theirs, name):
        try:
            return importlib.import_module(f"hyperopt.{name}")  # ``early_stop``, for one, which it does not import
        except ModuleNotFoundError:
            pass
    return getattr(theirs, name)


def _hyperopt() -> Any:
    """Return Hyperopt itself.

    Raises:
        UsageError: it is not installed, or of a version that is not known.
    """
    try:
        found = importlib.import_module("hyperopt")
    except ImportError as error:
        words = f"asyncsearch.hyperopt needs hyperopt, which cannot be imported ({error}): "
        raise UsageError(f"{words}pip install 'asyncsearch[hyperopt]'.") from error
    importlib.import_module(f"{__name__}.refusals").require_version(found.__version__)
    return found


def __dir__() -> list[str]:
    return sorted({*_OURS, *dir(_hyperopt())})

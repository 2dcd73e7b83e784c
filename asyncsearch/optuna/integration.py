"""Optuna's ``integration``, without the names whose studies an import does not reach."""

from __future__ import annotations

from typing import Any

import optuna

from asyncsearch.errors import UsageError
from asyncsearch.optuna.refusals import OWN_STUDIES

__path__: list[str] = []  # so that Optuna's modules inside its own are found; see ``submodules``


def __getattr__(name: str) -> Any:
    if name in OWN_STUDIES:
        raise UsageError(f"{name} is {OWN_STUDIES[name]}.")
    return getattr(optuna.integration, name)

"""What cannot run on workers, and what to write instead; refused before a worker starts."""

from __future__ import annotations

import weakref
from typing import Any

import optuna

from asyncsearch.errors import UsageError

LOWEST, BEYOND = (4, 5), (6, 0)
"""The versions of Optuna that are known: from the first on, below the second."""

_studies: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""Sampler that learns -> the name of the study that it has learned from."""

OWN_STUDIES = {
    "DaskStorage": "the storage of a Dask cluster. Here the driver alone opens the storage: leave storage= out, or "
    "write a URL such as storage='sqlite:///trials.db'",
    "LightGBMTuner": "a search that makes its own study, which asyncsearch does not see. Write its parameters as an "
    "objective, or take it from Optuna itself: from optuna.integration import LightGBMTuner",
    "LightGBMTunerCV": "a search that makes its own study, which asyncsearch does not see. Write its parameters as an "
    "objective, or take it from Optuna itself: from optuna.integration import LightGBMTunerCV",
    "OptunaSearchCV": "a search that makes its own study, which asyncsearch does not see. Write an objective with "
    "cross_val_score(...), or take it from Optuna itself: from optuna.integration import OptunaSearchCV",
}
"""Names of ``optuna.integration`` whose work would not come here -> what they are, and what to write instead."""


def require_version(version: str) -> None:
    """Refuse a version of Optuna that is not known.

    Raises:
        UsageError: it is older or newer.
    """
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if not LOWEST <= numbers < BEYOND:
        raise UsageError(
            f"asyncsearch.optuna knows Optuna from {LOWEST[0]}.{LOWEST[1]} on, below {BEYOND[0]}, and {version} is "
            "installed: pip install 'asyncsearch[optuna]'."
        )


def require_supported(study: Any) -> None:
    """Refuse a study that cannot run on workers.

    Raises:
        UsageError: its storage is a cluster's own, or its sampler has learned from another study.
    """
    kind = type(study._storage).__name__
    if kind == "DaskStorage":
        raise UsageError(f"{kind} is {OWN_STUDIES[kind]}.")
    sampler = study.sampler
    if not isinstance(sampler, optuna.samplers.TPESampler):
        return
    if _studies.setdefault(sampler, study.study_name) != study.study_name:
        raise UsageError(
            f"The sampler of study {study.study_name!r} has learned from {_studies[sampler]!r}, whose trials it would "
            "take for this one's: make one for each study, sampler=TPESampler(...)."
        )

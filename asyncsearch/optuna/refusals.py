"""The refusals of programs that cannot run on workers, before one starts, with the line to write instead."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import optuna
from optuna.search_space import IntersectionSearchSpace
from optuna.search_space.group_decomposed import _GroupDecomposedSearchSpace

from asyncsearch.errors import UsageError
from asyncsearch.optuna.units import HOW_TO_PAUSE
from asyncsearch.schedulers.base_scheduler import require_scheduler
from asyncsearch.study.asked.trainable_source import never_asks_for

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


def require_judging(
    scheduler: Any, study: Any, function: Callable[..., Any], n_trials: int | None, *, is_in_threads: bool
) -> None:
    """Refuse a scheduler that cannot judge the trials of a study. None judges none, and is never refused.

    Raises:
        UsageError: it is none of asyncsearch's, needs the space, or stands beside a pruner, several objectives, or
            threads; or the objective does not say what is to be saved where it is paused.
    """
    if scheduler is None:
        return
    kind = type(require_scheduler(scheduler)).__name__
    if scheduler.branches:
        raise UsageError(
            f"{kind} gives trials other parameters, and those of an objective are not known before it asks for them: "
            "write scheduler=ASHA(max_resource=27), or a Study of asyncsearch with a space."
        )
    if len(study.directions) > 1:
        raise UsageError(f"{kind} compares single values, and the study has {len(study.directions)} directions.")
    pruner = study.pruner
    if not isinstance(pruner, optuna.pruners.NopPruner | optuna.pruners.MedianPruner):
        raise UsageError(
            f"The study has a {type(pruner).__name__} and optimize() a {kind}, and both judge trials: leave out either."
        )
    if is_in_threads:
        raise UsageError(
            f"{kind} judges trials on workers, and threads are none: write optuna.workers(backend='processes')."
        )
    if n_trials is None and scheduler.pauses:
        raise UsageError(f"{kind} needs the number of trials: study.optimize(objective, n_trials=64, scheduler=...).")
    if scheduler.pauses and never_asks_for(function, "checkpoint"):
        raise UsageError(HOW_TO_PAUSE)


def require_storage(study: Any) -> None:
    """Refuse a storage that is not the driver's to open.

    Raises:
        UsageError: it is a cluster's own.
    """
    kind = type(study._storage).__name__
    if kind == "DaskStorage":
        raise UsageError(f"{kind} is {OWN_STUDIES[kind]}.")


def require_own_sampler(study: Any) -> None:
    """Refuse a sampler that knows another study.

    Raises:
        UsageError: it has learned from that.
    """
    sampler = study.sampler
    if not _keeps_a_study(sampler):
        return
    if _studies.setdefault(sampler, study.study_name) != study.study_name:
        raise UsageError(
            f"The sampler of study {study.study_name!r} has learned from {_studies[sampler]!r}, whose trials it would "
            f"take for this one's: make one for each study, sampler={type(sampler).__name__}(...)."
        )


def _keeps_a_study(sampler: Any) -> bool:
    """Return whether a sampler keeps in itself what it has seen of a study, and so takes another one for that."""
    kept = (IntersectionSearchSpace, _GroupDecomposedSearchSpace)
    is_qmc = isinstance(sampler, optuna.samplers.QMCSampler)
    return is_qmc or any(isinstance(one, kept) for one in getattr(sampler, "__dict__", {}).values())

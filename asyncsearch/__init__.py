"""asyncsearch: asynchronous hyper-parameter search on the Spark cluster that you already have.

Importing it pulls in neither pyspark, grpc, torch nor tensorflow; names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from asyncsearch._version import __version__

if TYPE_CHECKING:
    from asyncsearch import sequences
    from asyncsearch.checking import check
    from asyncsearch.errors import AsyncSearchError
    from asyncsearch.report.plots.plots import plot_history, plot_rungs
    from asyncsearch.report.what_if.worker_counts import what_if
    from asyncsearch.runner.standalone import StandaloneTrial
    from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband, MedianStopping
    from asyncsearch.searchers import GridSearch, OptunaSearch, RandomSearch, SobolSearch
    from asyncsearch.space import (
        Space,
        choice,
        constant,
        lograndint,
        loguniform,
        quniform,
        randint,
        uniform,
    )
    from asyncsearch.study.study import Study
    from asyncsearch.study.together import run_together
    from asyncsearch.trainable import Trainer, TrialContext, TrialPaused, TrialStopped
    from asyncsearch.trainers.keras import KerasTrainer as KerasTrainer
    from asyncsearch.trainers.torch import TorchTrainer as TorchTrainer
    from asyncsearch.trial import Trial, TrialState

_HOMES = {
    "ASHA": "asyncsearch.schedulers",
    "AsyncSearchError": "asyncsearch.errors",
    "FIFO": "asyncsearch.schedulers",
    "GridSearch": "asyncsearch.searchers",
    "Hyperband": "asyncsearch.schedulers",
    "KerasTrainer": "asyncsearch.trainers.keras",
    "MedianStopping": "asyncsearch.schedulers",
    "OptunaSearch": "asyncsearch.searchers",
    "PBT": "asyncsearch.schedulers",
    "RandomSearch": "asyncsearch.searchers",
    "SHA": "asyncsearch.schedulers",
    "SobolSearch": "asyncsearch.searchers",
    "Space": "asyncsearch.space",
    "StandaloneTrial": "asyncsearch.runner.standalone",
    "Study": "asyncsearch.study.study",
    "TorchTrainer": "asyncsearch.trainers.torch",
    "Trainer": "asyncsearch.trainable",
    "Trial": "asyncsearch.trial",
    "TrialContext": "asyncsearch.trainable",
    "TrialPaused": "asyncsearch.trainable",
    "TrialState": "asyncsearch.trial",
    "TrialStopped": "asyncsearch.trainable",
    "plot_history": "asyncsearch.report.plots.plots",
    "plot_rungs": "asyncsearch.report.plots.plots",
    "check": "asyncsearch.checking",
    "choice": "asyncsearch.space",
    "constant": "asyncsearch.space",
    "lograndint": "asyncsearch.space",
    "loguniform": "asyncsearch.space",
    "quniform": "asyncsearch.space",
    "randint": "asyncsearch.space",
    "run_together": "asyncsearch.study.together",
    "sequences": "asyncsearch.sequences",
    "uniform": "asyncsearch.space",
    "what_if": "asyncsearch.report.what_if.worker_counts",
}

__all__ = [
    "ASHA",
    "FIFO",
    "PBT",
    "SHA",
    "AsyncSearchError",
    "GridSearch",
    "Hyperband",
    "MedianStopping",
    "OptunaSearch",
    "RandomSearch",
    "SobolSearch",
    "Space",
    "StandaloneTrial",
    "Study",
    "Trainer",
    "Trial",
    "TrialContext",
    "TrialPaused",
    "TrialState",
    "TrialStopped",
    "__version__",
    "check",
    "choice",
    "constant",
    "lograndint",
    "loguniform",
    "plot_history",
    "plot_rungs",
    "quniform",
    "randint",
    "run_together",
    "sequences",
    "uniform",
    "what_if",
]

_EXTRAS = {"KerasTrainer": "tensorflow", "TorchTrainer": "torch"}
"""What to install for names that need a framework; ``from asyncsearch import *`` leaves these out."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'asyncsearch' has no attribute {name!r}")
    try:
        module = importlib.import_module(home)
    except ModuleNotFoundError as error:
        if name not in _EXTRAS or (error.name or "").startswith("asyncsearch"):
            raise
        raise ModuleNotFoundError(
            f"asyncsearch.{name} needs {error.name}, which is not installed: "
            f"pip install 'asyncsearch[{_EXTRAS[name]}]'.",
            name=error.name,
        ) from error
    return module if home == f"asyncsearch.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES})

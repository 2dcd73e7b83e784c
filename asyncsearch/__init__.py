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
    from asyncsearch.study.options import Checkpoints, Sharing, WorkerOptions
    from asyncsearch.study.study import Study
    from asyncsearch.study.together import run_together
    from asyncsearch.trainable import Trainer, TrialContext, TrialPaused, TrialStopped
    from asyncsearch.trainers.keras import KerasTrainer as KerasTrainer
    from asyncsearch.trainers.torch import TorchTrainer as TorchTrainer
    from asyncsearch.trial import Trial, TrialState

_HOMES = {
    name: home
    for home, names in {
        "asyncsearch.checking": "check",
        "asyncsearch.errors": "AsyncSearchError",
        "asyncsearch.report.plots.plots": "plot_history plot_rungs",
        "asyncsearch.report.what_if.worker_counts": "what_if",
        "asyncsearch.runner.standalone": "StandaloneTrial",
        "asyncsearch.schedulers": "ASHA FIFO Hyperband MedianStopping PBT SHA",
        "asyncsearch.searchers": "GridSearch OptunaSearch RandomSearch SobolSearch",
        "asyncsearch.sequences": "sequences",
        "asyncsearch.space": "Space choice constant lograndint loguniform quniform randint uniform",
        "asyncsearch.study.options": "Checkpoints Sharing WorkerOptions",
        "asyncsearch.study.study": "Study",
        "asyncsearch.study.together": "run_together",
        "asyncsearch.trainable": "Trainer TrialContext TrialPaused TrialStopped",
        "asyncsearch.trainers.keras": "KerasTrainer",
        "asyncsearch.trainers.torch": "TorchTrainer",
        "asyncsearch.trial": "Trial TrialState",
    }.items()
    for name in names.split()
}
"""Where each public name is imported from."""

__all__ = [
    "ASHA",
    "FIFO",
    "PBT",
    "SHA",
    "AsyncSearchError",
    "Checkpoints",
    "GridSearch",
    "Hyperband",
    "MedianStopping",
    "OptunaSearch",
    "RandomSearch",
    "Sharing",
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
    "WorkerOptions",
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

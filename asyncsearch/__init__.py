"""asyncsearch: asynchronous hyper-parameter search on the Spark cluster that you already have.

Importing it pulls in neither pyspark, grpc, torch nor tensorflow; names are imported when they are first used.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from asyncsearch._version import __version__ as __version__

if TYPE_CHECKING:
    from asyncsearch import sequences as sequences
    from asyncsearch.checking import check as check
    from asyncsearch.errors import AsyncSearchError as AsyncSearchError
    from asyncsearch.report.plots.plots import plot_history as plot_history
    from asyncsearch.report.plots.plots import plot_rungs as plot_rungs
    from asyncsearch.report.plots.workers import plot_time_spent as plot_time_spent
    from asyncsearch.report.plots.workers import plot_timeline as plot_timeline
    from asyncsearch.report.what_if.worker_counts import what_if as what_if
    from asyncsearch.runner.standalone import StandaloneTrial as StandaloneTrial
    from asyncsearch.schedulers import ASHA as ASHA
    from asyncsearch.schedulers import FIFO as FIFO
    from asyncsearch.schedulers import PBT as PBT
    from asyncsearch.schedulers import SHA as SHA
    from asyncsearch.schedulers import Hyperband as Hyperband
    from asyncsearch.schedulers import MedianStopping as MedianStopping
    from asyncsearch.searchers import Ablation as Ablation
    from asyncsearch.searchers import GridSearch as GridSearch
    from asyncsearch.searchers import OptunaSearch as OptunaSearch
    from asyncsearch.searchers import RandomSearch as RandomSearch
    from asyncsearch.searchers import SobolSearch as SobolSearch
    from asyncsearch.sizing.autoscale import Autoscale as Autoscale
    from asyncsearch.sizing.gangs import Gang as Gang
    from asyncsearch.sizing.pack_strategies import PackCandidate as PackCandidate
    from asyncsearch.sizing.pack_strategies import PackChoice as PackChoice
    from asyncsearch.space import Space as Space
    from asyncsearch.space import choice as choice
    from asyncsearch.space import constant as constant
    from asyncsearch.space import lognormal as lognormal
    from asyncsearch.space import lograndint as lograndint
    from asyncsearch.space import loguniform as loguniform
    from asyncsearch.space import normal as normal
    from asyncsearch.space import quniform as quniform
    from asyncsearch.space import randint as randint
    from asyncsearch.space import uniform as uniform
    from asyncsearch.stop_rules import Elapsed as Elapsed
    from asyncsearch.stop_rules import Plateau as Plateau
    from asyncsearch.stop_rules import Reached as Reached
    from asyncsearch.stop_rules import StopProgress as StopProgress
    from asyncsearch.stop_rules import StopRule as StopRule
    from asyncsearch.stop_rules import Trained as Trained
    from asyncsearch.study.asked.options import Checkpoints as Checkpoints
    from asyncsearch.study.asked.options import Sharing as Sharing
    from asyncsearch.study.asked.options import WorkerOptions as WorkerOptions
    from asyncsearch.study.several.cluster import Cluster as Cluster
    from asyncsearch.study.several.together import run_together as run_together
    from asyncsearch.study.study import Study as Study
    from asyncsearch.trainable import PackOutcome as PackOutcome
    from asyncsearch.trainable import Trainer as Trainer
    from asyncsearch.trainable import TrialContext as TrialContext
    from asyncsearch.trainable import TrialPaused as TrialPaused
    from asyncsearch.trainable import TrialStopped as TrialStopped
    from asyncsearch.trainers.keras.trainer import KerasTrainer as KerasTrainer
    from asyncsearch.trainers.state.saved_state import load_state as load_state
    from asyncsearch.trainers.torch.trainer import TorchTrainer as TorchTrainer
    from asyncsearch.trial import Trial as Trial
    from asyncsearch.trial import TrialState as TrialState

_HOMES = {
    name: home
    for home, names in {
        "asyncsearch.checking": "check",
        "asyncsearch.errors": "AsyncSearchError",
        "asyncsearch.sizing.autoscale": "Autoscale",
        "asyncsearch.sizing.gangs": "Gang",
        "asyncsearch.sizing.pack_strategies": "PackCandidate PackChoice",
        "asyncsearch.report.plots.plots": "plot_history plot_rungs",
        "asyncsearch.report.plots.workers": "plot_time_spent plot_timeline",
        "asyncsearch.report.what_if.worker_counts": "what_if",
        "asyncsearch.runner.standalone": "StandaloneTrial",
        "asyncsearch.schedulers": "ASHA FIFO Hyperband MedianStopping PBT SHA",
        "asyncsearch.searchers": "Ablation GridSearch OptunaSearch RandomSearch SobolSearch",
        "asyncsearch.sequences": "sequences",
        "asyncsearch.space": "Space choice constant lognormal lograndint loguniform normal quniform randint uniform",
        "asyncsearch.stop_rules": "Elapsed Plateau Reached StopProgress StopRule Trained",
        "asyncsearch.study.several.cluster": "Cluster",
        "asyncsearch.study.asked.options": "Checkpoints Sharing WorkerOptions",
        "asyncsearch.study.study": "Study",
        "asyncsearch.study.several.together": "run_together",
        "asyncsearch.trainable": "PackOutcome Trainer TrialContext TrialPaused TrialStopped",
        "asyncsearch.trainers.keras.trainer": "KerasTrainer",
        "asyncsearch.trainers.state.saved_state": "load_state",
        "asyncsearch.trainers.torch.trainer": "TorchTrainer",
        "asyncsearch.trial": "Trial TrialState",
    }.items()
    for name in names.split()
}
"""Where each public name is imported from."""

_EXTRAS = {"KerasTrainer": "tensorflow", "TorchTrainer": "torch"}
"""What to install for names that need a framework; ``from asyncsearch import *`` imports no framework for them."""

__all__ = sorted({"__version__", *_HOMES})  # noqa: PLE0605 - the imports above are what type checkers read


class _Later:
    """A trainer of ``from asyncsearch import *``, whose framework is imported when a class is derived from it."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:
        return (_loaded(self.__name__),)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_loaded(self.__name__), name)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, _loaded(self.__name__))

    def __subclasscheck__(self, kind: type) -> bool:
        return issubclass(kind, _loaded(self.__name__))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _loaded(self.__name__)(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Later, (self.__name__,)

    def __repr__(self) -> str:
        return f"asyncsearch.{self.__name__}"


def __getattr__(name: str) -> Any:
    if name in _EXTRAS and _is_for_star(sys._getframe(1)):
        return _Later(name)
    return _loaded(name)


def _is_for_star(caller: Any) -> bool:
    """Return whether ``from asyncsearch import *`` asks, which names all that there is."""
    import dis

    code = caller.f_code
    if code.co_name == "_handle_fromlist":  # the import system asks whether there is such a name, and drops the answer
        return True
    at = next((one for one in dis.get_instructions(code) if one.offset == caller.f_lasti), None)
    return at is not None and (at.opname == "IMPORT_STAR" or "IMPORT_STAR" in at.argrepr)


def _loaded(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'asyncsearch' has no attribute {name!r}{_answer(name)}")
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


def _answer(name: str) -> str:
    """Return the text to write instead of a name that there is not. Empty if nothing is like it."""
    import difflib

    from asyncsearch.other_libraries.algorithms import answer_on_class
    from asyncsearch.other_libraries.names import attribute_answer

    if ours := attribute_answer("asyncsearch", name) or answer_on_class(name):
        return f": write {ours}"
    close = difflib.get_close_matches(name, _HOMES, 1)
    return f": did you mean asyncsearch.{close[0]}?" if close and not name.startswith("_") else ""


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES})

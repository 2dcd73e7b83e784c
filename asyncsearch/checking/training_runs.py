"""One training of the user's trainable, in this process, with an observer."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from asyncsearch.checking.trainable_state import TrainableState
from asyncsearch.errors import CannotPauseError, UsageError
from asyncsearch.ids import NodeKey
from asyncsearch.runner.context import SearchContext
from asyncsearch.runner.failures import exception_text
from asyncsearch.runner.metrics import as_metrics
from asyncsearch.runner.standalone import Recorder
from asyncsearch.trainable import Evaluate, Trainable, Trainer, TrialPaused, as_function
from asyncsearch.trainers.state import global_generators
from asyncsearch.trial import Params
from asyncsearch.work import Stage

_GIVEN = """check(..., {"lr": 0.1}), or --params '{"lr": 0.1}'"""

Reports = list[tuple[int, dict[str, str]]]
"""Metrics by resource; numbers are written by ``float.hex``, so that they are compared bit by bit."""


class Task(NamedTuple):
    """The trainable, trial and lengths of a check."""

    trainable: Trainable
    params: Params
    seed: int
    units: int
    cut: int
    functions: dict[str, Callable[..., Any]]
    """The user's functions of time that sequences in ``params`` name."""
    folder: Path
    """Folder of the checkpoints of all runs."""

    def checkpoint(self, name: str, resource: int) -> Path:
        """Return the path of the checkpoint that the run of a name saved at a resource."""
        return Recorder(self.folder / name).checkpoint(resource)


class RunFacts(msgspec.Struct):
    """The outcome of a run."""

    reports: Reports
    content: dict[str, str] = {}
    """Digests of a new object that has loaded the last checkpoint; see ``TrainableState.digests``."""
    at_cut: dict[str, str] = {}
    """Digests of the trainer itself at the cut, where it was trained or loaded."""
    unread: list[str] = []
    """Places at the cut that cannot be read, each with its class."""
    evaluates_alike: bool | None = None
    """Whether further evaluations gave the reported metrics; None if there were none."""


class Watching:
    """Observes a training; the defaults do nothing."""

    def loaded(self, root: Any) -> None:
        """Observe the state after ``load``."""

    def saving(self, root: Any, save: Callable[[], None], /) -> None:
        """Call ``save``."""
        save()

    def trained(self, resource: int, root: Any) -> None:
        """Observe the state after a unit and its report."""

    def evaluated(self, root: Any, evaluate: Callable[[], Mapping[str, Any]], /) -> None:
        """Act after a unit, if the trainable can be evaluated."""


class _WatchedTrial(SearchContext):
    """Calls the observer; finds the trainer, or the function's frame, by the call of ``epochs``."""

    may_be_done = True

    def __init__(self, stages: list[Stage], link: Any, load: Path | None, watching: Watching) -> None:
        super().__init__(stages, link, load, "trial-0")
        self._watching = watching

    def epochs(self, *given: Any, **hooks: Any) -> Iterator[int]:
        hooks["save"], hooks["load"] = self.saving(hooks.pop("state", None), hooks.get("save"), hooks.get("load"))
        save: Any = hooks.get("save")
        load: Any = hooks.get("load")
        owner = getattr(save, "__self__", None)
        root = owner if isinstance(owner, Trainer) else sys._getframe(1)

        def load_and_look(path: Path) -> None:
            load(path)
            self._watching.loaded(root)

        if load is not None:
            hooks["load"] = load_and_look
        if save is not None:
            hooks["save"] = lambda path: self._watching.saving(root, lambda: save(path))
        return self._watched(super().epochs(*given, **hooks), root, hooks.get("evaluate"))

    def _watched(self, units: Iterator[int], root: Any, evaluate: Evaluate | None) -> Iterator[int]:
        for unit in units:
            yield unit
            self._watching.trained(unit, root)
            if evaluate is not None:
                self._watching.evaluated(root, evaluate)


def exact(metrics: Mapping[str, float]) -> dict[str, str]:
    """Return metrics as text that is equal only if the numbers are equal."""
    return {name: float(value).hex() for name, value in metrics.items()}


def run(
    task: Task,
    name: str,
    stops: list[int],
    *,
    start: int = 0,
    load: Path | None = None,
    save: bool = True,
    watching: Watching | None = None,
    stirred: int | None = None,
) -> Reports:
    """Train from ``start`` to the last of ``stops``, saving at each.

    Args:
        task: the check.
        name: of the run; its checkpoints lie in a folder of this name.
        stops: where checkpoints are saved, in ascending order.
        start: where it begins.
        load: the checkpoint there.
        save: whether to save at all.
        watching: the observer.
        stirred: the number that seeds the process's generators before; with None they keep their states.

    Returns:
        The reports.

    Raises:
        CannotPauseError: the trainable cannot be saved and loaded.
        UsageError: it raised; the message holds the traceback in the user's own code.
    """
    starts = [start, *stops[:-1]]
    stages = [
        Stage(NodeKey("check"), dict(task.params), (), task.seed, begin, end, task.units, save=save)
        for begin, end in zip(starts, stops, strict=True)
    ]
    link = Recorder(task.folder / name)
    trial = _WatchedTrial(stages, link, load, watching or Watching())
    if stirred is not None:
        stir(stirred)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            returned = as_function(task.trainable)(trial)
        except TrialPaused:
            returned = None
        except CannotPauseError:
            raise
        except (Exception, SystemExit) as error:
            text = exception_text(error)
            empty = "" if task.params else f", or give it hyper-parameters, of which it had none: {_GIVEN}"
            raise UsageError(f"{name_of(task.trainable)} itself fails; correct that first{empty}:\n\n{text}") from None
    if not trial.uses_epochs:
        raise CannotPauseError(
            f"{name_of(task.trainable)} cannot be paused, so there is nothing to check: write the training as "
            "`for epoch in trial.epochs(state={...}):`, or as a Trainer with save and load."
        )
    if isinstance(returned, Mapping) and stops[-1] > start:
        trial.report_last(as_metrics(returned, {}))
    return [(resource, exact(metrics)) for resource, metrics in link.reports]


def content(task: Task, checkpoint: Path, stirred: int) -> dict[str, str]:
    """Return the digests of a new object that has loaded a final checkpoint."""
    found: dict[str, str] = {}

    class Looking(Watching):
        def loaded(self, root: Any) -> None:
            found.update(TrainableState(root).digests())
            raise TrialPaused("seen")  # without training or evaluating

    run(task, "looking", [task.units], start=task.units, load=checkpoint, watching=Looking(), stirred=stirred)
    return found


def name_of(trainable: Any) -> str:
    """Return the name of a trainable."""
    return str(getattr(trainable, "__name__", None) or type(trainable).__name__)


def stir(number: int) -> None:
    """Give each global generator an arbitrary state, as in another process; different numbers, different states."""
    for place, generator in enumerate(global_generators.shared().values()):
        generator.seed(10_007 * number + place + 1)


def loaded_frameworks() -> list[str]:
    """Return the frameworks with generators of their own that are imported."""
    return [name for name in ("torch", "tensorflow") if name in sys.modules]

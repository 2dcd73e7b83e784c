"""``wandb.agent``: the runs of a sweep, on workers."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from asyncsearch.arguments import positive
from asyncsearch.checked_calls import answering
from asyncsearch.errors import UsageError
from asyncsearch.journal.opening import StudyFile
from asyncsearch.programs.same_line import SearchFolders, of_program
from asyncsearch.report.live.display import open_display
from asyncsearch.searchers import GridSearch
from asyncsearch.study.study import Study, run_shown
from asyncsearch.wandb.run_function import MODE, STEP, SweepFunction
from asyncsearch.wandb.run_program import SweepProgram
from asyncsearch.wandb.sweep_workers import present
from asyncsearch.wandb.sweeps import Sweep, sweep_of

_EXAMPLE = "wandb.agent(sweep_id, function=train, count=20)"
_SENT = ("WANDB_BASE_URL", MODE)
"""Variables of the driver's environment that the runs have, too. Never the key: what is sent lies in the store."""


@answering("wandb.agent", _EXAMPLE)
def agent(
    sweep_id: str,
    function: Callable[[], Any] | None = None,
    entity: str | None = None,
    project: str | None = None,
    count: int | None = None,
) -> Study:
    """Run a sweep on workers until it has ``count`` runs more, and return its study.

    Args:
        sweep_id: what ``wandb.sweep`` returned.
        function: called for each run, without arguments. None means the ``program`` of the sweep is started.
        entity: for ``wandb.init`` in the runs.
        project: likewise.
        count: how many runs. None means all of a grid.

    Raises:
        UsageError: an argument breaks its rule, or the sweep has no end.
    """
    described = sweep_of(sweep_id)
    total = _total(described, count)
    trainable = _trainable(described, function, entity or described.entity, project or described.project)
    settings = present()
    display = open_display(settings.display, logs=settings.logs)

    def is_same(file: StudyFile) -> bool:
        known = (file.name, file.trainable, file.metric, file.mode, file.searcher, file.scheduler, file.space)
        mine = (described.name, trainable.__qualname__, described.metric, described.mode)
        return known == (
            *mine,
            described.searcher.describe(),
            described.scheduler.describe(),
            described.space.describe(),
        )

    goes_on = bool(described.folder)
    if not goes_on:
        described.folder, goes_on = SearchFolders.next(described.name, settings.store, function or trainable, is_same)
        if goes_on:
            display.warn([f"The sweep in {described.folder} goes on: another name would begin anew."])
    if described.is_lenient:
        display.warn(["early_terminate: strict=False stops runs as strict=True does: each is judged at each band."])
    if described.description:
        display.warn([f"{described.name}: {described.description}"])
    if described.metric == STEP:
        display.warn(["The sweep names no metric, so that its runs are not ranked: write 'metric': {'name': ...}."])
    described.asked = total or 0
    study = Study(
        trainable,
        space=described.space,
        metric=described.metric,
        mode=described.mode,
        searcher=described.searcher,
        scheduler=described.scheduler,
        store=described.folder,
        name=described.name,
        resume=goes_on,
        share=False,
        backend=settings.backend,
    )
    of_program(study, getattr(trainable, "function", trainable), trainable.__qualname__, settings.store)
    return run_shown(study, total, settings.parallelism, None, display)


def _total(described: Sweep, count: Any) -> int | None:
    """Return how many runs the sweep is to have in all. None means all of a grid."""
    if count is None and described.run_cap is None:
        if isinstance(described.searcher, GridSearch):
            return None
        raise UsageError(f"wandb.agent without count= would never end: write {_EXAMPLE}.")
    total = described.run_cap if count is None else described.asked + positive("count", count)
    assert total is not None, "one of the two was given"
    return total if described.run_cap is None else min(total, described.run_cap)


def _trainable(
    described: Sweep, function: Callable[[], Any] | None, entity: str, project: str
) -> SweepFunction | SweepProgram:
    environment = {name: os.environ[name] for name in _SENT if name in os.environ}
    environment |= {"WANDB_SWEEP_ID": described.name}
    environment |= {name: one for name, one in (("WANDB_ENTITY", entity), ("WANDB_PROJECT", project)) if one}
    if function is not None:
        _require_no_arguments(function)
        return SweepFunction(function, described.metric, environment)
    if not described.program:
        raise UsageError(f"The sweep has no 'program', so it needs the function of its runs: write {_EXAMPLE}.")
    path = Path(described.program).absolute()
    if not path.exists():
        raise UsageError(f"program: there is no file {path}.")
    return SweepProgram(str(path), described.command, described.metric, environment)


def _require_no_arguments(function: Any) -> None:
    name = getattr(function, "__name__", type(function).__name__)
    if not callable(function):
        raise UsageError(f"function={function!r}: give the function that trains.")
    needed = [
        one.name
        for one in inspect.signature(function).parameters.values()
        if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    if needed:
        raise UsageError(
            f"{name} needs {', '.join(needed)}, and a sweep calls it without arguments: let it read wandb.config, or "
            f"give lambda: {name}(...)."
        )

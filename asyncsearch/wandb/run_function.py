"""The worker's half of a sweep: the function or the program of its runs, and the metric that they log."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.trainable import TrialContext
from asyncsearch.trial import Params
from asyncsearch.wandb.installed import module
from asyncsearch.wandb.logged import listen

MODE = "WANDB_MODE"
_NAME_CHARS = 100
STEP = "_step"
"""The metric of a sweep that names none: how often a run has logged. It ranks nothing by what was logged."""


class RunReports:
    """The reports of a trial: a report for each log that has the metric, with the numbers logged since the last one."""

    def __init__(self, trial: TrialContext, metric: str) -> None:
        self._trial, self._metric = trial, metric
        self._waiting: dict[str, float] = {}
        self.last: dict[str, float] = {}
        """The last value of each name that was logged, in the order of the names."""
        self.has_metric = False
        self._reported_step: Any = None
        self._row = 0
        """The present step of the run, as wandb counts it: what is logged with an earlier one is left out."""
        self._knows_repeats = self._knows_earlier = False

    def take(self, found: dict[str, float], is_complete: bool, step: Any = None) -> None:
        """Take a logged dictionary; it may end the trial."""
        if step is not None and step < self._row:
            self._say_earlier(step)
            return
        self._row = self._row + is_complete if step is None else step
        if step is not None and step == self._reported_step and self._metric in found:
            self._say_repeated(step)
            is_complete = False
        self._waiting |= found
        self.last |= found
        if self._metric == STEP and is_complete:
            self._waiting[STEP] = self._trial.resource + 1
        if is_complete and self._metric in self._waiting:
            values, self._waiting = self._waiting, {}
            self.has_metric, self._reported_step = True, step
            self._trial.report(values)

    def _say_earlier(self, step: Any) -> None:
        """Say once that wandb leaves out what is logged with a step that is over."""
        if not self._knows_earlier:
            self._knows_earlier = True
            sys.stderr.write(
                f"asyncsearch: what is logged with step={step} after step={self._row} is left out, as in wandb: let "
                "steps grow, or log without step=.\n"
            )

    def _say_repeated(self, step: Any) -> None:
        """Say once that wandb has one row of a step, so that a metric counts there once."""
        if not self._knows_repeats:
            self._knows_repeats = True
            sys.stderr.write(
                f"asyncsearch: {self._metric!r} is logged several times with step={step}, and the first one counts: "
                "log it once for each step, or without step=.\n"
            )

    def end(self, summary: Mapping[str, float]) -> None:
        """Take the metric, if it was only set in the summary; keep as notes what no report came after.

        Raises:
            UsageError: there is no metric.
        """
        if self._metric in self._waiting:
            self.take({}, True)
        if not self.has_metric:
            raise UsageError(
                f"The run has not logged {self._metric!r}, the metric of its sweep; it has logged "
                f"{', '.join(map(repr, self.last)) or 'nothing'}: write wandb.log({{{self._metric!r}: ...}})."
            )
        changed = {name: value for name, value in summary.items() if self.last.get(name) != value}
        for name, value in {**self._waiting, **changed}.items():
            if not name.startswith("_"):  # those are wandb's own
                self._trial.note(name[:_NAME_CHARS], f"{value:.12g}")


class SweepFunction:
    """A function without arguments as a function of asyncsearch's trial."""

    def __init__(self, function: Callable[[], Any], metric: str, environment: Mapping[str, str]) -> None:
        self.function, self._metric, self._environment = function, metric, dict(environment)
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)

    def __call__(self, trial: TrialContext) -> None:
        wandb: Any = module()
        reports = RunReports(trial, self._metric)
        with variables({MODE: "disabled", **self._environment}):  # the same in each trial: wandb reads them once
            before = {name: vars(wandb)[name] for name in ("log", "define_metric") if name in vars(wandb)}
            listen(wandb, reports.take, trial.name, trial.params)
            try:
                self.function()
            finally:
                wandb.finish()
                summary = getattr(wandb.init, "summary", {})
                wandb.init = wandb.init.__wrapped__
                vars(wandb).pop("define_metric", None)
                vars(wandb).update(before)  # else a later trial without ``wandb.init()`` would log for this one
        reports.end(summary)


def environment_of(trial: TrialContext, folder: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which wandb learns of a sweep's run; writes its parameters into a folder."""
    path = Path(folder) / "config.yaml"
    path.write_text(params_text(trial.params), encoding="utf-8")
    return {
        MODE: "disabled",
        **given,
        "WANDB_SWEEP_PARAM_PATH": str(path),
        "WANDB_RUN_ID": trial.name,
    }


def params_text(params: Params) -> str:
    """Return parameters in the form in which wandb reads them: YAML that is JSON."""
    entries = [f'{json.dumps(name)}: {{"value": {_text(value)}}}' for name, value in params.items()]
    return "{" + ", ".join(['"wandb_version": 1', *entries]) + "}"


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {_text(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_text, value)) + "]"
    if isinstance(value, float) and "e" in repr(value) and "." not in repr(value):
        return repr(value).replace("e", ".0e")  # YAML reads 1e-05 as text
    return json.dumps(value)


@contextmanager
def variables(given: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment, and put back what was there: a process runs several trials."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

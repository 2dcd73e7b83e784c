"""The meaning of arguments of ``fmin`` to which Hyperopt gives more than one."""

from __future__ import annotations

import inspect
import logging
import os
import pickle
from collections.abc import Callable
from typing import Any

import hyperopt
import numpy as np
from hyperopt import exceptions, pyll
from hyperopt.fmin import generate_trials_to_calculate

from asyncsearch.files.plain import open_to_read

_logger = logging.getLogger("hyperopt.fmin")


def annotated(fn: Callable[..., Any]) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return an objective of one argument, and the space of the annotations of its own ones."""
    space = inspect.getfullargspec(fn).annotations
    for node in space.values():
        if not isinstance(node, pyll.base.Apply):
            raise exceptions.InvalidAnnotatedParameter(
                'When using `space="annotated"`, please annotate the objective function arguments with a '
                "`pyll.base.Apply` subclass. See example in `fmin` docstring"
            )

    def objective(point: dict[str, Any]) -> Any:
        return fn(**point)

    return objective, space


def new_trials(points: list[dict[str, Any]] | None, path: str) -> Any:
    """Return the trials of a search that was given none: those of a file, if it is there."""
    if path and os.path.exists(path):
        with open_to_read(path) as file:
            return pickle.load(file)  # noqa: S301  # the program's own file
    made = hyperopt.Trials()  # nobody but this search has it, unless by a file that plain Hyperopt reads, too
    if points is not None:
        add_points(made, points)
    return made


def add_points(trials: Any, points: list[dict[str, Any]]) -> None:
    """Put points before those that algo draws, if there is none yet."""
    if len(trials._dynamic_trials):
        _logger.warning("points_to_evaluate is left out: the trials have %d points already.", len(trials))
        return
    assert isinstance(points, list)
    trials.insert_trial_docs(generate_trials_to_calculate(points)._dynamic_trials)
    trials.refresh()


def default_rstate() -> Any:
    """Return the generator from which seeds are drawn where a program gives none."""
    seed = os.environ.get("HYPEROPT_FMIN_SEED", "")
    return np.random.default_rng(int(seed) if seed else None)


_KNOWN = ("asyncsearch.hyperopt.trials", "hyperopt.base", "hyperopt.spark")
"""Modules whose classes of trials search by ``fmin`` here."""


def has_own_fmin(trials: Any) -> bool:
    """Return whether trials are of a class of the program's own that has its own way to search."""
    return getattr(getattr(type(trials), "fmin", None), "__module__", "") not in _KNOWN

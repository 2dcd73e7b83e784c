"""Programs of Optuna run here as they run there: the same trials, value by value, with one worker."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import optuna
import pytest

import asyncsearch.optuna as ours
from tests.optuna.programs import PROGRAMS
from tests.shares import takes_long


@pytest.fixture(autouse=True)
def _workers(quiet: None) -> None:
    ours.workers(1, backend="inline", display="none")


def rows(study: Any) -> list[Any]:
    """Return all of a study's trials that two runs have in common: everything but times."""
    return [
        [
            trial.number,
            trial.state,
            repr(trial.values),
            trial.params,
            trial.distributions,
            trial.user_attrs,
            trial.system_attrs,
            repr(trial.intermediate_values),
        ]
        for trial in study.trials
    ]


LONG = ("several_studies_by_a_partial", "the_best_trial_once_more")
"""Programs that import scipy, torch and pandas, which takes longer than they do."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=takes_long) if name in LONG else name for name in sorted(PROGRAMS)]
)
def test_a_program_has_the_trials_that_it_has_with_optuna(name: str, tmp_path: Path) -> None:
    found = []
    for module in (optuna, ours):
        folder = tmp_path / module.__name__
        folder.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            found.append(PROGRAMS[name](module, folder))
    theirs, here = found
    assert len(theirs) == len(here)
    for one, other in zip(theirs, here, strict=True):
        assert rows(other) == rows(one)
        assert other.user_attrs == one.user_attrs

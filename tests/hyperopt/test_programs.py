"""Programs of Hyperopt run here as they run there: the same documents, value by value, with one worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hyperopt
import pytest

import asyncsearch.hyperopt as ours
from tests.hyperopt.programs import PROGRAMS


@pytest.fixture(autouse=True)
def _workers(quiet: None) -> None:
    ours.workers(1, backend="inline")


def documents(trials: Any) -> list[Any]:
    """Return all of trials that two runs have in common: everything but times."""
    return [
        {key: value for key, value in one.items() if key not in ("book_time", "refresh_time")}
        for one in trials._dynamic_trials
    ]


# Hyperopt's own ``fmin`` does not close the file in which it saves trials.
@pytest.mark.filterwarnings("ignore:unclosed file", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_has_the_documents_that_it_has_with_hyperopt(name: str, tmp_path: Path) -> None:
    found = []
    for module in (hyperopt, ours):
        folder = tmp_path / module.__name__
        folder.mkdir()
        found.append(PROGRAMS[name](module, folder))
    theirs, here = found
    assert len(theirs) == len(here)
    for (one_best, one), (other_best, other) in zip(theirs, here, strict=True):
        assert other_best == one_best
        assert documents(other) == documents(one)
        assert other.attachments == one.attachments
        assert isinstance(other, hyperopt.Trials)

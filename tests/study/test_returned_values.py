"""What a function returns beside its reports is said where people look, and is nobody's value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, Study, uniform
from asyncsearch.trainable import TrialContext

LOSSES = [1.0, 0.2, 0.7]


def best(trial: TrialContext) -> float:
    for loss in LOSSES:
        trial.report(loss=loss)
    return min(LOSSES)


def several(trial: TrialContext) -> dict[str, float]:
    for _, loss in zip(trial.epochs(), LOSSES, strict=True):
        trial.report(loss=loss)
    return {"accuracy": float("nan"), "loss": 0.2}


def last(trial: TrialContext) -> float:
    best(trial)
    return LOSSES[-1]


def searched(folder: Path, function: Any, backend: str = "inline", **options: Any) -> Study:
    study = Study(
        function, space={"x": uniform(0, 1)}, metric="loss", mode="min", store=folder / "st", backend=backend, **options
    )
    study.run(num_trials=2, parallelism=1, display="plain")
    return study


@pytest.mark.parametrize("backend", ["inline", "processes"])
@pytest.mark.parametrize(("function", "words"), [(best, "loss=0.2"), (several, "loss=0.2, accuracy=NaN")])
def test_it_is_in_the_table_in_the_summary_and_in_explain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], function: Any, words: str, backend: str
) -> None:
    study = searched(tmp_path, function, backend, scheduler=FIFO(max_resource=3))
    again = Study.open(tmp_path / "st")
    for text in (capsys.readouterr().out, again.summary(), again.explain(1)):
        assert f"its function returned {words}, which is not recorded" in " ".join(text.split())
    assert "2 trials returned a value beside the reports" in " ".join(again.summary().split())
    assert (study.best_value, again.best_value, again.best_trial.resource) == (0.7, 0.7, 3)


@pytest.mark.parametrize(
    ("function", "options", "value", "resource"),
    [
        (last, {"scheduler": FIFO(max_resource=3)}, 0.7, 3),
        (last, {}, 0.7, 3),
        (best, {}, 0.2, 4),
        (best, {"scheduler": FIFO(max_resource=4)}, 0.2, 4),
    ],
)
def test_nothing_is_said_of_a_value_that_is_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], function: Any, options: Any, value: float, resource: int
) -> None:
    study = searched(tmp_path, function, **options)
    assert (study.best_value, study.best_trial.resource) == (value, resource)
    for text in (capsys.readouterr().out, study.summary(), study.explain(0)):
        assert "beside the reports" not in text
        assert "not recorded" not in text

"""Trials that stop themselves: they count as stopped early, with their reason, and the others go on as ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, PBT, SHA, Hyperband, Study, uniform
from asyncsearch.trial import TrialState

WORDS = "the loss rises"


def rising(trial: Any) -> None:
    for epoch in trial.epochs(state={"done": {"units": 0}}):
        trial.report(loss=trial.params["x"] + 1 / epoch)
        if epoch == 2 and trial.params["x"] < 0.2:
            trial.stop("the loss\nrises")


@pytest.mark.parametrize(
    "scheduler",
    [
        FIFO(max_resource=9),
        ASHA(max_resource=9),
        ASHA(max_resource=9, variant="stopping"),
        SHA(max_resource=9),
        Hyperband(max_resource=9, variant="synchronous"),
        PBT(max_resource=9, population=9, perturbation_interval=3),
    ],
    ids=["fifo", "asha", "stopping", "sha", "hyperband", "pbt"],
)
def test_a_trial_that_stops_itself_is_stopped_early(scheduler: Any, tmp_path: Path) -> None:
    study = Study(
        rising,
        space={"x": uniform(0, 1)},
        metric="loss",
        mode="min",
        scheduler=scheduler,
        backend="inline",
        store=tmp_path,
    )
    study.run(18, display="none")
    own = [trial for trial in study.trials if trial.reason == WORDS]
    assert own
    for trial in own:
        assert (trial.state, trial.resource) == (TrialState.STOPPED, 2)
        assert trial.value is not None
        assert trial.value < 0.7
    assert max(trial.resource for trial in study.trials) == 9, "the others go on"


def test_a_stop_without_a_report_is_no_failure(tmp_path: Path) -> None:
    study = Study(
        lambda trial: trial.stop() if trial.params["x"] > 0.5 else {"loss": 1.0},
        space={"x": uniform(0, 1)},
        metric="loss",
        mode="min",
        backend="processes",
        store=tmp_path,
    )
    study.run(6, parallelism=1, display="none")
    found = {(trial.params["x"] > 0.5, trial.state, trial.reason) for trial in study.trials}
    assert found == {
        (True, TrialState.STOPPED, "its code stopped it"),
        (False, TrialState.COMPLETED, "its function returned, at 1"),
    }

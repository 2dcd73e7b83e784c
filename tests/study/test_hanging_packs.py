"""A pack of real processes in which one trial hangs: it alone fails, and those that hung with it finish."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from asyncsearch import FIFO, GridSearch, Study, WorkerOptions, choice
from asyncsearch.trial import TrialState
from tests.study.test_packs import Line, lanes

HANGS, RATES = 0.5, (0.25, 0.5, 0.75)


class Hanging(Line):
    """Waits in its second unit for what never comes."""

    def train(self) -> None:
        self.train_pack([self])

    @classmethod
    def train_pack(cls, trainers: Sequence[Line]) -> None:
        for trainer in trainers:
            if trainer.hp["rate"] == HANGS and trainer.loss < 1.0:
                threading.Event().wait()
            trainer.loss *= 1 - trainer.hp["rate"]


@pytest.mark.slow
def test_a_trial_that_hangs_in_a_pack_of_three_costs_the_others_only_time(tmp_path: Path) -> None:
    study = Study(
        Hanging,
        space={"rate": choice(RATES)},
        searcher=GridSearch(),
        metric="loss",
        mode="min",
        scheduler=FIFO(max_resource=3),
        store=tmp_path / "study",
        pack=3,
        backend="processes",
        workers=WorkerOptions(trial_timeout=8.0, stop_grace=0.5),
    )
    study.run(parallelism=1)
    assert lanes(study) == [3, 1, 1, 1]
    states = {trial.params["rate"]: trial.state for trial in study.trials}
    assert states == dict.fromkeys(RATES, TrialState.COMPLETED) | {HANGS: TrialState.FAILED}
    values = {trial.params["rate"]: trial.value for trial in study.trials if trial.params["rate"] != HANGS}
    assert values == {rate: (1 - rate) ** 3 for rate in RATES if rate != HANGS}
    assert "trial_timeout" in next(trial.reason for trial in study.trials if trial.state is TrialState.FAILED)
    assert [trial.failures for trial in study.trials] == [int(trial.params["rate"] == HANGS) for trial in study.trials]

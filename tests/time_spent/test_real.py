"""Accounts of real searches: exact sums, and what their functions know of themselves."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, Study, Trainer, TrialContext, uniform
from asyncsearch.journal.opening import read_records
from tests.time_spent.accounts import records_of, require_sums

PART_S = 0.02
"""Long enough to be told from what is around it, on a busy machine too."""


class Slow(Trainer):
    """Takes a known time for each thing that it does."""

    evaluate_every = 1

    def setup(self, hp: Any) -> None:
        time.sleep(2 * PART_S)

    def train(self) -> None:
        time.sleep(PART_S)

    @classmethod
    def train_pack(cls, trainers: Sequence[Slow]) -> None:
        time.sleep(PART_S * len(trainers))

    def evaluate(self) -> dict[str, Any]:
        time.sleep(PART_S)
        return {"loss": self.trial.params["x"]}

    def save(self, path: Path) -> None:
        time.sleep(3 * PART_S)
        path.write_text("")

    def load(self, path: Path) -> None:
        time.sleep(PART_S)


def dies_once_in_its_second_unit(died: str) -> Callable[[TrialContext], None]:
    def train(trial: TrialContext) -> None:
        for unit in trial.epochs():
            time.sleep(PART_S)
            if unit == 2 and not os.path.exists(died):
                open(died, "x").close()
                os.kill(os.getpid(), signal.SIGKILL)
            trial.report(loss=1.0)

    return train


def searched(trainable: Any, folder: Path, backend: str, trials: int = 5, **options: Any) -> Study:
    space = {"x": uniform(0.0, 1.0)}
    settings: dict[str, Any] = {
        "metric": "loss",
        "mode": "min",
        "space": space,
        "store": folder / "study",
        "backend": backend,
    }
    return Study(trainable, **(settings | options)).run(trials, parallelism=2, display="none")


def require_real_sums(study: Study) -> None:
    require_sums(study.time_spent(), records_of(read_records(study.store)))


@pytest.mark.parametrize(("backend", "pack"), [("inline", None), ("processes", None), ("inline", 3)])
def test_real_searches_add_up_and_know_what_they_did(backend: str, pack: int | None, tmp_path: Path) -> None:
    study = searched(Slow, tmp_path, backend, scheduler=ASHA(max_resource=9), pack=pack)
    require_real_sums(study)
    found = study.time_spent().total.seconds()
    trained = sum(trial.trained for trial in study._read_state().trials)
    assert found["entering"] >= 5 * 2 * PART_S, "each trial has entered its function"
    assert found["training"] >= 0.99 * trained * PART_S
    assert found["evaluating"] >= 0.99 * trained * PART_S
    assert found["saving"] >= 3 * PART_S
    assert not found["unmeasured"]
    assert f"training {100 * study.time_spent().total.share('training'):.0f}%" in study.summary().replace("\n    ", " ")


def test_a_second_run_of_a_study_adds_to_the_first(tmp_path: Path) -> None:
    study = searched(Slow, tmp_path, "inline", trials=1, scheduler=FIFO(max_resource=1))
    first = study.time_spent().total.total
    study.run(2, display="none")
    require_real_sums(study)
    assert study.time_spent().total.total > first
    assert len(study.time_spent().by_trial) == 2


def test_a_process_that_dies_trained_in_vain(tmp_path: Path) -> None:
    train = dies_once_in_its_second_unit(str(tmp_path / "died"))
    study = searched(train, tmp_path, "processes", trials=1, scheduler=FIFO(max_resource=3))
    require_real_sums(study)
    assert study.time_spent().total.seconds()["in_vain"] >= 2 * PART_S
    assert study.time_spent().total.seconds()["training"] >= 3 * PART_S


STORES = sorted((Path(__file__).parents[1] / "golden" / "stores").glob("0.1.0/*/**/study.json"))[::3]


@pytest.mark.parametrize("file", STORES, ids=lambda file: "-".join(file.parts[-4:-1]))
def test_a_study_of_the_first_version_says_what_was_not_measured(file: Path, tmp_path: Path) -> None:
    shutil.copytree(file.parent, tmp_path / "study")
    found = Study.open(tmp_path / "study").time_spent()
    assert not any((found.total.training, found.total.entering, found.total.saving, found.total.evaluating))
    assert found.total.total == sum(one.total for one in found.by_worker.values())
    assert found.total.unmeasured or found.total.in_vain or not found.by_trial

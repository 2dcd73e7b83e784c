"""A ``KerasTrainer`` on several workers has the results that it has on one, whichever of them is lost meanwhile."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
with contextlib.suppress(ImportError):
    import torch._inductor  # noqa: F401  # before TensorFlow: the other way round, its LLVM ends the process
pytest.importorskip("tensorflow")
pytest.importorskip("keras")

import keras

from asyncsearch import ASHA, Gang, Study, TrialContext, TrialState
from asyncsearch.actions import Assign
from asyncsearch.errors import UsageError
from asyncsearch.journal.opening import read_records
from asyncsearch.trainers.keras.gangs.connection import Ring
from tests.gangs.keras_searches import (
    UNITS,
    KerasDigits,
    digits_where,
    double_precision,
    keras_alone,
    keras_study,
    keras_weights,
)
from tests.gangs.searches import killing, require_same, results
from tests.shares import takes_long
from tests.trainers.tools import Trial

TRIALS = 3
MOMENTS = {(0, 2, 1, "step"), (1, 1, 0, "step"), (1, 3, 1, "end"), (2, 3, 0, "step")}
"""The trial's number, the unit, the rank, and the place in the unit where it is killed."""


@pytest.mark.slow
def test_a_trial_on_two_workers_ends_with_the_weights_of_one(tmp_path: Path) -> None:
    alone = keras_alone(keras_study(tmp_path / "alone", None, digits_where(), 1, backend="inline"))
    together = keras_study(tmp_path / "s", 2, digits_where(), 1).run(parallelism=2, display="none")
    require_same(together, alone, keras_weights)


@takes_long
@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_a_trainer_ends_with_the_same_weights_on_any_number_of_workers(
    tmp_path: Path, keras_digits_alone: Study, size: int
) -> None:
    together = keras_study(tmp_path / "together", size, scheduler=ASHA(max_resource=4, reduction_factor=2))
    require_same(together.run(3, parallelism=size, display="none"), keras_digits_alone, keras_weights)


@takes_long  # of torch: test_lost_ranks.py; of a ring whose member is gone: test_rings.py
@pytest.mark.slow
def test_ranks_that_are_killed_cost_no_trial_its_results(tmp_path: Path) -> None:
    alone = keras_alone(keras_study(tmp_path / "alone", None, trials=TRIALS, backend="inline"))
    (tmp_path / "killed").mkdir()
    trainer = digits_where(killing(tmp_path / "killed", MOMENTS))
    study = keras_study(tmp_path / "s", 2, trainer, TRIALS, save_every=1).run(parallelism=2, display="none")
    assert len(list((tmp_path / "killed").iterdir())) == len(MOMENTS)
    assert [trial.failures for trial in study.trials] == [0] * TRIALS
    for (units, loss), (_, expected) in zip(results(study), results(alone), strict=True):
        assert units == UNITS
        assert loss == pytest.approx(expected, abs=1e-9)


@takes_long
@pytest.mark.slow
def test_one_worker_goes_on_from_the_checkpoint_of_two(tmp_path: Path) -> None:
    alone = keras_alone(keras_study(tmp_path / "alone", None, trials=1, backend="inline"))
    (tmp_path / "killed").mkdir()
    trainer = digits_where(killing(tmp_path / "killed", {(0, 2, 1, "step")}, agent=True))
    study = keras_study(tmp_path / "s", Gang(2, min_size=1), trainer, 1, save_every=1)
    study.run(parallelism=2, display="none")
    work = [one.work for record in read_records(study.store) for one in record.actions if isinstance(one, Assign)]
    assert [1 + len(one.followers) for one in work] == [2, 1]
    assert study.trials[0].value == pytest.approx(alone.trials[0].value, abs=1e-9)


class InTwo(Trial):
    """One of two ranks in one process; the other one does nothing."""

    def __init__(self) -> None:
        super().__init__([{"lr": 0.01}])
        self.world_size = 2
        self.sockets = socket.socketpair()
        ring = Ring(0, 2, *self.sockets)
        self.gang = SimpleNamespace(connected=lambda *_: ring, agree_by=lambda _: None)


class Compiled(KerasDigits):
    jit_compile = True


class Summed(KerasDigits):
    loss = keras.losses.SparseCategoricalCrossentropy(reduction="sum")


class Synchronized(KerasDigits):
    def model(self, hp: Mapping[str, Any]) -> Any:
        return keras.Sequential([keras.layers.BatchNormalization(synchronized=True), keras.layers.Dense(10)])


class OwnStep(keras.Sequential):  # type: ignore[misc]
    def train_step(self, data: Any) -> Any:
        return {"loss": self.trainable_variables[0].assign_add(self.trainable_variables[0])}


class NotAveraged(KerasDigits):
    run_eagerly = True

    def model(self, hp: Mapping[str, Any]) -> Any:
        return OwnStep([keras.layers.Dense(10)])


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Summed, "reduction='sum'"),
        (Synchronized, "synchronized=True, which needs a strategy"),
        (NotAveraged, "write self.optimizer.apply"),
    ],
)
@pytest.mark.usefixtures("_single")
def test_what_would_not_train_the_whole_batch_is_refused_in_words(kind: type[KerasDigits], words: str) -> None:
    trainer, trial = kind(), InTwo()
    trainer.trial = cast(Any, trial)

    def step() -> None:
        trainer.setup({"lr": 0.01})
        trainer._train_batch(trainer._batch(trainer._train_data, np.arange(4)))

    with trial.sockets[0], trial.sockets[1], pytest.raises(UsageError, match=words):
        step()


@pytest.fixture
def _single() -> Iterator[None]:
    with double_precision():
        yield


def test_a_trainer_that_xla_compiles_is_refused_when_the_study_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="leave out jit_compile"):
        keras_study(tmp_path / "s", 2, Compiled)


def failing(trial: TrialContext, unit: int, place: str) -> None:
    if (trial.params["number"], unit, trial.rank, place) == (0, 2, 1, "step"):
        raise ValueError("bad luck")


@takes_long
@pytest.mark.slow
def test_an_error_of_one_rank_fails_its_trial_with_that_error(tmp_path: Path) -> None:
    study = keras_study(tmp_path / "s", 2, digits_where(failing), 2).run(parallelism=2, display="none")
    assert [trial.state for trial in study.trials] == [TrialState.FAILED, TrialState.COMPLETED]
    assert study.trials[0].reason == "ValueError: bad luck"
    assert "In rank 1 of a gang of 2 workers" in str(study.explain(0))

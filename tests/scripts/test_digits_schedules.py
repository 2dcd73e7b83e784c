"""The schedules of digits: values take effect, paused ones train on bit by bit, and the script says what was saved."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asyncsearch.cli import main
from asyncsearch.runner.standalone import StandaloneTrial
from asyncsearch.searchers.grid import GridSearch
from asyncsearch.sequences import present
from asyncsearch.space import Space
from asyncsearch.trainable import as_function
from tests.scripts.test_digits import run
from tests.scripts.tools import imported
from tests.shares import first, takes_long

pytest.importorskip("sklearn")


def grid() -> list[dict[str, Any]]:
    script = imported("digits_schedules")
    searcher = GridSearch().begin(Space(script.SPACE), seed=0)
    proposals = [searcher.propose(number) for number in range(searcher.length() or 0)]
    return [proposal for proposal in proposals if proposal is not None]


def of(kind: str, batch_size: Any = 32) -> dict[str, Any]:
    return next(p for p in grid() if p["lr"]["sequence"] == kind and p["batch_size"] == batch_size)


def test_the_space_has_warm_ups_steps_and_cycles_in_at_least_24_trials() -> None:
    assert len(grid()) == 36
    assert {"multistep", "warmup", "cyclic"} <= {params["lr"]["sequence"] for params in grid()}


def test_a_rate_that_is_updated_is_the_one_that_trains(tmp_path: Path) -> None:
    script = imported("digits_schedules")
    trainer = script.DigitReader()
    trainer.trial = StandaloneTrial({"lr": 0.1, "batch_size": 32}, max_resource=1, seed=5, folder=tmp_path)
    trainer.setup({"lr": 0.1, "batch_size": 32})
    trainer.train()
    for velocity in trainer.network._optimizer.velocities:
        velocity[:] = 0.0
    before = [layer.copy() for layer in trainer.network.coefs_]
    trainer.update({"lr": 0.0})
    trainer.train()
    assert all(np.array_equal(layer, same) for layer, same in zip(before, trainer.network.coefs_, strict=True))
    trainer.update({"lr": 0.1})
    trainer.train()
    assert not any(np.array_equal(layer, same) for layer, same in zip(before, trainer.network.coefs_, strict=True))


def test_each_epoch_trains_with_its_own_rate_and_batch_size(tmp_path: Path) -> None:
    script = imported("digits_schedules")
    params = next(p for p in grid() if p["lr"]["sequence"] == "warmup" and isinstance(p["batch_size"], dict))
    seen: list[tuple[float, int]] = []

    class Watched(script.DigitReader):  # type: ignore[name-defined, misc]
        def train(self) -> None:
            super().train()
            seen.append((self.network._optimizer.learning_rate, self.network.batch_size))

    as_function(Watched)(StandaloneTrial(params, max_resource=20, seed=5, folder=tmp_path))
    wanted = [present(params, epoch) for epoch in range(20)]
    assert seen == [(values["lr"], values["batch_size"]) for values in wanted]
    assert len(set(seen)) > 5


@pytest.mark.parametrize("kind", ["multistep", "warmup", "cyclic"])
@pytest.mark.parametrize("cut", first([3, 8]))
def test_a_paused_schedule_trains_on_bit_by_bit(kind: str, cut: int, tmp_path: Path) -> None:
    script = imported("digits_schedules")
    train, params = as_function(script.DigitReader), of(kind)
    whole = StandaloneTrial(params, max_resource=10, seed=5, folder=tmp_path / "whole")
    begun = StandaloneTrial(params, max_resource=cut, seed=5, folder=tmp_path / "parts")
    train(whole)
    train(begun)
    second = StandaloneTrial(params, max_resource=10, seed=5, folder=tmp_path / "parts")
    train(second)
    assert whole.reports == begun.reports + second.reports
    one, other = (script.joblib.load(tmp_path / name / "10" / "checkpoint") for name in ("whole", "parts"))
    for layer, same in zip(one.coefs_ + one.intercepts_, other.coefs_ + other.intercepts_, strict=True):
        assert np.array_equal(layer, same)


def test_no_trial_of_schedules_sees_the_test_digits() -> None:
    (train, _), (valid, _), (test, _) = imported("digits_schedules").split_digits()
    test_images = {image.tobytes() for image in test}
    assert len(test_images) == 360
    assert not test_images & {image.tobytes() for image in np.concatenate([train, valid])}


@pytest.mark.slow
def test_the_script_says_what_was_asked_for_trained_and_saved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = str(Path(imported("digits_schedules").__file__ or ""))
    command = [sys.executable, script, "--backend", "processes", "--parallelism", "1", "--store", "study", "--trials"]
    run(*command, "3", cwd=tmp_path)
    out = run(*command, "6", cwd=tmp_path)
    assert "6 trials asked for 144 passes over the digits, " in out
    trained = int(re.findall(r"digits, (\d+) were trained: \d+% saved, each pass serves 1\.\d\d trials", out)[0])
    assert trained < 144
    assert re.search(r"accuracy on 360 digits that no trial saw: 0\.9\d+", out)
    assert re.search(r"^  lr: multistep\(0\.1, milestones=", out, flags=re.MULTILINE)
    assert main(["tree", str(tmp_path / "study")]) == 0
    assert f"144 units of training asked for, {trained} trained" in capsys.readouterr().out


@takes_long
@pytest.mark.spark
@pytest.mark.slow
def test_the_schedules_run_under_spark_submit(tmp_path: Path) -> None:
    pyspark = pytest.importorskip("pyspark")
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    script = Path(imported("digits_schedules").__file__ or "")
    command = [str(submit), "--master", "local[2]", str(script), "--trials", "3", "--store", "study"]
    out = run(*command, cwd=tmp_path, PYSPARK_PYTHON=sys.executable, PYTHONPATH=str(script.parents[1]))
    assert "3 trials asked for 72 passes over the digits, 34 were trained: 53% saved" in out

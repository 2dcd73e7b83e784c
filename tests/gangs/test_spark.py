"""Trials on several workers of Spark, whose executors are processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gangs.searches import UNITS, grid, killing, linear, results
from tests.spark.cluster import spark_session


@pytest.mark.spark
@pytest.mark.slow
def test_trials_train_on_workers_of_two_executors_and_outlive_one(tmp_path: Path) -> None:
    expected = results(grid(linear(), tmp_path / "alone", None).run(parallelism=1, display="none"))
    (tmp_path / "killed").mkdir()
    happen = killing(tmp_path / "killed", {(1, 2, 1, "step"), (2, 3, 0, "begin")})
    with spark_session("local-cluster[2,2,1024]"):
        study = grid(linear(happen), tmp_path / "s", 2, save_every=1, backend="spark")
        study.run(parallelism=4, display="none")
    assert len(list((tmp_path / "killed").iterdir())) == 2
    for (units, loss), (_, alone) in zip(results(study), expected, strict=True):
        assert units == UNITS
        assert loss == pytest.approx(alone, abs=1e-12, rel=1e-9)

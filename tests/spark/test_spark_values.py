"""Broadcast variables can be used in trials; what only Spark's driver has is refused before the first one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import Study, uniform
from asyncsearch.errors import NotPicklableError
from asyncsearch.launch.bundle import pack
from tests.spark.cluster import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, trial: Any) -> float:
        return float(sum(self.value.value))


def total(rows: Any, trial: Any) -> float:
    return float(sum(rows.value))


def captured(value: Any) -> Callable[[Any], Any]:
    def train(trial: Any) -> Any:
        return value

    return train


def study(trainable: Any, store: Path, backend: str) -> Study:
    space = {"x": uniform(0, 1)}
    return Study(trainable, space=space, metric="sum", mode="max", store=store, backend=backend)


def test_values_of_spark_in_a_trainable(tmp_path: Path) -> None:
    with spark_session("local[2]") as spark:
        context = spark.sparkContext
        rows = context.broadcast([1, 2, 3])
        ways = {
            "spark": lambda trial: float(sum(rows.value)),
            "processes": Holder(rows),
            "inline": functools.partial(total, rows),
        }
        for backend, way in ways.items():
            found = study(way, tmp_path / backend, backend)
            found.run(1, parallelism=1, display="none")
            assert found.best_value == 6
        frame = spark.range(3)
        refused = {
            "trial.report(..., count=count)": context.accumulator(0),
            "value.toPandas()": frame,
            "value.collect()": context.parallelize([1]),
            "spark.table(...).toPandas()": spark,
            "sc.textFile(...).collect()": context,
            "rows = df.select(value).toPandas()": frame.id,
        }
        for line, value in refused.items():
            with pytest.raises(NotPicklableError) as caught:
                pack(captured(value))
            assert "the closure variable 'value'" in str(caught.value)
            assert line in str(caught.value)

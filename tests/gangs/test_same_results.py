"""A trial on several workers has the results that it has on one, within rounding; ``test_spark.py``: on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsearch import ASHA, Study
from tests.gangs.searches import digits, digits_weights, grid, line_weights, linear, require_same
from tests.shares import IS_ALL, takes_long

SIZES = [2, 4]


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES if IS_ALL else SIZES[:1])
def test_a_function_ends_with_the_same_weights_on_any_number_of_workers(
    tmp_path: Path, promoted_lines_alone: Study, size: int
) -> None:
    together = grid(linear(), tmp_path / "s", size, 6, scheduler=ASHA(max_resource=9))
    require_same(together.run(parallelism=size, display="none"), promoted_lines_alone, line_weights)


@takes_long  # with a strategy: test_strategies.py
@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_a_trainer_ends_with_the_same_weights_on_any_number_of_workers(
    tmp_path: Path, digits_alone: Study, size: int
) -> None:
    together = digits(tmp_path / "s", size, scheduler=ASHA(max_resource=9))
    require_same(together.run(9, parallelism=size, display="none"), digits_alone, digits_weights)


@pytest.mark.slow
def test_a_configuration_that_is_evaluated_trains_on_as_many_workers(tmp_path: Path, digits_alone: Study) -> None:
    study = digits(tmp_path / "s", 2, scheduler=ASHA(max_resource=9)).run(1, parallelism=2, display="none")
    params = study.trials[0].params
    assert params == digits_alone.trials[0].params
    expected = dict(digits_alone.history(0))[1]["loss"]
    assert study.evaluate(params, 1)["loss"] == pytest.approx(expected, abs=1e-9)

"""A trial on several workers has the results that it has on one, within rounding; ``test_spark.py``: on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsearch import ASHA, Study, what_if
from asyncsearch.errors import UsageError
from tests.gangs.searches import (
    counting,
    digits,
    digits_weights,
    grid,
    line_weights,
    linear,
    require_same,
    require_same_units,
)
from tests.shares import takes_long

SIZES = [2, 4]


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which each rank of ``lines_of_two`` has written its units."""
    return tmp_path_factory.mktemp("units")


@pytest.fixture(scope="module")
def lines_of_two(units: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """Six numbers of ``linear`` on two workers, of which ASHA promotes some."""
    function = linear(counting(units))
    made = grid(function, tmp_path_factory.mktemp("lines") / "s", 2, 6, scheduler=ASHA(max_resource=9))
    return made.run(parallelism=2, display="none")


@pytest.mark.slow
def test_a_function_on_two_workers_ends_with_the_weights_of_one(
    lines_of_two: Study, promoted_lines_alone: Study
) -> None:
    require_same(lines_of_two, promoted_lines_alone, line_weights)


def test_every_rank_of_a_paused_trial_trains_the_same_units(lines_of_two: Study, units: Path) -> None:
    require_same_units(lines_of_two, units)


def test_a_story_names_the_workers_that_trained_together(lines_of_two: Study) -> None:
    assert "worker-0 trains it from the beginning to 1, together with worker-1" in str(lines_of_two.explain(0))
    assert [case.workers for case in what_if(lines_of_two, workers=(1, 2, 4)).cases] == [2, 4]
    with pytest.raises(UsageError, match="each trial of this study trains on 2 workers"):
        what_if(lines_of_two, workers=(1,))


@takes_long
@pytest.mark.slow
def test_a_function_on_four_workers_ends_with_the_weights_of_one(tmp_path: Path, promoted_lines_alone: Study) -> None:
    together = grid(linear(), tmp_path / "s", 4, 6, scheduler=ASHA(max_resource=9))
    require_same(together.run(parallelism=4, display="none"), promoted_lines_alone, line_weights)


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
    study = digits(tmp_path / "s", 2, scheduler=ASHA(max_resource=9))
    expected = dict(digits_alone.history(0))[1]["loss"]
    found = study.evaluate(digits_alone.trials[0].params, 1)["loss"]
    assert found == pytest.approx(expected, abs=1e-9)

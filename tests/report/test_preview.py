"""What a search will cost, said before it runs."""

from __future__ import annotations

import pytest

from asyncsearch.errors import ResourceError
from asyncsearch.report.preview import preview
from asyncsearch.schedulers import ASHA, FIFO, SHA


def test_preview_adds_up_the_units_of_all_rungs() -> None:
    plan = preview(ASHA(max_resource=27), 64)
    assert (plan.total, plan.full, plan.longest) == (64 + 21 * 2 + 7 * 6 + 2 * 18, 64 * 27, 27)
    assert "184 units of training, 89% less than training all 64 to the end (1,728)" in str(plan)


def test_wall_time_is_shared_work_but_never_less_than_the_longest_trial() -> None:
    def seconds(workers: int) -> float | None:
        return preview(ASHA(max_resource=27), 64, parallelism=workers, seconds_per_unit=2.0).seconds

    assert (seconds(1), seconds(2), seconds(500)) == (368.0, 184.0, 54.0)


def test_wall_time_is_not_guessed_where_the_cost_of_a_unit_is_not_known() -> None:
    plan = preview(ASHA(max_resource=27), 64)
    assert plan.seconds is None
    assert " on 1 worker" not in str(plan)


def test_preview_of_trials_that_end_by_themselves_admits_what_it_does_not_know() -> None:
    plan = preview(FIFO(), 10)
    assert (plan.total, plan.seconds) == (None, None)
    assert "not known beforehand" in str(plan)


def test_training_everything_to_the_end_saves_nothing() -> None:
    assert "40 units of training, as much as training all 10 to the end (40)" in str(preview(FIFO(max_resource=4), 10))


def test_preview_passes_the_schedulers_warnings_on() -> None:
    plan = preview(ASHA(max_resource=27), 20)
    assert plan.warnings
    assert "note: No trial is expected to reach max_resource=27" in str(plan)


@pytest.mark.parametrize("size", [1, 3, 64])
def test_preview_of_any_number_of_trials_has_a_line_for_every_rung(size: int) -> None:
    plan = preview(SHA(max_resource=9), size)
    assert [line.split()[:2] for line in str(plan).splitlines()[2:5]] == [["0", "1"], ["1", "3"], ["3", "9"]]


def test_a_search_that_cannot_work_is_refused() -> None:
    with pytest.raises(ResourceError):
        ASHA(max_resource=0)

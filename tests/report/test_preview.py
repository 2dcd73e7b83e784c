"""What a search will cost, said before it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from asyncsearch.errors import ResourceError
from asyncsearch.report.expected import Cost, expected, measured
from asyncsearch.report.preview import preview
from asyncsearch.schedulers import ASHA, FIFO, SHA
from asyncsearch.schedulers.base import RungForecast
from asyncsearch.simulate.cluster import Delays
from asyncsearch.store import open_store
from tests.report.tools import simulated, store_of


@dataclass(frozen=True, kw_only=True)
class Bracketed(FIFO):
    """Forecasts what it is told."""

    lines: list[RungForecast] = field(default_factory=list)

    def forecast(self, num_trials: int) -> list[RungForecast]:
        return self.lines


def test_preview_adds_up_the_units_of_all_rungs() -> None:
    plan = preview(ASHA(max_resource=27), 64)
    assert (plan.total, plan.full, plan.longest) == (64 + 21 * 2 + 7 * 6 + 2 * 18, 64 * 27, 27)
    assert "184 units of training, 89% less than training all 64 to the end (1,728)" in str(plan)


def test_wall_time_is_shared_work_but_never_less_than_the_longest_trial() -> None:
    def seconds(workers: int) -> float | None:
        return preview(ASHA(max_resource=27), 64, parallelism=workers, cost=Cost(2.0)).seconds

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


def test_the_simulated_time_is_that_of_a_search_whose_workers_wait_for_rungs() -> None:
    def seconds(workers: int) -> float:
        search = expected(SHA(max_resource=27), 27, workers, Cost(2.0))
        assert search is not None
        return preview(SHA(max_resource=27), 27, parallelism=workers, cost=Cost(2.0), expected=search).seconds or 0.0

    units = 27 + 9 * 2 + 3 * 6 + 18
    assert seconds(1) == 2.0 * units
    assert seconds(500) == 2.0 * 27
    assert 2.0 * units / 4 < seconds(4) < 2.0 * units


def test_the_simulated_search_says_how_many_trials_reach_each_rung() -> None:
    search = expected(SHA(max_resource=9), 27, 2)
    assert search is not None
    assert search.reached == ((1, 27), (3, 9), (9, 3))
    plan = str(preview(SHA(max_resource=9), 27, parallelism=2, expected=search))
    assert "of its trials 27 reach 1, 9 reach 3, 3 reach 9" in plan
    assert "takes as long on 2 workers as 36 units on one" in plan


def test_delays_that_were_measured_are_part_of_the_simulated_time() -> None:
    quick, slow = (expected(FIFO(max_resource=3), 4, 1, Cost(1.0, Delays(commit_s=delay))) for delay in (0.0, 5.0))
    assert quick is not None
    assert slow is not None
    assert (quick.wall_s, slow.wall_s > 12.0) == (12.0, True)


def test_a_search_that_would_take_long_to_simulate_is_reckoned_instead() -> None:
    assert expected(ASHA(max_resource=9), 1_000_000, 4) is None
    assert expected(FIFO(max_resource=1_000), 1_000, 4) is None


def test_a_search_whose_trials_end_by_themselves_is_not_simulated() -> None:
    assert expected(FIFO(), 10, 2) is None


def test_brackets_have_their_own_lines() -> None:
    lines = [RungForecast(0, 1, 6, 0), RungForecast(1, 3, 2, 0), RungForecast(0, 3, 2, 1)]
    plan = str(preview(Bracketed(max_resource=3, lines=lines), 8))
    assert [line.split() for line in plan.splitlines()[1:5]] == [
        ["bracket", "from", "to", "trials", "units"],
        ["0", "0", "1", "6", "6"],
        ["0", "1", "3", "2", "4"],
        ["1", "0", "3", "2", "6"],
    ]


def test_the_cost_of_a_unit_is_read_from_the_journal_of_a_study(tmp_path: Path) -> None:
    cost = measured(open_store(store_of(simulated(), tmp_path / "study")))
    assert cost is not None
    assert cost.unit_s == pytest.approx(1.4, abs=0.4), "units of these curves take 1 second and more"
    assert "as measured in 'test'" in str(preview(FIFO(max_resource=3), 4, cost=cost))
    assert measured(open_store(tmp_path / "nothing")) is None
    assert measured(open_store(store_of(simulated(), tmp_path / "begun", lines=3))) is None


def test_a_search_without_max_resource_is_simulated_as_far_as_its_trials_climb() -> None:
    search = expected(ASHA(), 64, 2)
    assert search is not None
    assert [level for level, _ in search.reached][:4] == [1, 3, 9, 27]
    assert search.reached[-1][1] >= 1
    assert "less than" not in str(preview(ASHA(), 64, expected=search))


def test_trials_that_are_judged_on_their_way_are_stopped_in_the_simulation_too() -> None:
    search = expected(ASHA(max_resource=9, variant="stopping"), 27, 2)
    assert search is not None
    assert search.reached[0] == (1, 27)
    assert search.reached[-1][1] < 27

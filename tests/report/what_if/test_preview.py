"""What a search will cost, said before it runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from asyncsearch.engine.config import EngineConfig
from asyncsearch.errors import ResourceError
from asyncsearch.report.what_if.expected import Cost, Expected, expected, measured
from asyncsearch.report.what_if.preview import notes_of, preview, warnings_of
from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband, Scheduler
from asyncsearch.schedulers.base_scheduler import RungForecast
from asyncsearch.searchers import GridSearch
from asyncsearch.sequences import multistep
from asyncsearch.simulate import Delays
from asyncsearch.space import Space, choice, uniform
from asyncsearch.store import open_store
from tests.report.tools import simulated, store_of
from tests.shares import first


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


def test_preview_of_trials_that_end_by_themselves_admits_the_unknown() -> None:
    plan = preview(FIFO(), 10)
    assert (plan.total, plan.seconds) == (None, None)
    assert "not known in advance" in str(plan)


def test_training_everything_to_the_end_saves_nothing() -> None:
    assert "40 units of training, as much as training all 10 to the end (40)" in str(preview(FIFO(max_resource=4), 10))


def test_preview_passes_the_schedulers_warnings_on() -> None:
    plan = preview(ASHA(max_resource=27), 20)
    assert plan.warnings
    assert "note: Only trials that are promoted early reach max_resource=27" in str(plan)


@pytest.mark.parametrize("size", [1, 3, 64])
def test_preview_of_any_number_of_trials_has_a_line_for_every_rung(size: int) -> None:
    plan = preview(SHA(max_resource=9), size)
    assert [line.split()[:2] for line in str(plan).splitlines()[2:5]] == [["0", "1"], ["1", "3"], ["3", "9"]]


def test_a_search_that_cannot_work_is_refused() -> None:
    with pytest.raises(ResourceError):
        ASHA(max_resource=0)


@pytest.mark.parametrize(
    "scheduler", [ASHA(max_resource=27, variant="stopping"), ASHA(max_resource=27, finish_best=True)]
)
@pytest.mark.parametrize("size", [1, 2, 4, 9])
def test_what_one_trial_surely_trains_is_in_the_table_and_the_simulation(scheduler: ASHA, size: int) -> None:
    search = expected(scheduler, size, 3)
    plan = preview(scheduler, size, parallelism=3, cost=Cost(2.0), expected=search)
    assert search is not None
    assert plan.longest == 27
    assert dict(search.reached)[27] >= plan.rungs[-1].trials == 1
    assert (plan.seconds or 0.0) >= 2.0 * 27


def test_no_number_of_workers_shortens_a_search_below_its_longest_trial() -> None:
    plan = preview(ASHA(max_resource=10**6, variant="stopping"), 1_000, parallelism=1_000, cost=Cost(1.0))
    assert (plan.longest, plan.seconds) == (10**6, 1e6)


@pytest.mark.parametrize("part", [None, (100, 10)])
def test_a_simulated_time_is_never_less_than_the_longest_trial(part: tuple[int, int] | None) -> None:
    short = Expected(wall_s=20.0, trained=90, reached=((1, 64), (27, 0)), busy_share=0.5, part=part)
    timed, untimed = (preview(ASHA(max_resource=27), 64, cost=cost, expected=short) for cost in (Cost(2.0), None))
    assert timed.seconds == 54.0
    assert "1 worker: as fast as one worker" in str(untimed)


def test_a_searcher_with_fewer_proposals_is_named_in_the_preview() -> None:
    (note,) = notes_of(64, 3, 0, ASHA().begin())
    assert note == "The searcher has only 3 proposals: this is a search of 3 trials, not of 64."
    assert notes_of(2, 1, 0, ASHA().begin())[0].startswith(
        "The searcher has only 1 proposal: this is a search of 1 trial,"
    )
    assert f"note: {note}" in str(preview(ASHA(max_resource=3), 3, warnings=[note]))
    assert notes_of(3, 3, 0, ASHA().begin()) == []


def test_a_study_with_trials_is_told_what_a_run_would_add() -> None:
    halving = SHA(max_resource=9).begin()
    (more,) = notes_of(64, 64, 12, ASHA().begin())
    assert more.startswith("12 trials exist already; these figures are for the whole search from its beginning.")
    assert more.endswith("A run of 64 trials would add 52.")
    for size in (1, 12):
        (none,) = notes_of(size, size, 12, halving)
        assert none.endswith("would add 0: no new trial begins."), "and no bracket is opened for it"
    one, brackets = notes_of(2, 2, 1, halving)
    assert one.startswith("1 trial exists already")
    assert "additional trials of a later run open new brackets" in brackets


@pytest.mark.parametrize(
    ("num_trials", "proposals", "counted"), [(64, None, 64), (64, 20, 20), (None, 20, 20), (20, 64, 20), (20, 20, 20)]
)
def test_warnings_are_of_as_many_trials_as_there_will_be(
    num_trials: int | None, proposals: int | None, counted: int
) -> None:
    scheduler = ASHA(max_resource=81)
    assert warnings_of(scheduler, num_trials, proposals) == scheduler.warnings(counted)


def test_the_simulated_time_is_that_of_workers_that_wait_for_rungs() -> None:
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
    assert "2 workers: about 1.8 times faster than one worker" in plan


def test_delays_that_were_measured_are_part_of_the_simulated_time() -> None:
    quick, slow = (expected(FIFO(max_resource=3), 4, 1, Cost(1.0, Delays(setup_s=delay))) for delay in (0.0, 5.0))
    assert quick is not None
    assert slow is not None
    assert (quick.wall_s, slow.wall_s > 12.0) == (12.0, True)


@pytest.mark.parametrize(
    ("workers", "part"),
    first([(8, (2_507, 1)), (4, (5_000, 1)), (1_000, (4_994, 249)), (3, (5_000, 1))], 2),
)
def test_a_large_search_is_simulated_in_part_with_equal_trials_a_worker(
    workers: int, part: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("asyncsearch.report.what_if.expected._MOST_TRIALS", 5_000)
    search = expected(SHA(max_resource=9), 20_060, workers, Cost(2.0))
    ideal = preview(SHA(max_resource=9), 20_060, parallelism=workers, cost=Cost(2.0))
    assert search is not None
    assert ideal.total is not None
    assert ideal.seconds is not None
    assert search.part == part
    assert search.trained == pytest.approx(ideal.total, rel=0.002)
    assert dict(search.reached)[1] == 20_060
    assert 0.99 * ideal.seconds < search.wall_s < 1.3 * ideal.seconds, "whole rungs wait for their last trials"


def test_a_part_is_no_other_search_than_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = expected(ASHA(max_resource=27), 3_000, 6)
    monkeypatch.setattr("asyncsearch.report.what_if.expected._MOST_TRIALS", 1_000)
    part = expected(ASHA(max_resource=27), 3_000, 6)
    assert whole is not None
    assert part is not None
    assert (whole.part, part.part) == (None, (1_000, 2))
    assert part.wall_s == pytest.approx(whole.wall_s, rel=0.1)
    assert part.trained == pytest.approx(whole.trained, rel=0.1)
    plan = str(preview(ASHA(max_resource=27), 3_000, parallelism=6, expected=part))
    assert "simulated on 2 workers with 1,000 trials and scaled up to 6 workers, busy for" in plan


def test_reports_of_trials_that_never_pause_are_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsearch.report.what_if.expected._MOST_REPORTS", 20_000)
    search = expected(FIFO(max_resource=100), 1_000, 5)
    assert search is not None
    assert (search.part, search.trained, search.wall_s) == ((200, 1), 100_000, 20_000.0)


@pytest.mark.parametrize(
    ("scheduler", "why"),
    [
        (ASHA(), "its rungs go on with more trials"),
        (Hyperband(max_resource=3**10, variant="synchronous"), "its first bracket has more trials than the part"),
        (FIFO(max_resource=100_000), "the part would have two trials"),
    ],
)
def test_a_search_for_which_no_part_stands_is_reckoned_and_says_so(scheduler: Scheduler, why: str) -> None:
    assert expected(scheduler, 1_000_000, 4) is None, why
    plan = preview(scheduler, 1_000_000, parallelism=4, cost=Cost(1.0), expected=None)
    assert "not simulated, since the search is too large: the figures assume that each rung promotes" in " ".join(
        str(plan).split()
    )
    assert plan.seconds is not None


def test_what_trials_share_is_not_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsearch.report.what_if.expected._MOST_TRIALS", 200)
    space = Space.of({"lr": multistep(0.1, milestones=choice([3], [5]), gamma=choice(0.1, 0.5))})
    assert expected(ASHA(max_resource=9), 200, 2, space=space) is not None
    assert expected(ASHA(max_resource=9), 401, 2, space=space) is None
    assert expected(ASHA(max_resource=9), 401, 2) is not None


def test_sharing_is_named_where_it_is_counted() -> None:
    space = Space.of({"lr": multistep(0.1, milestones=choice([3], [5]), gamma=choice(0.1, 0.5))})
    config = EngineConfig(study="s", metric="loss", mode="min", share=True)
    search = expected(FIFO(max_resource=9), 4, 2, config=config, space=space, searcher=GridSearch())
    assert search is not None
    assert search.trained + search.shared == 4 * 9
    assert search.shared > 0
    text = " ".join(str(preview(FIFO(max_resource=9), 4, expected=search)).split())
    assert "its trials ask for 36 units, and what their schedules have in common is trained once" in text
    alone = expected(FIFO(max_resource=9), 4, 2)
    assert alone is not None
    assert "in common" not in str(preview(FIFO(max_resource=9), 4, expected=alone))


def test_a_population_is_simulated_as_far_as_its_turns_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asyncsearch.report.what_if.expected._MOST_BRANCHES", 1_000)
    space = Space.of({"x": uniform(0.0, 1.0)})
    search = expected(PBT(max_resource=9, perturbation_interval=1, population=10), 333, 3, space=space)
    assert search is not None
    assert search.part == (111, 1)
    larger = PBT(max_resource=9, perturbation_interval=1, population=300)
    assert expected(larger, 333, 3, space=space) is None, "the part is no population"


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


def test_without_max_resource_a_search_is_simulated_as_far_as_trials_climb() -> None:
    search = expected(ASHA(), 64, 2)
    assert search is not None
    assert [level for level, _ in search.reached][:4] == [1, 3, 9, 27]
    assert search.reached[-1][1] >= 1
    assert "less than" not in str(preview(ASHA(), 64, expected=search))


def test_trials_judged_before_their_end_are_stopped_in_the_simulation_too() -> None:
    search = expected(ASHA(max_resource=9, variant="stopping"), 27, 2)
    assert search is not None
    assert search.reached[0] == (1, 27)
    assert search.reached[-1][1] < 27

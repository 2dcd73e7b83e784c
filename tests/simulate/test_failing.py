"""Trials that fail as a workload says, stragglers, and work that is dropped by chance."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

import pytest

from asyncsearch.engine.invariants import check
from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import ASHA, FIFO, SHA
from asyncsearch.searchers import GridSearch
from asyncsearch.sequences import multistep
from asyncsearch.simulate import Chance, Curves, Delays, Faults, SimulationResult, TrainingModel, simulate
from asyncsearch.simulate.options import Draws
from asyncsearch.space import choice
from asyncsearch.trial import TrialState

ONE = TrialId(1)


class Failing(Curves):
    """Trials fail where ``where`` says."""

    def __init__(self, where: Mapping[int, tuple[int, float]], **options: Any) -> None:
        super().__init__(**options)
        self.where = where

    def fails_after(self, trial: TrialId) -> tuple[int, float] | None:
        return self.where.get(trial)


def search(where: Mapping[int, tuple[int, float]], **options: Any) -> SimulationResult:
    settings: dict[str, Any] = {"scheduler": FIFO(max_resource=5), "workers": 1, "num_trials": 3} | options
    result = simulate(Failing(where, seed=1), **settings)
    check(result.state)
    return result


def test_a_trial_fails_after_its_units_and_seconds_and_its_reports_count() -> None:
    result = search({ONE: (2, 0.5)})
    assert [(trial.state, trial.resource) for trial in result.trials] == [
        (TrialState.COMPLETED, 5),
        (TrialState.FAILED, 2),
        (TrialState.COMPLETED, 5),
    ]
    assert result.trials[1].value == Curves(seed=1).value(ONE, {}, 2)
    assert result.trials[1].reason == "it failed as the workload says"
    assert result.wall_s == result.busy_s == 5 + 2.5 + 5


def test_a_trial_that_reports_nothing_fails_after_its_seconds() -> None:
    result = search({ONE: (0, 0.25)}, delays=Delays(setup_s=1.0))
    assert (result.trials[1].state, result.trials[1].resource) == (TrialState.FAILED, 0)
    assert result.wall_s == 3 * 1.0 + 5 + 0.25 + 5


def test_a_trial_fails_each_time_that_it_is_tried() -> None:
    result = search({ONE: (2, 0.5)}, max_failures=2)
    assert (result.trials[1].state, result.trials[1].failures) == (TrialState.FAILED, 3)
    assert result.wall_s == 5 + 3 * 2.5 + 5


@pytest.mark.parametrize(
    ("failure", "state", "resource"),
    [
        ((1, 0.0), TrialState.FAILED, 1),
        ((1, 0.5), TrialState.FAILED, 1),
        ((3, 0.0), TrialState.FAILED, 3),
        ((9, 0.5), TrialState.COMPLETED, 9),
    ],
)
def test_only_without_seconds_it_fails_before_it_is_paused(
    failure: tuple[int, float], state: TrialState, resource: int
) -> None:
    best = search({}, scheduler=SHA(max_resource=9), num_trials=9).completed[0].trial
    result = search({best: failure}, scheduler=SHA(max_resource=9), num_trials=9)
    arrivals = [arrival.resource for arrival in result.arrivals if arrival.trial == best]
    assert (result.trials[best].state, result.trials[best].resource) == (state, resource)
    assert arrivals == [level for level in (1, 3, 9) if level < resource or (level == resource and failure[1])]


def test_a_trial_that_fails_at_its_rung_goes_no_further() -> None:
    whole = search({}, scheduler=ASHA(max_resource=9), num_trials=30)
    best = whole.completed[0].trial
    result = search({best: (1, 0.0)}, scheduler=ASHA(max_resource=9), num_trials=30)
    assert result.trials[best].state is TrialState.FAILED
    assert [arrival.resource for arrival in result.arrivals if arrival.trial == best] == [1], "it was promoted in place"
    assert result.trials[best].resource == 1
    assert len(result.completed) >= 1


@pytest.mark.parametrize("report_every", [None, 2, 7])
def test_with_fewer_reports_it_fails_at_the_same_time(report_every: int | None) -> None:
    options: dict[str, Any] = {
        "scheduler": ASHA(max_resource=27),
        "num_trials": 40,
        "workers": 3,
        "faults": Faults(chance=Chance(spread=0.4, drop=0.01)),
        "delays": Delays(message_s=0.01, setup_s=0.2),
    }
    where = {number: (number % 5, 0.3 * (number % 2)) for number in range(0, 40, 3)}
    fine, coarse = search(where, **options), search(where, training=TrainingModel(report_every=report_every), **options)
    states = [trial.state for trial in fine.trials]
    assert states == [trial.state for trial in coarse.trials]
    assert states.count(TrialState.FAILED) > 5
    assert coarse.wall_s == pytest.approx(fine.wall_s)


def test_stragglers_fail_later() -> None:
    stragglers = Faults(chance=Chance(spread=1.0))
    quick, slow = search({0: (0, 1.0)}, num_trials=1), search({0: (0, 1.0)}, num_trials=1, faults=stragglers)
    assert quick.wall_s == 1.0 < slow.wall_s


def test_shared_training_fails_for_each_trial_and_later_training_for_one() -> None:
    space = {"lr": multistep(0.1, milestones=choice([3], [5]), gamma=choice(0.1, 0.5))}
    options: dict[str, Any] = {"searcher": GridSearch(), "space": space, "num_trials": None}
    shared = search(dict.fromkeys(range(4), (2, 0.5)), **options)
    assert [trial.state for trial in shared.trials] == [TrialState.FAILED] * 4
    alone = search({0: (5, 0.5)}, scheduler=FIFO(max_resource=8), **options)  # 0 and 1 part at 5
    assert [trial.state for trial in alone.trials] == [TrialState.FAILED] + [TrialState.COMPLETED] * 3


LEASES = range(20_000)


def test_what_chance_brings_does_not_depend_on_the_order_of_asking() -> None:
    chance = Chance(spread=0.5, drop=0.01, seed=3)
    forth, back = Draws(chance), Draws(chance)
    leases = list(range(0, 5_000, 7))
    forwards = [(forth.slowness(lease), forth.lost_after_s(lease)) for lease in leases]
    backwards = [(back.slowness(lease), back.lost_after_s(lease)) for lease in reversed(leases)]
    assert forwards == backwards[::-1]


def test_no_draw_is_used_twice() -> None:
    # 1 + |z| and the time of a loss are both decreasing in what is drawn, so their ranks give twins away.
    draws = Draws(Chance(spread=1.0, drop=0.5))
    slow = [draws.slowness(lease) for lease in range(200)]
    lost = [draws.lost_after_s(lease) for lease in range(200)]
    after = sorted(range(1, 200), key=lambda lease: slow[lease])
    before = sorted(range(199), key=lambda lease: lost[lease])
    assert [lease - 1 for lease in after] != before


def test_another_seed_brings_something_else() -> None:
    first, second = (Draws(Chance(spread=0.5, seed=seed)).slowness(0) for seed in (1, 2))
    assert first != second


def test_slowness_is_one_plus_the_absolute_value_of_a_normal() -> None:
    draws = Draws(Chance(spread=0.56))
    drawn = [draws.slowness(lease) for lease in LEASES]
    assert min(drawn) >= 1
    assert statistics.fmean(drawn) == pytest.approx(1 + 0.56 * math.sqrt(2 / math.pi), abs=0.01)
    assert sum(x > 1 + 0.56 for x in drawn) / len(drawn) == pytest.approx(0.3173, abs=0.01)


def test_work_survives_each_second_with_one_minus_the_probability() -> None:
    draws = Draws(Chance(drop=0.01))
    lost = [draws.lost_after_s(lease) for lease in LEASES]
    for seconds in (1, 64, 256):
        assert sum(x > seconds for x in lost) / len(lost) == pytest.approx(0.99**seconds, abs=0.01)


def test_without_chance_nothing_is_slow_and_nothing_is_lost() -> None:
    draws = Draws(Chance())
    assert (draws.slowness(0), draws.lost_after_s(0)) == (1.0, math.inf)


@pytest.mark.parametrize("values", [{"spread": -0.1}, {"spread": math.inf}, {"drop": 1.0}, {"drop": -0.01}])
def test_what_is_no_chance_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(values))):
        Chance(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize("scheduler", [ASHA(max_resource=27), SHA(max_resource=27), FIFO(max_resource=9)])
def test_lost_work_is_trained_again_and_costs_no_trial(scheduler: ASHA | SHA | FIFO) -> None:
    result = simulate(
        Curves(seed=1),
        scheduler=scheduler,
        workers=4,
        num_trials=81,
        faults=Faults(chance=Chance(drop=0.05, spread=0.3), max_losses=10**6),
        delays=Delays(commit_s=0.2, message_s=0.05, detect_s=0.1),
    )
    check(result.state)
    assert result.is_complete
    assert sum(trial.losses for trial in result.trials) > 10
    passed = TrialState.STOPPED if isinstance(scheduler, SHA) else TrialState.PAUSED  # a decided bracket has losers
    assert {trial.state for trial in result.trials} <= {passed, TrialState.COMPLETED}


def test_work_that_is_lost_too_often_fails_its_trial() -> None:
    faults = Faults(chance=Chance(drop=0.1), max_losses=0)
    result = simulate(Curves(), scheduler=FIFO(max_resource=20), workers=4, num_trials=40, faults=faults)
    failed = [trial for trial in result.trials if trial.state is TrialState.FAILED]
    assert 20 < len(failed) < 40
    assert all("by chance" in trial.reason for trial in failed)


def test_lost_work_is_as_frequent_as_the_probability_says() -> None:
    faults = Faults(chance=Chance(drop=0.02), max_losses=0)
    result = simulate(Curves(), scheduler=FIFO(max_resource=10), workers=10, num_trials=2_000, faults=faults)
    failed = sum(trial.state is TrialState.FAILED for trial in result.trials)
    assert failed / 2_000 == pytest.approx(1 - 0.98**10, abs=0.025)

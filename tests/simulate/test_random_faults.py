"""Stragglers and lost work: what chance brings to a lease is a function of its number."""

from __future__ import annotations

import math
import statistics

import pytest

from asyncsearch.engine.invariants import check
from asyncsearch.errors import UsageError
from asyncsearch.schedulers import ASHA, FIFO, SHA
from asyncsearch.simulate import Chance, Curves, Delays, Faults, simulate
from asyncsearch.simulate.options import Draws
from asyncsearch.trial import TrialState

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
    assert {trial.state for trial in result.trials} <= {TrialState.PAUSED, TrialState.COMPLETED}


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

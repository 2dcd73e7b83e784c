"""The schedulers of Ray's names decide as Ray's do, result by result, over random searches."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from asyncsearch.ids import TrialId
from asyncsearch.ray.milestones import RayASHA
from asyncsearch.ray.population import ComparedTrial, PopulationBasedTraining, TrialPopulation
from asyncsearch.ray.scheduling import AsyncHyperBandScheduler, HyperBandScheduler, MedianStoppingRule
from asyncsearch.ray.stopping import RayASHAState
from asyncsearch.schedulers.base_scheduler import Scheduler, SchedulerState
from asyncsearch.schedulers.rungs import Rung
from asyncsearch.testing import SchedulerConformance
from tests.ray.rules_of_ray import AshaOfRay, MedianOfRay, PopulationOfRay


class TestRayASHA(SchedulerConformance):
    orders = 2

    def make(self) -> Scheduler:
        return AsyncHyperBandScheduler(max_t=9, reduction_factor=1.5, brackets=2).rule()


class TestRayHyperBand(SchedulerConformance):
    orders = 2

    def make(self) -> Scheduler:
        return HyperBandScheduler(max_t=10, reduction_factor=3).rule()


def results(source: random.Random, trials: int, longest: int, *, skips: bool = False) -> Iterator[tuple[Any, ...]]:
    """Yield (trials that go on, trial, time, score) in a random order; who stops a trial takes it from the first."""
    live = dict.fromkeys(range(trials), 0)
    while live:
        trial = source.choice(sorted(live))
        live[trial] += source.choice([1, 1, 3, 7]) if skips else 1
        yield live, trial, live[trial], source.choice([source.random(), float(source.randrange(4))])
        if live.get(trial, 0) >= longest:
            del live[trial]


def differences(state: SchedulerState, stops: Callable[[int, float, float], bool], plays: Any) -> list[Any]:
    """Return the results on which a rule of ours and the other one differ; asked where it says that it judges."""
    for number in range(12):
        state.created(TrialId(number), {})
    found: list[Any] = []
    due = {trial: state.judged_next(TrialId(trial), 0) for trial in range(12)}
    for live, trial, time, score in plays:
        one = TrialId(trial)
        end, place = state.first_target(one), due[trial]
        is_over = end is not None and time >= end
        state.reported(one, time if end is None else min(time, end), -score)
        is_asked = place is not None and time >= place
        is_stopped = is_over or (state.judge(one, time) is not None if is_asked else False)
        if not is_asked and not is_over and state.judge(one, time) is not None:
            found.append(("unasked", trial, time))
        due[trial] = state.judged_next(one, time) if not is_over else None
        if is_stopped != stops(trial, time, score):
            found.append((trial, time, score, is_stopped))
        if is_stopped:
            state.stopped(one, time, -score)
            live.pop(trial)
    return found


@pytest.mark.parametrize("stop_last", [True, False])
@pytest.mark.parametrize("factor", [1.2, 1.5, 2, 3, 4])
def test_a_trial_stops_where_rays_asha_stops_it(factor: float, stop_last: bool) -> None:
    source = random.Random(int(factor * 10))
    for max_t, grace in ((9, 1), (27, 1), (30, 3), (10, 10), (24, 2)):
        state = RayASHA(max_t=max_t, grace_period=grace, reduction_factor=factor, stop_last_trials=stop_last).begin()
        other = AshaOfRay(max_t, grace, factor, stop_last=stop_last)
        assert differences(state, other.stops, results(source, 12, 40, skips=grace > 1)) == []


@pytest.mark.parametrize("samples", [1, 2, 3, 5])
@pytest.mark.parametrize("grace", [0, 1, 2.5, 5])
def test_a_trial_stops_where_rays_median_rule_stops_it(grace: float, samples: int) -> None:
    rules = MedianStoppingRule("training_iteration", grace_period=grace, min_samples_required=samples)
    for seed in range(6):
        plays = results(random.Random(seed), 12, 15)
        assert differences(rules.rule().begin(), MedianOfRay(grace, samples).stops, plays) == []


def test_trials_fill_the_brackets_of_hyperband_in_rays_order() -> None:
    # Of Ray: 5 brackets for 81 by 3, with ceil(5 / (s + 1) * 3**s) trials, halved from 81 / 3**s on.
    rule = HyperBandScheduler(max_t=81, reduction_factor=3).rule()
    assert [(one.trials, one.times) for one in rule.brackets] == [  # type: ignore[attr-defined]
        (5, (81,)),
        (8, (27, 81)),
        (15, (9, 27, 81)),
        (34, (3, 9, 27, 81)),
        (81, (1, 3, 9, 27, 81)),
    ]
    state = rule.begin()
    firsts = [state.judged_next(TrialId(trial), 0) for trial in range(144)]
    assert firsts == [None] * 5 + [27] * 8 + [9] * 15 + [3] * 34 + [1] * 81 + [None]


def test_a_bracket_that_ends_before_max_t_ends_its_trials_there() -> None:
    state = HyperBandScheduler(max_t=100, reduction_factor=3).rule().begin()
    last = TrialId(5 + 8 + 15)  # of the bracket 3, 9, 27, 81
    state.created(last, {})
    for at in (3, 9, 27):
        state.reported(last, at, 1.0)
        assert state.judge(last, at) is None
    assert state.judged_next(last, 27) == 81
    state.reported(last, 81, 1.0)
    assert "its bracket ends" in (state.judge(last, 81) or "")


def test_a_value_that_is_not_finite_stops_its_trial_at_a_milestone() -> None:
    state = AsyncHyperBandScheduler(max_t=9, reduction_factor=3).rule().begin()
    state.created(TrialId(0), {})
    state.reported(TrialId(0), 1, None)
    assert "not finite" in (state.judge(TrialId(0), 1) or "")


def test_ranks_that_an_earlier_version_kept_count_on() -> None:
    rungs = [Rung() for _ in range(3)]
    for trial, score in enumerate((3.0, 1.0, 2.0)):
        rungs[0].insert(TrialId(trial), score)
    earlier = {
        "progress": {"trials": [0, 1, 2], "marks": [2 | 0x80, 2, 2], "values": [3.0, 1.0, 2.0]},
        "rungs": [rung.snapshot() for rung in rungs],
        "crossings": [],
        "with_value": [1, 2],
    }
    state = AsyncHyperBandScheduler(max_t=9, reduction_factor=3).rule().begin()
    assert isinstance(state, RayASHAState)
    state.restore({"brackets": [earlier]})
    kept = state.snapshot()
    assert kept["milestones"][0][-1] == {"level": 1, "rewards": [-3.0, -2.0, -1.0], "trials": [0, 1, 2]}
    assert kept["live"] == [[1], [2]]
    state.created(TrialId(3), {})
    state.reported(TrialId(3), 1, 2.5)
    assert state.judge(TrialId(3), 1) is not None


@pytest.mark.parametrize("quantile", [0.0, 0.1, 0.25, 0.5])
@pytest.mark.parametrize(("interval", "burn_in"), [(1, 0), (2, 5), (3, 4)])
def test_a_population_compares_as_rays_does(interval: int, burn_in: int, quantile: float) -> None:
    rules = PopulationBasedTraining(
        mode="max",
        time_attr="training_iteration",
        perturbation_interval=interval,
        burn_in_period=burn_in,
        quantile_fraction=quantile,
        hyperparam_mutations={"x": [1.0, 2.0]},
    )
    for seed in range(8):
        population, other = TrialPopulation(rules, seed), PopulationOfRay(interval, burn_in, quantile)
        for number in range(8):
            population.members[number] = ComparedTrial({"x": 1.0})
        saved: dict[int, int] = {}
        for live, trial, time, score in itertools.islice(results(random.Random(seed), 8, 10**9), 300):
            wanted = other.compared(trial, time, score)
            assert population.is_due(trial, time) == (wanted is not None)
            if wanted is None:
                continue
            saved[trial] = time
            exploit = population.compare(trial, time, score, (trial, time))
            if exploit is None:  # the donor that was drawn may have saved nothing
                assert not wanted or not all(map(other.has_saved, wanted))
                continue
            assert exploit.member in wanted
            assert other.has_saved(exploit.member)
            other.take_over(trial, exploit.member)
            population.members[trial].since = exploit.since
            assert exploit.iteration == saved[exploit.member]
            live[trial] = exploit.iteration  # Ray goes on with the iterations of the checkpoint

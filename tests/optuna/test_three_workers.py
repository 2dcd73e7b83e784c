"""What a program does to its study besides ``optimize`` holds with three workers, by an oracle of its own."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import optuna
import pytest

import asyncsearch.optuna as ours
from tests.shares import takes_long

COMPLETE, RUNNING = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.RUNNING


@pytest.fixture(autouse=True)
def _workers(quiet: None) -> None:
    ours.workers(3, backend="processes", display="none")


def total(x: float, n: int) -> float:
    return (x - 0.5) ** 2 + n


def summed(trial: Any) -> float:
    x, n = trial.suggest_float("x", 0, 1), trial.suggest_int("n", 1, 3)
    if trial.number == 7:
        trial.study.enqueue_trial({"x": 0.875, "n": 3}, user_attrs={"by": 7})
    return total(x, n)


@takes_long
def test_enqueued_added_and_asked_trials_keep_their_places() -> None:
    study = ours.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    distributions: Any = {"x": optuna.distributions.FloatDistribution(0, 1)}
    study.add_trials([optuna.create_trial(params={"x": x}, distributions=distributions, value=9.0) for x in (0.1, 0.2)])
    asked, open_one = study.ask(), study.ask()
    study.tell(asked, 7.0)
    queue: list[dict[str, Any]] = [{"x": 0.25}, {"n": 2}, {"x": 0.75, "n": 1}, {"x": 0.125, "n": 3}]
    for params in queue:
        study.enqueue_trial(params)
    study.enqueue_trial({"x": 0.25}, skip_if_exists=True)
    study.optimize(summed, n_trials=12)
    trials = study.trials
    assert [trial.number for trial in trials] == list(range(16))
    assert [trial.params for trial in trials[:2]] == [{"x": 0.1}, {"x": 0.2}]
    assert (trials[2].value, trials[3].state) == (7.0, RUNNING), "what the program has asked for is its own"
    for trial, params in zip(trials[4:8], queue, strict=True):
        assert trial.params.items() >= params.items()
    (late,) = [trial for trial in trials if trial.user_attrs == {"by": 7}]
    assert late.params == {"x": 0.875, "n": 3}
    assert late.number > 7
    for trial in trials[4:]:
        assert trial.state is COMPLETE
        assert trial.value == total(**trial.params)
    assert study.best_value == min(trial.value for trial in trials if trial.value is not None)
    study.tell(open_one, 0.5)
    again = study.ask()
    study.tell(again, 0.25)
    assert (again.number, study.best_value) == (16, 0.25)


def two_values(trial: Any) -> tuple[float, float]:
    x, y = trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
    with pytest.raises(NotImplementedError):
        trial.report(x, 0)
    trial.set_user_attr("excess", x + y - 1)
    return x, 1 - x * y


def dominates(one: Any, other: Any) -> bool:
    is_as_good = one.values[0] <= other.values[0] and one.values[1] >= other.values[1]
    return bool(is_as_good and one.values != other.values)


@takes_long
def test_several_objectives_and_constraints_are_those_of_optuna() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.NSGAIISampler(
            population_size=6, seed=1, constraints_func=lambda trial: (trial.user_attrs["excess"],)
        )
        study = ours.create_study(directions=["minimize", "maximize"], sampler=sampler)
        study.optimize(two_values, n_trials=24)
    trials = study.trials
    assert all(trial.state is COMPLETE for trial in trials)
    for trial in trials:
        x, y = trial.params["x"], trial.params["y"]
        assert trial.values == [x, 1 - x * y]
        assert trial.system_attrs["constraints"] == (x + y - 1,) or trial.system_attrs["constraints"] == [x + y - 1]
    feasible = [trial for trial in trials if trial.user_attrs["excess"] <= 0]
    front = {one.number for one in feasible if not any(dominates(other, one) for other in feasible if other is not one)}
    assert {trial.number for trial in study.best_trials} == front
    generations = {number: list(some) for number, some in itertools.groupby(sorted(map(generation, trials)))}
    assert len(generations) > 2, "the sampler has bred from what the workers told"


def generation(trial: Any) -> int:
    return max((int(value) for name, value in trial.system_attrs.items() if name.endswith("generation")), default=0)

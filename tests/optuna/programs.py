"""Programs of Optuna, as people write them: each takes the module ``optuna``, and returns the studies that it made.

They have local data only, and a few trials each, so that Optuna's own run and ours can be compared trial by trial.
"""

from __future__ import annotations

import functools
import itertools
import math
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Program = Callable[[Any, Path], list[Any]]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


_GENERATOR = np.random.default_rng(5)
X = _GENERATOR.normal(size=(80, 3))
Y = (X @ np.array([1.0, -2.0, 0.5]) + 0.1 * _GENERATOR.normal(size=80) > 0).astype(float)


class LogisticRegression:
    """A classifier by gradient steps."""

    def __init__(self, rate: float, decay: float) -> None:
        self.rate, self.decay, self.weights = rate, decay, np.zeros(3)

    def step(self) -> float:
        chances = 1 / (1 + np.exp(-X @ self.weights))
        self.weights -= self.rate * (X.T @ (chances - Y) / len(Y) + self.decay * self.weights)
        margins = np.where(Y > 0, 1, -1) * (X @ self.weights)
        return -float(np.mean(np.log1p(np.exp(-margins))))


@program
def spaces_under_if_and_in_loops(optuna: Any, folder: Path) -> list[Any]:
    def objective(trial: Any) -> float:
        kind = trial.suggest_categorical("kind", ["linear", "layers", None])
        total = trial.suggest_float("offset", -1, 1)
        if kind == "layers":
            for layer in range(trial.suggest_int("layers", 1, 3)):
                total += trial.suggest_int(f"width_{layer}", 4, 64, log=True) / 64
        elif kind == "linear":
            total += trial.suggest_float("rate", 1e-5, 1e-1, log=True) + trial.suggest_float("step", 0, 1, step=0.25)
        assert trial.suggest_float("offset", -1, 1) == trial.params["offset"]
        return float(total**2)

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1, n_startup_trials=4))
    study.optimize(objective, n_trials=14)
    return [study]


@program
def pruned_by_the_median(optuna: Any, folder: Path) -> list[Any]:
    def objective(trial: Any) -> float:
        net = LogisticRegression(trial.suggest_float("rate", 1e-4, 10, log=True), trial.suggest_float("decay", 0, 1))
        score = 0.0
        for step in range(6):
            score = net.step()
            trial.report(score, step)
            if trial.should_prune():
                raise optuna.TrialPruned(f"at {step}")
        trial.set_user_attr("weights", [round(weight, 6) for weight in net.weights.tolist()])
        return score

    pruner = optuna.pruners.MedianPruner(n_startup_trials=3, n_warmup_steps=1)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=2), pruner=pruner)
    study.optimize(objective, n_trials=12)
    assert {trial.state.name for trial in study.trials} == {"COMPLETE", "PRUNED"}
    return [study]


@program
def brackets_of_hyperband(optuna: Any, folder: Path) -> list[Any]:
    def objective(trial: Any) -> float:
        net = LogisticRegression(trial.suggest_float("rate", 1e-4, 10, log=True), 0.0)
        for step in range(9):
            trial.report(net.step(), step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return net.step()

    study = optuna.create_study(
        study_name="brackets",
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=3),
        pruner=optuna.pruners.HyperbandPruner(min_resource=1, max_resource=9, reduction_factor=3),
    )
    study.optimize(objective, n_trials=10)
    return [study]


def rosenbrock(trial: Any, size: int) -> float:
    values = [trial.suggest_float(f"x{place}", -2, 2) for place in range(size)]
    return float(sum(100 * (b - a**2) ** 2 + (1 - a) ** 2 for a, b in itertools.pairwise(values)))


@program
def several_studies_by_a_partial(optuna: Any, folder: Path) -> list[Any]:
    """CMA-ES, Sobol points, a Gaussian process and random points, one after another."""
    samplers = [
        optuna.samplers.CmaEsSampler(seed=4, n_startup_trials=2),
        optuna.samplers.QMCSampler(seed=4, warn_asynchronous_seeding=False),
        optuna.samplers.GPSampler(seed=4, n_startup_trials=3),
        optuna.samplers.RandomSampler(seed=4),
    ]
    studies = []
    for sampler in samplers:
        study = optuna.create_study(sampler=sampler)
        study.optimize(functools.partial(rosenbrock, size=2), n_trials=8)
        studies.append(study)
    return studies


@program
def every_point_of_a_grid(optuna: Any, folder: Path) -> list[Any]:
    grid = {"depth": [1, 2, 3], "kind": ["a", "b"]}
    study = optuna.create_study(sampler=optuna.samplers.GridSampler(grid, seed=5))
    study.optimize(
        lambda trial: trial.suggest_int("depth", 1, 3) + (trial.suggest_categorical("kind", ["a", "b"]) == "a")
    )
    assert len(study.trials) == 6
    return [study]


@program
def two_objectives_with_constraints(optuna: Any, folder: Path) -> list[Any]:
    def objective(trial: Any) -> tuple[float, float]:
        x, y = trial.suggest_float("x", 0, 5), trial.suggest_float("y", 0, 3)
        trial.set_user_attr("beyond", (x - 5) ** 2 + y**2 - 25)
        return 4 * x**2 + 4 * y**2, (x - 5) ** 2 + (y - 5) ** 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.NSGAIISampler(
            seed=6, population_size=4, constraints_func=lambda trial: (trial.user_attrs["beyond"],)
        )
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    study.optimize(objective, n_trials=12)
    assert study.best_trials
    return [study]


@program
def queued_and_added_trials(optuna: Any, folder: Path) -> list[Any]:
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=7))
    study.add_trial(
        optuna.create_trial(
            params={"x": 0.5}, distributions={"x": optuna.distributions.FloatDistribution(-2, 2)}, value=0.3
        )
    )
    study.enqueue_trial({"x": 1.25, "y": 2}, user_attrs={"from": "a guess"})
    study.enqueue_trial({"x": -1.5})
    study.optimize(lambda trial: trial.suggest_float("x", -2, 2) ** 2 + trial.suggest_int("y", 0, 3), n_trials=5)
    assert [trial.params["x"] for trial in study.trials[:3]] == [0.5, 1.25, -1.5]
    return [study]


@program
def random_draws_that_are_not_the_same_in_each_trial(optuna: Any, folder: Path) -> list[Any]:
    def objective(trial: Any) -> float:
        total = trial.suggest_float("a", 0, 1) + trial.suggest_int("fixed", 3, 3)
        if total > 3.4:
            total += trial.suggest_float("b", 0, 1)
        if trial.number % 3 == 1:
            trial.report(total, 0)
            return float(total)
        return float(
            total + len(trial.suggest_categorical("kind", ["x", "y"])) + trial.suggest_int("c", 0, trial.number)
        )

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=17))
    study.optimize(objective, n_trials=14)
    return [study]


class StopsWhenFlat:
    """A callback with a state of its own."""

    def __init__(self, patience: int) -> None:
        self.patience, self.seen = patience, [0]

    def __call__(self, study: Any, trial: Any) -> None:
        self.seen.append(trial.number)
        study.set_user_attr("seen", list(self.seen))
        if trial.number - study.best_trial.number >= self.patience:
            study.stop()


@program
def callbacks_that_stop(optuna: Any, folder: Path) -> list[Any]:
    stops = StopsWhenFlat(3)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=8))
    study.set_metric_names(["distance"])
    study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=50, callbacks=[stops])
    assert study.user_attrs["seen"] == stops.seen
    other = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=8))
    stop = optuna.study.MaxTrialsCallback(4, states=(optuna.trial.TrialState.COMPLETE,))
    other.optimize(lambda trial: trial.suggest_float("x", -1, 1), n_trials=50, callbacks=[stop])
    assert len(other.trials) == 4
    return [study, other]


class DivergedError(ValueError):
    """An error of the program's own."""


@program
def failures_and_odd_values(optuna: Any, folder: Path) -> list[Any]:
    def objective(trial: Any) -> Any:
        trial.suggest_float("x", 0, 1)
        trial.set_user_attr("seen", True)
        match trial.number:
            case 0:
                return None
            case 1:
                return float("nan")
            case 2:
                return math.inf
            case 3:
                raise DivergedError("too large")
            case 4:
                raise optuna.TrialPruned
            case 5:
                trial.report(math.nan, 0)
                raise optuna.TrialPruned
            case 6:
                return "many"
            case 7:
                return [0.5]
            case 8:
                return (0.5, 1.0)
            case _:
                return np.float32(0.25)

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=9))
    study.optimize(objective, n_trials=10, catch=(ValueError,))
    states = [trial.state.name[0] for trial in study.trials]
    assert "".join(states) == "FFCFPPFCFC"
    return [study]


@program
def a_database_and_a_second_call(optuna: Any, folder: Path) -> list[Any]:
    url = f"sqlite:///{folder}/trials.db"
    for seed in (10, 11):
        study = optuna.create_study(
            study_name="kept", storage=url, load_if_exists=True, sampler=optuna.samplers.TPESampler(seed=seed)
        )
        study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=3)
        study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=2)
    return [optuna.load_study(study_name="kept", storage=url)]


@program
def asked_and_told(optuna: Any, folder: Path) -> list[Any]:
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=12))
    for _ in range(4):
        trial = study.ask()
        study.tell(trial, trial.suggest_float("x", -1, 1) ** 2)
    study.optimize(lambda trial: trial.suggest_float("x", -1, 1) ** 2, n_trials=3)
    return [study]


def relu(value: float) -> float:
    return max(value, 0.0)


@program
def objects_as_choices(optuna: Any, folder: Path) -> list[Any]:
    shapes = [(8,), (16, 8), None]

    def objective(trial: Any) -> float:
        shape = trial.suggest_categorical("shape", shapes)
        activation = trial.suggest_categorical("activation", [relu, math.tanh])
        assert shape is None or isinstance(shape, tuple)
        trial.set_user_attr("shape", shape)
        trial.set_user_attr("net", LogisticRegression(0.5, 0.25).rate)
        return float(activation(len(shape or ())) + trial.suggest_float("x", 0, 1))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=13))
        study.optimize(objective, n_trials=8)
    assert study.best_params["shape"] in shapes
    assert study.best_params["activation"] in (relu, math.tanh)
    return [study]


class Objective:
    """An objective with its data, whose methods of old are still there."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __call__(self, trial: Any) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rate = trial.suggest_loguniform("rate", 1e-4, 1)
            share = trial.suggest_discrete_uniform("share", 0, 1, 0.5)
            offset = trial.suggest_uniform("offset", -1, 1)
        ours = getattr(trial, "suggest_" + "int")("power", 1, 2)
        return float(np.abs(self.data.mean() - offset) ** ours + rate + share)


@program
def the_best_trial_once_more(optuna: Any, folder: Path) -> list[Any]:
    objective = Objective(X)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=14))
    study.optimize(objective, n_trials=5, gc_after_trial=True, n_jobs=1)
    assert objective(study.best_trial) == study.best_value
    assert objective(optuna.trial.FixedTrial(study.best_params)) == study.best_value
    copied = pickle.loads(pickle.dumps(study))
    assert copied.best_params == study.best_params
    assert len(study.trials_dataframe()) == 5
    return [study, copied]


@program
def a_look_at_the_study_in_the_objective(optuna: Any, folder: Path) -> list[Any]:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=15), direction="maximize")

    def objective(trial: Any) -> float:
        x = trial.suggest_int("x", 0, 4)
        known = trial.study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        for earlier in known:
            if earlier.params == trial.params:
                raise optuna.TrialPruned("known")
        assert study.direction is trial.study.direction
        assert len(study.trials) == trial.number + 1
        if len(known) == 2:
            trial.study.set_user_attr("two", [t.number for t in known])
            study.enqueue_trial({"x": 4})
        if known and trial.study.best_value == 4:
            trial.study.stop()
        return float(x)

    study.optimize(objective, n_trials=40)
    return [study]


@program
def libraries_ask_for_more(optuna: Any, folder: Path) -> list[Any]:
    import copy

    from optuna.trial import Trial

    def objective(trial: Any) -> float:
        assert isinstance(trial, Trial)
        x = trial._suggest("x", optuna.distributions.IntDistribution(0, 9))
        assert trial.distributions == {"x": optuna.distributions.IntDistribution(0, 9)}
        assert trial.datetime_start is not None
        assert copy.deepcopy(trial).params == {"x": x}
        assert trial.study._storage.get_trial(trial._trial_id).params == {"x": x}
        assert trial.storage.get_trial_number_from_id(trial._trial_id) == trial.number
        trial.storage.set_trial_system_attr(trial._trial_id, "library:mark", [x])
        return float(x)

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=16), pruner=optuna.pruners.NopPruner())
    study.optimize(objective, n_trials=3)
    return [study]

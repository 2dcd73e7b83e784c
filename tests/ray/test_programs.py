"""Programs of Ray Tune as people write them, of each age of its interface, with local data and few trials."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncsearch.ray as ours
from asyncsearch.study.study import Study

_GENERATOR = np.random.default_rng(5)
X = _GENERATOR.normal(size=(60, 3))
Y = (X @ np.array([1.0, -2.0, 0.5]) > 0).astype(float)


class Classifier:
    """Logistic regression by gradient steps."""

    def __init__(self, weights: Any = (0, 0, 0)) -> None:
        self.weights = np.asarray(weights, float)

    def step(self, rate: float) -> float:
        chances = 1 / (1 + np.exp(-X @ self.weights))
        self.weights -= rate * X.T @ (chances - Y) / len(Y)
        margins = np.where(Y > 0, 1, -1) * (X @ self.weights)
        return float(np.mean(np.log1p(np.exp(-margins))))


def test_a_tuner_with_asha_runs_in_worker_processes(tune: Any, tmp_path: Path) -> None:
    from ray.tune import CheckpointConfig
    from ray.tune.schedulers import ASHAScheduler

    def train(config: dict[str, Any], scale: float) -> None:
        import os
        import tempfile

        from ray import train as air
        from ray.tune import Checkpoint

        Path("mine.txt").write_text(air.get_context().get_trial_id())
        net = Classifier()
        for epoch in range(9):
            loss = net.step(config["opt"]["lr"] * scale)
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, "weights.json").write_text(json.dumps(net.weights.tolist()))
                air.report(
                    {"loss": loss, "more": {"epoch": epoch}, "pid": os.getpid(), "text": "dropped"},
                    checkpoint=Checkpoint.from_directory(folder),
                )

    ours.workers(2, backend="processes", display="none")
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(train, scale=1.0), {"cpu": 1}),
        param_space={"opt": {"lr": tune.loguniform(1e-3, 10)}, "act": tune.choice([np.tanh, "relu"])},
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=6,
            scheduler=ASHAScheduler(max_t=9, grace_period=1, reduction_factor=3),
        ),
        run_config=tune.RunConfig(
            name="asha",
            storage_path=str(tmp_path),
            checkpoint_config=CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="min-loss"),
        ),
    )
    results = tuner.fit()
    assert len(results) == 6
    assert results.num_errors == 0
    frame = results.get_dataframe()
    assert set(frame["training_iteration"]) == {1, 9} or set(frame["training_iteration"]) == {1, 3, 9}
    assert {"config/opt/lr", "more/epoch", "loss"} <= set(frame.columns)
    assert os.getpid() not in set(frame["pid"])
    best = results.get_best_result()
    assert best.metrics["loss"] == min(frame["loss"])
    assert list(best.metrics_dataframe["training_iteration"]) == list(range(1, 10))
    assert Path(best.path, "mine.txt").read_text() == best.metrics["trial_id"]
    assert len(best.best_checkpoints) == 2
    with best.checkpoint.as_directory() as folder:
        weights = json.loads(Path(folder, "weights.json").read_text())
    assert Classifier(weights).step(0.0) == best.metrics["loss"]
    assert "rank" in Study.open(results.study.store).explain(_stopped(frame))


def _stopped(frame: Any) -> str:
    return str(frame[frame["training_iteration"] == 1]["trial_id"].iloc[0])


def test_tune_run_of_former_years_trains_a_class(tune: Any, tmp_path: Path) -> None:
    import ray
    from ray.tune import CLIReporter

    ray.init(num_cpus=2, ignore_reinit_error=True)
    data = ray.put(np.arange(3))

    class Regression(tune.Trainable):  # type: ignore[misc]
        def setup(self, config: dict[str, Any]) -> None:
            self.net = Classifier()
            assert ray.get(config["data"]).tolist() == [0, 1, 2]
            config["data"] = None  # a trial may change its own

        def step(self) -> dict[str, Any]:
            return {"loss": self.net.step(self.config["lr"]), "done": self.iteration == 4}

        def save_checkpoint(self, checkpoint_dir: str) -> str:
            path = os.path.join(checkpoint_dir, "weights.npy")
            np.save(path, self.net.weights)
            return path

        def load_checkpoint(self, path: str) -> None:
            self.net.weights = np.load(path)

    analysis = tune.run(
        Regression,
        name="class",
        local_dir=str(tmp_path),
        config={"lr": tune.grid_search([0.1, 1.0, 3.0]), "data": data},
        stop={"loss": 100, "training_iteration": 8},
        checkpoint_freq=2,
        checkpoint_at_end=True,
        keep_checkpoints_num=2,
        checkpoint_score_attr="min-loss",
        progress_reporter=CLIReporter(metric_columns=["loss"]),
        resources_per_trial={"cpu": 1},
        verbose=1,
    )
    assert [trial.last_result["training_iteration"] for trial in analysis.trials] == [5, 5, 5]
    best = analysis.get_best_trial("loss", "min", "last")
    assert best.config["lr"] == analysis.get_best_config("loss", "min")["lr"] == 3.0
    found = analysis.get_best_checkpoint(best, "loss", "min")
    fresh = Regression(dict(best.config))
    fresh.restore(found)
    assert fresh.net.step(0.0) == best.last_result["loss"]
    assert len(analysis.get_trial_checkpoints_paths(best, "loss")) == 2
    assert ray.is_initialized()
    ray.shutdown()


def test_a_population_goes_on_from_the_checkpoints_of_its_best(tune: Any, tmp_path: Path) -> None:
    from ray.air import session
    from ray.air.checkpoint import Checkpoint
    from ray.tune.schedulers import PopulationBasedTraining

    def train(config: dict[str, Any]) -> None:
        net, start = Classifier(), session.get_checkpoint()
        if start:
            net = Classifier(start.to_dict()["weights"])
        while True:
            loss = net.step(config["lr"])
            session.report({"loss": loss}, checkpoint=Checkpoint.from_dict({"weights": net.weights}))

    seen: list[str] = []

    class Notes(tune.Callback):  # type: ignore[misc]
        def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
            seen.append(f"{trial.trial_id} {result['training_iteration']}")

        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            seen.append(f"{trial.trial_id} ended")

    results = tune.Tuner(
        train,
        param_space={"lr": tune.grid_search([3.0, 1.0, 0.1, 1e-4])},
        tune_config=tune.TuneConfig(
            scheduler=PopulationBasedTraining(
                time_attr="training_iteration",
                metric="loss",
                mode="min",
                perturbation_interval=2,
                hyperparam_mutations={"lr": [1e-4, 0.1, 1.0, 3.0]},
            ),
        ),
        run_config=tune.RunConfig(
            name="pbt", storage_path=str(tmp_path), stop={"training_iteration": 6}, callbacks=[Notes()]
        ),
    ).fit()
    assert {result.metrics["training_iteration"] for result in results} == {6}
    assert results[3].config["lr"] != 1e-4
    losses = results[3].metrics_dataframe["loss"]
    assert losses[2] < losses[1] - 0.1
    assert seen.count("trial-3 ended") == 1
    assert len(seen) == 4 * 7


def test_optuna_proposes_until_a_stopper_ends_the_search(tune: Any, tmp_path: Path) -> None:
    from ray.tune.search import ConcurrencyLimiter
    from ray.tune.search.optuna import OptunaSearch
    from ray.tune.stopper import CombinedStopper, FunctionStopper, MaximumIterationStopper

    def objective(config: dict[str, Any]) -> Any:
        for step in range(1, 9):
            yield {"score": (config["x"] - 2) ** 2 + 1 / step, "kind": len(config["kind"])}

    results = tune.Tuner(
        objective,
        param_space={"x": tune.uniform(-5, 5), "kind": tune.choice([("a",), ("a", "b")]), "fixed": object},
        tune_config=tune.TuneConfig(
            metric="score",
            mode="min",
            search_alg=ConcurrencyLimiter(OptunaSearch(points_to_evaluate=[{"x": 2.0}]), max_concurrent=1),
            num_samples=5,
        ),
        run_config=tune.RunConfig(
            name="optuna",
            storage_path=str(tmp_path),
            stop=CombinedStopper(MaximumIterationStopper(4), FunctionStopper(lambda _, result: result["score"] > 30)),
        ),
    ).fit()
    assert results[0].config["x"] == 2.0
    assert {result.metrics["training_iteration"] for result in results} <= {1, 4}
    best = results.get_best_result()
    assert best.config["fixed"] is object
    assert best.config["kind"] in (("a",), ("a", "b"))
    assert results.get_best_result(metric="score", mode="max", scope="all").metrics["score"] >= best.metrics["score"]


def test_a_conditional_space_of_hyperopt_is_searched(tune: Any, tmp_path: Path) -> None:
    hp = pytest.importorskip("hyperopt").hp
    from ray.tune.schedulers import AsyncHyperBandScheduler
    from ray.tune.suggest import ConcurrencyLimiter
    from ray.tune.suggest.hyperopt import HyperOptSearch

    def train(config: dict[str, Any], checkpoint_dir: str | None = None) -> None:
        assert checkpoint_dir is None
        penalty = config["kind"]
        net = Classifier()
        for step in range(config["steps"]):
            loss = net.step(config["lr"]) + (penalty["weight"] if isinstance(penalty, dict) else 0)
            with tune.checkpoint_dir(step) as folder:
                Path(folder, "step").write_text(str(step))
            tune.report(iterations=step, mean_loss=loss)

    space = {
        "lr": hp.loguniform("lr", -3, 1),
        "kind": hp.choice("kind", [{"weight": hp.uniform("weight", 0, 1)}, "none"]),
    }
    algorithm = HyperOptSearch(space, metric="mean_loss", mode="min", points_to_evaluate=[{"lr": 0.5, "kind": 1}])
    analysis = tune.run(
        train,
        name="hyperopt",
        local_dir=str(tmp_path),
        search_alg=ConcurrencyLimiter(algorithm, max_concurrent=2),
        scheduler=AsyncHyperBandScheduler(metric="mean_loss", mode="min", max_t=4, grace_period=1, reduction_factor=2),
        num_samples=8,
        config={"steps": 4},
        metric="mean_loss",
        mode="min",
    )
    first, *others = analysis.trials
    assert (first.config["lr"], first.config["kind"], first.config["steps"]) == (0.5, "none", 4)
    kinds = [trial.config["kind"] for trial in others]
    assert all(one == "none" or 0 <= one["weight"] <= 1 for one in kinds)
    assert any(one != "none" for one in kinds)
    assert analysis.best_result["training_iteration"] == 4
    assert Path(str(analysis.best_checkpoint.to_directory()), "step").read_text() == "3"


_KILLED = """
import asyncsearch.ray
asyncsearch.ray.install()
import os, pathlib, signal
from ray import tune
from ray.tune.schedulers import ASHAScheduler


class Steps(tune.Trainable):
    def setup(self, config):
        self.at = 0

    def step(self):
        self.at += 1
        if self.trial_id == "trial-3" and self.at == 3 and not pathlib.Path("{mark}").exists():
            pathlib.Path("{mark}").write_text("killed")
            os.kill(os.getpid(), signal.SIGKILL)
        pathlib.Path("{steps}").open("a").write(f"{{self.trial_id}} {{self.at}}\\n")
        return {{"score": self.config["x"] * self.at}}

    def save_checkpoint(self, folder):
        return {{"at": self.at}}

    def load_checkpoint(self, state):
        self.at = state["at"]


asyncsearch.ray.workers(backend="inline", display="none")
results = tune.Tuner(
    Steps,
    param_space={{"x": tune.grid_search([4, 3, 1, 5, 2])}},
    tune_config=tune.TuneConfig(
        metric="score", mode="max", scheduler=ASHAScheduler(max_t=4, grace_period=2, reduction_factor=2)
    ),
    run_config=tune.RunConfig(name="killed", checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1)),
).fit()
print([(result.config["x"], result.metrics["training_iteration"]) for result in results])
"""


def test_a_killed_driver_goes_on_by_the_same_line(tmp_path: Path) -> None:
    mark, steps = tmp_path / "mark", tmp_path / "steps"
    script = tmp_path / "program.py"
    script.write_text(_KILLED.format(mark=mark, steps=steps))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script)]
    first = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert first.returncode == -signal.SIGKILL, first.stderr.decode()
    second = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, check=False)
    # The rungs know the trials of before, and no step of any trial was trained twice.
    assert b"[(4, 4), (3, 2), (1, 2), (5, 4), (2, 2)]" in second.stdout, second.stderr.decode()
    lines = steps.read_text().splitlines()
    assert len(lines) == len(set(lines)) == 4 + 2 + 2 + 4 + 2

"""What the stand-in promises beside whole programs: its rungs, its refusals, and what it says."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncsearch.ray as ours
from asyncsearch.errors import AsyncSearchError, UsageError
from asyncsearch.ids import TrialId
from asyncsearch.ray.milestones import milestones_of, resource_at
from asyncsearch.ray.population import ComparedTrial, PopulationBasedTraining, TrialPopulation
from asyncsearch.ray.program_search import ProgramSearch
from asyncsearch.ray.requests import RunConfig, SearchRequest, SyncConfig, TuneConfig
from asyncsearch.ray.scheduling import AsyncHyperBandScheduler
from asyncsearch.ray.space.configurations import ParamSpace
from asyncsearch.ray.space.spaces import loguniform
from asyncsearch.ray.trial.checkpoints import TrialCheckpoints
from asyncsearch.ray.trial.objective import RayObjective
from asyncsearch.runner.standalone import StandaloneTrial

# fmt: off
RUNGS = [
    (1, 100, 4, 0, (1, 4, 16, 64)),
    (1, 9, 3, 0, (1, 3, 9)),
    (5, 100, 4, 0, (5, 20, 80)),
    (1, 100, 4, 2, (16, 64)),
    (10, 10, 2, 0, (10,)),
    (1, 10, 1.5, 0, (1, 2, 3, 4, 6, 8)),
]
# fmt: on


@pytest.mark.parametrize(("grace", "most", "factor", "bracket", "rungs"), RUNGS)
def test_rungs_are_those_of_ray(grace: int, most: int, factor: float, bracket: int, rungs: tuple[int, ...]) -> None:
    assert milestones_of(grace, most, factor, bracket, "training_iteration") == rungs


def play(scores: list[list[float]], **options: Any) -> list[int]:
    """Return how far each trial came, one after the other, of which each reports its scores (lower is better)."""
    state = AsyncHyperBandScheduler(**options).rule().begin()
    came = []
    for number, its in enumerate(scores):
        trial = TrialId(number)
        state.created(trial, {})
        for at, score in enumerate(its, 1):
            state.reported(trial, at, score)
            if state.judge(trial, at) is not None:
                state.stopped(trial, at, score)
                break
        came.append(at)
    return came


def test_a_trial_goes_on_if_it_is_among_the_best_at_a_rung() -> None:
    scores = [[float(score)] * 4 for score in (5, 4, 3, 6, 2, 9, 9, 1)]
    assert play(scores, max_t=4, grace_period=2, reduction_factor=2) == [4, 4, 4, 2, 4, 2, 2, 4]


def test_more_brackets_begin_later_and_each_has_trials() -> None:
    scores = [[float(number)] * 16 for number in range(60)]
    came = play(scores, max_t=16, grace_period=1, reduction_factor=2, brackets=3)
    assert {1, 2, 4} <= set(came)


def test_an_epoch_from_zero_counts_as_itself() -> None:
    levels = milestones_of(1, 4, 2, 0, "epoch")
    assert [sum(resource_at("epoch", epoch) >= level for level in levels) for epoch in range(5)] == [0, 1, 2, 2, 3]


def test_a_population_takes_from_the_best_and_changes_a_value() -> None:
    rules = PopulationBasedTraining(
        mode="max",
        time_attr="t",
        perturbation_interval=2,
        hyperparam_mutations={"lr": loguniform(1, 9), "m": [1, 2, 3]},
    )
    population = TrialPopulation(rules, seed=0)
    for number in range(4):
        population.members[number] = ComparedTrial({"lr": 2.0 + number, "m": 2, "kept": "me"})
    assert not population.is_due(0, 1)
    for number in (1, 2, 3):
        assert population.compare(number, 2, float(number), (number, 2)) is None
    taken = population.compare(0, 2, 0.0, None)
    assert taken is not None
    assert (taken.donor, taken.iteration) == (3, 2)
    assert taken.config["kept"] == "me"
    made = [population.explored({"lr": 5.0, "m": 2}, np.random.default_rng(seed)) for seed in range(200)]
    assert {one["m"] for one in made} == {1, 2, 3}
    factors = [one["lr"] / 5 for one in made]
    assert sum(abs(factor - 1.2) < 1e-9 or abs(factor - 0.8) < 1e-9 for factor in factors) in range(130, 170)


def test_a_finished_trial_is_gone_on_from_as_it_was_at_that_time() -> None:
    rules = PopulationBasedTraining(
        mode="max", time_attr="t", perturbation_interval=2, hyperparam_mutations={"lr": [1, 2]}
    )
    population = TrialPopulation(rules, seed=0)
    for number in range(2):
        population.members[number] = ComparedTrial({"lr": 1 + number})
    assert [population.compare(0, time, 9.0 * time, (0, time)) for time in (2, 4, 6)] == [None] * 3
    population.members[0].is_finished = True
    assert [population.compare(1, time, 1.0, (1, time)).iteration for time in (3, 5)] == [2, 4]  # type: ignore[union-attr]
    assert population.compare(1, 8, 1.0, (1, 8)) is None  # the other one had finished by then
    population.members[0].is_finished = False
    assert population.compare(1, 7, 1.0, (1, 7)) is None  # alone it was among no best, where Ray saves nothing


def test_a_population_that_trains_in_turn_trains_each_to_its_end(tune: Any) -> None:
    from ray.air import session
    from ray.air.checkpoint import Checkpoint

    def train(config: dict[str, Any]) -> None:
        found = session.get_checkpoint()
        done = found.to_dict()["done"] if found else 0
        while done < 6:
            done += 1
            session.report({"value": config["x"] + done}, checkpoint=Checkpoint.from_dict({"done": done}))

    rules = PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=2, hyperparam_mutations={"x": [1.0, 2.0]}
    )
    space = {"x": tune.grid_search([8.0, 4.0, 2.0, 1.0])}
    results = run(tune, train, space, metric="value", mode="max", scheduler=rules)
    assert [result.metrics["training_iteration"] for result in results] == [6] * 4
    assert any(result.config["x"] != x for result, x in zip(results, (8.0, 4.0, 2.0, 1.0), strict=True))


def test_iterations_count_on_from_the_checkpoint_that_was_taken_over(tune: Any) -> None:
    class Counted(tune.Trainable):  # type: ignore[misc]
        def setup(self, config: dict[str, Any]) -> None:
            self.steps = 0

        def step(self) -> dict[str, Any]:
            self.steps += 1
            time = self.steps * (1 if self.config["x"] == 8 else 2)
            return {"steps": self.steps, "time": time, "value": self.config["x"], "done": self.steps >= 7}

        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, int]:
            return {"steps": self.steps}

        def load_checkpoint(self, checkpoint: dict[str, int]) -> None:
            self.steps = checkpoint["steps"]

    rules = PopulationBasedTraining("time", perturbation_interval=4, hyperparam_mutations={"x": [1, 2]})
    space = {"x": tune.grid_search([8, 4, 2, 1])}
    results = run(tune, Counted, space, metric="value", mode="max", scheduler=rules)
    frames = [result.metrics_dataframe for result in results]
    assert all((frame["training_iteration"] == frame["steps"]).all() for frame in frames)
    assert [result.metrics["training_iteration"] for result in results] == [7] * 4
    assert any(len(frame) < 7 for frame in frames)  # it went on from a trial that was further


def test_numbers_come_back_as_they_were_reported(tune: Any) -> None:
    def train(_config: dict[str, Any]) -> None:
        tune.report(
            {"whole": 3, "flag": True, "real": 2.0, "mixed": 1, "array": np.int64(5), "huge": 2**60, "word": "a"}
        )
        tune.report(
            {"whole": 4, "flag": False, "real": 3.0, "mixed": 1.5, "array": np.int64(6), "huge": 1, "word": "b"}
        )

    result = run(tune, train, {})[0]
    last = {"whole": 4, "flag": False, "real": 3.0, "mixed": 1.5, "array": 6, "huge": 1, "word": "b"}
    found = {name: result.metrics[name] for name in last}
    assert found == last
    assert {name: type(value) for name, value in found.items()} == {name: type(value) for name, value in last.items()}
    frame = result.metrics_dataframe
    assert [frame[name].dtype.kind for name in ("whole", "flag", "real", "mixed")] == ["i", "b", "f", "f"]
    assert "metric_types" not in result.metrics


def run(tune: Any, trainable: Any, space: Any, **options: Any) -> Any:
    return tune.Tuner(trainable, param_space=space, tune_config=tune.TuneConfig(**options)).fit()


def notes(caplog: pytest.LogCaptureFixture) -> str:
    return "\n".join(record.getMessage() for record in caplog.records)


def test_a_scheduler_without_anything_to_decide_is_said(tune: Any, caplog: pytest.LogCaptureFixture) -> None:
    from ray.tune.schedulers import ASHAScheduler

    with caplog.at_level(logging.WARNING):
        space = {"x": tune.grid_search([1, 2])}
        run(tune, lambda c: {"loss": c["x"]}, space, metric="loss", mode="min", scheduler=ASHAScheduler())
    assert "Each trial reported once" in notes(caplog)

    def two(config: Any) -> None:
        for _ in range(2):
            tune.report(loss=config["x"])

    caplog.clear()
    with caplog.at_level(logging.WARNING):
        run(tune, two, {"x": 1}, metric="loss", mode="min", scheduler=ASHAScheduler(grace_period=3))
    assert "No trial came to 3 in 'training_iteration'" in notes(caplog)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        run(tune, two, {"x": 1}, metric="loss", mode="min", scheduler=ASHAScheduler(max_t=10))
    assert "No trial came to max_t=10" in notes(caplog)


def test_a_metric_that_is_named_when_reading_is_enough(tune: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        results = run(tune, lambda c: c["x"] ** 2, {"x": tune.grid_search([-2, 1, 3])})
    assert results.get_best_result("_metric", "min").config == {"x": 1}
    assert "names no metric before it reads" in notes(caplog)
    with pytest.raises(UsageError, match="Name the metric"):
        results.get_best_result()
    with pytest.raises(UsageError, match=r"No trial has reported 'loss'; they have reported _metric"):
        results.get_best_result("loss", "min")


def test_a_report_that_was_lost_behind_its_checkpoint_is_made_again(tune: Any, tmp_path: Path) -> None:
    request = SearchRequest(tune=tune.TuneConfig(metric="loss", mode="min"), run=tune.RunConfig(stop={"loss": 0.4}))
    settings = ProgramSearch(print, request).settings(str(tmp_path / "1"), "name")
    (tmp_path / "model").mkdir()
    numbers = {"loss": 0.3, "training_iteration": 3.0, "time_total_s": 1.0}
    kept = TrialCheckpoints(settings.store, "trial-0")
    began = []

    def train(config: Any) -> None:
        began.append(tune.get_checkpoint())

    for loss in (0.3, 0.5):  # the function would return at once: it has done all before its checkpoint
        kept.keep(tune.Checkpoint.from_directory(str(tmp_path / "model")), 3, {**numbers, "loss": loss})
        trial = StandaloneTrial({}, name="trial-0")
        RayObjective(train, ParamSpace({}, 1), settings)(trial)
        assert [(at, metrics["loss"]) for at, metrics in trial.reports] == [(3, loss)]
        kept.delete(3)
    assert len(began) == 1, "a trial that stop= has ended does not go on"


def test_a_metric_that_is_missing_fails_at_the_first_report(tune: Any) -> None:
    results = run(tune, lambda _: {"acc": 1}, {}, metric="loss", mode="min")
    assert results.num_errors == 1
    assert "reported acc, and the metric of the search is 'loss'" in str(results.errors[0])


def test_a_trial_without_a_report_fails_and_the_search_goes_on(tune: Any) -> None:
    results = run(
        tune,
        lambda config: {"loss": config["x"]} if config["x"] else None,
        {"x": tune.grid_search([0, 1])},
        metric="loss",
        mode="min",
    )
    assert "ended without a report" in str(results.errors[0])
    assert results.get_best_result().config == {"x": 1}


def test_what_is_not_finite_is_itself_in_the_results_and_no_best(tune: Any) -> None:
    values = [float("nan"), float("-inf"), 1.0]
    space = {"at": tune.grid_search([0, 1, 2])}
    results = run(tune, lambda config: {"loss": values[config["at"]]}, space, metric="loss", mode="max")
    assert repr([result.metrics["loss"] for result in results]) == "[nan, -inf, 1.0]"
    assert results.get_best_result().config == {"at": 2}


def test_a_function_that_counts_is_called_once_for_each_trial(tune: Any) -> None:
    numbers = iter(range(9))
    space = {"number": tune.sample_from(lambda _: next(numbers))}
    results = run(tune, lambda config: {"loss": config["number"]}, space, metric="loss", mode="min", num_samples=3)
    assert [result.config["number"] for result in results] == [0, 1, 2]


def test_a_population_says_that_it_keeps_all_checkpoints(tune: Any) -> None:
    request = SearchRequest(
        tune=tune.TuneConfig(
            scheduler=PopulationBasedTraining(metric="a", mode="max", hyperparam_mutations={"x": [1]})
        ),
        run=tune.RunConfig(checkpoint_config=tune.CheckpointConfig(num_to_keep=2)),
    )
    assert any("num_to_keep=2 is not obeyed" in note for note in ProgramSearch(print, request).notes)


def test_a_failed_trial_is_in_the_results_and_the_search_goes_on(tune: Any) -> None:
    def fails(config: Any) -> None:
        if config["x"] == 1:
            raise KeyError("missing")
        tune.report({"loss": config["x"]})

    results = run(tune, fails, {"x": tune.grid_search([0, 1, 2])}, metric="loss", mode="max")
    assert [result.error is None for result in results] == [True, False, True]
    assert "KeyError: 'missing'" in str(results.errors[0])
    assert results.get_best_result().config["x"] == 2
    with pytest.raises(AsyncSearchError, match="did not complete: trial-1"):
        tune.run(fails, config={"x": tune.grid_search([0, 1])})


def test_a_tuner_reads_and_goes_on_with_a_folder(tune: Any, tmp_path: Path) -> None:
    def steps(config: Any) -> None:
        for step in range(3):
            tune.report({"loss": config["x"] * step})

    run_config = tune.RunConfig(name="kept", storage_path=tmp_path)
    tune_config = tune.TuneConfig(metric="loss", mode="min")
    tune.Tuner(steps, param_space={"x": tune.grid_search([1, 2])}, tune_config=tune_config, run_config=run_config).fit()
    folder = str(tmp_path / "kept")
    assert tune.Tuner.can_restore(folder)
    assert not tune.Tuner.can_restore(str(tmp_path / "other"))
    again = tune.Tuner.restore(folder, steps).fit()
    assert again.get_best_result().config == {"x": 1}
    analysis = tune.ExperimentAnalysis(folder, default_metric="loss", default_mode="max")
    assert analysis.best_config == {"x": 2}
    assert len(analysis.trial_dataframes["trial-1"]) == 3
    with pytest.raises(UsageError, match="no search of this project"):
        tune.Tuner.restore(str(tmp_path / "other"), steps)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda tune: tune.run(print, unheard=1), "no argument 'unheard'"),
        (lambda tune: tune.run("PPO"), "no trainable 'PPO'"),
        (lambda tune: tune.TuneConfig(mode="best") and run(tune, print, {}, mode="best"), "mode='best'"),
        (lambda tune: run(tune, print, {}, num_samples=-1), "has no end"),
        (lambda tune: run(tune, print, {}, num_samples="3"), "must be an integer"),
        (lambda tune: run(tune, print, [1]), "is no dictionary"),
        (lambda tune: run(tune, lambda: 1, {}), "cannot be called with a configuration"),
        (lambda tune: AsyncHyperBandScheduler(max_t="9"), "ASHAScheduler: max_t='9' must be"),  # type: ignore[arg-type]
        (lambda tune: run(tune, print, {}, metric="loss"), "needs a direction"),
        (lambda tune: run(tune, print, {}, scheduler="asha2"), "not known here"),
        (lambda tune: tune.Tuner(print, run_config=tune.RunConfig(callbacks=[object()])).fit(), "no tune.Callback"),
        (lambda tune: tune.Tuner(print, run_config=tune.RunConfig(stop=3)).fit(), "stop=3"),
        (lambda tune: tune.with_parameters(lambda config: 0, data=1), "takes config"),
        (lambda tune: tune.Tuner.restore("studies/x", resume_unfinished=False), "resume_unfinished=False"),
    ],
    ids=[
        "argument",
        "name",
        "mode",
        "endless",
        "count",
        "space",
        "function",
        "max_t",
        "direction",
        "scheduler",
        "callback",
        "stop",
        "parameters",
        "unfinished",
    ],
)
def test_what_is_not_known_is_refused_before_a_worker_starts(tune: Any, write: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        write(tune)
    assert not list(Path("studies").glob("*")) if Path("studies").exists() else True


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"run": RunConfig(log_to_file=True)}, "log_to_file= has no effect"),
        ({"run": RunConfig(worker_runtime_env={"pip": ["x"]})}, "worker_runtime_env= has no effect"),
        ({"run": RunConfig(sync_config=SyncConfig(sync_period=9))}, "SyncConfig"),
        ({"tune": TuneConfig(trial_name_creator=str)}, "trial_name_creator= names nothing"),
        ({"run": RunConfig(log_to_file=False, sync_config=SyncConfig())}, None),
    ],
)
def test_an_argument_without_effect_is_said(given: dict[str, Any], said: str | None) -> None:
    whole: dict[str, Any] = {"tune": TuneConfig(), "run": RunConfig()} | given
    found = SearchRequest(**whole).without_effect
    assert [one.startswith(said or "") for one in found] == [True] * (said is not None)


def test_what_ray_has_beside_tune_says_what_to_write(tune: Any) -> None:
    import ray

    with pytest.raises(UsageError, match="call the function itself"):
        ray.remote(print)
    with pytest.raises(ModuleNotFoundError, match="RLlib is not here"):
        import ray.rllib
    from ray.tune.schedulers import ResourceChangingScheduler

    with pytest.raises(UsageError, match="resources of a trial stay"):
        ResourceChangingScheduler()
    with pytest.raises(ImportError, match="cannot import name 'unheard'"):
        from ray.tune import unheard  # noqa: F401


def test_a_program_that_has_imported_ray_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("real = True\n")
    code = "import ray, asyncsearch.ray as ours\ntry:\n ours.install()\nexcept Exception as error:\n print(error)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}"},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert b"Ray is imported already" in done.stdout


def test_uninstalled_the_stand_in_is_gone(tune: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ray.py").write_text("real = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    ours.uninstall()
    import ray

    assert ray.real
    del sys.modules["ray"]

"""Each argument of a program has its effect, or is refused with what to write."""

from __future__ import annotations

import contextlib
import inspect
import logging
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.errors import UsageError
from asyncsearch.ray import program_search
from asyncsearch.ray.callbacks.driver import TableReporter
from asyncsearch.ray.flat_result import FlatResult
from asyncsearch.ray.population import PopulationBasedTraining
from asyncsearch.ray.program_search import ProgramSearch
from asyncsearch.ray.requests import (
    CheckpointConfig,
    ResourceBundles,
    RunConfig,
    ScalingConfig,
    SearchRequest,
    TuneConfig,
    request_of_run,
)
from asyncsearch.ray.resources import cpus_of, gpus_of
from asyncsearch.ray.scheduling import AsyncHyperBandScheduler, HyperBandScheduler, MedianStoppingRule
from asyncsearch.ray.space.search_algorithms import OTHERS, BasicVariantGenerator, ConcurrencyLimiter, SearchAlgorithm
from asyncsearch.ray.space.spaces import choice, sample_from, uniform
from asyncsearch.ray.trial.trainables import StepTrainable, with_resources


def train(config: dict[str, Any]) -> dict[str, float]:
    return {"loss": config["x"]}


class OwnResources(StepTrainable):
    @classmethod
    def default_resource_request(cls, config: Any) -> Any:
        return ResourceBundles([{"CPU": 1}, {"CPU": config["cores"], "GPU": 0.5}])


def plan(trainable: Any = train, space: Any = None, **options: Any) -> ProgramSearch:
    run, resources = options.pop("run", RunConfig()), options.pop("resources", None)
    tune = TuneConfig(metric="loss", mode="min", **options)
    given = {"x": uniform(0, 1)} if space is None else space
    return ProgramSearch(trainable, SearchRequest(tune=tune, run=run, param_space=given, resources=resources))


@pytest.mark.parametrize(
    ("algorithm", "most", "limit"),
    [
        (BasicVariantGenerator(max_concurrent=2), None, 2),
        (BasicVariantGenerator(max_concurrent=0), 3, 3),
        (ConcurrencyLimiter(BasicVariantGenerator(max_concurrent=2), 5), 4, 2),
        (OTHERS["HyperOptSearch"](max_concurrent=2), None, 2),
    ],
    ids=["generator", "none", "limiter", "hyperopt"],
)
def test_the_least_of_all_limits_of_trials_at_a_time_counts(algorithm: Any, most: int | None, limit: int) -> None:
    assert plan(search_alg=algorithm, max_concurrent_trials=most).limit == limit


@pytest.mark.parametrize(
    ("trainable", "resources", "cpus", "gpus"),
    [
        (with_resources(train, lambda config: {"cpu": config["cores"]}), None, 3, None),
        (train, lambda spec: {"cpu": spec.config.cores, "gpu": 1}, 3, 1),
        (OwnResources, None, 4, 0.5),
        (with_resources(OwnResources, {"cpu": 2}), None, 2, None),
        (with_resources(train, ScalingConfig(num_workers=2, use_gpu=True)), None, 2, 2),
    ],
    ids=["function", "specification", "class", "both", "scaling"],
)
def test_resources_are_what_a_program_says_in_any_form(
    trainable: Any, resources: Any, cpus: float, gpus: float | None
) -> None:
    found = plan(trainable, {"x": uniform(0, 1), "cores": 3}, resources=resources).resources
    assert (cpus_of(found), gpus_of(found)) == (cpus, gpus)


def test_the_cores_of_init_are_those_of_all_trials_together(tune: Any) -> None:
    import ray

    import asyncsearch.ray as ours

    ours.workers(backend="processes", display="none")
    ray.init(num_cpus=3)
    assert ray.cluster_resources()["CPU"] == 3
    assert plan().parallelism == 3
    assert plan(with_resources(train, {"cpu": 2})).parallelism == 1
    ray.shutdown()
    assert plan().parallelism is None
    ours.workers(5, backend="processes", display="none")
    ray.init(num_cpus=3)
    assert plan().parallelism == 5, "the line of this project counts before it"
    ray.shutdown()


def test_the_cores_of_the_driver_divide_no_cluster_of_spark(tune: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncsearch.ray as ours

    ours.workers(display="none")
    asked = plan(with_resources(train, {"cpu": 2}))
    for is_spark in (True, False):
        monkeypatch.setattr(program_search, "is_spark_active", lambda found=is_spark: found)
        assert (asked.parallelism is None) == is_spark


@pytest.mark.parametrize(
    ("named", "first"),
    [
        (AsyncHyperBandScheduler, "time_attr metric mode max_t grace_period reduction_factor brackets"),
        (HyperBandScheduler, "time_attr metric mode max_t reduction_factor"),
        (MedianStoppingRule, "time_attr metric mode grace_period min_samples_required min_time_slice hard_stop"),
        (PopulationBasedTraining, "time_attr metric mode perturbation_interval burn_in_period hyperparam_mutations"),
        (TuneConfig, "mode metric search_alg scheduler num_samples"),
        (RunConfig, "name storage_path storage_filesystem failure_config checkpoint_config sync_config verbose stop"),
        (CheckpointConfig, "num_to_keep checkpoint_score_attribute checkpoint_score_order checkpoint_frequency"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_arguments_without_a_name_have_the_places_of_ray(named: Any, first: str) -> None:
    assert " ".join(inspect.signature(named).parameters).startswith(first)


def test_a_place_that_means_something_else_in_ray_is_refused() -> None:
    algorithm: Any = OTHERS["HyperOptSearch"]
    with pytest.raises(UsageError, match="follows points_to_evaluate"):
        algorithm({"x": uniform(0, 1)}, "loss", "min", None, 20)
    with pytest.raises(TypeError, match="positional"):
        algorithm({"x": uniform(0, 1)}, "loss", "min", None, None, "a name")


@pytest.mark.parametrize("is_required", [True, False])
def test_a_population_may_do_without_its_time(tune: Any, is_required: bool) -> None:
    rules = PopulationBasedTraining(
        time_attr="epoch", require_attrs=is_required, perturbation_interval=1, hyperparam_mutations={"x": [1.0]}
    )
    tuner = tune.Tuner(
        train,
        param_space={"x": 1.0},
        tune_config=tune.TuneConfig(metric="loss", mode="min", scheduler=rules),
    )
    with pytest.raises(UsageError, match="no 'epoch'") if is_required else contextlib.nullcontext():
        assert tuner.fit().num_errors == 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: plan(with_resources(train, lambda c: {"cpu": c["x"]}), {"x": choice([1, 2])}, num_samples=9),
            "and others",
        ),
        (lambda: plan(with_resources(train, lambda _: {"cpu": 1}), {"x": sample_from(lambda _: 1)}), "sample_from"),
        (lambda: plan(with_resources(train, 3)), "are no dictionary"),
        (
            lambda: plan(run=RunConfig(checkpoint_config=CheckpointConfig(checkpoint_frequency=2))),
            "train is a function",
        ),
        (lambda: plan(run=RunConfig(checkpoint_config=CheckpointConfig(checkpoint_at_end=True))), "checkpoint_at_end="),
        (lambda: request_of_run({"resume": "AUTO+ERRORED"}), r"resume='AUTO\+ERRORED'"),
        (lambda: request_of_run({"resume_config": object()}), "resume_config"),
    ],
    ids=["differ", "drawn", "number", "frequency", "at_end", "errored", "config"],
)
def test_what_has_no_effect_is_refused_before_anything_starts(make: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make()


@pytest.mark.parametrize(("most", "best"), [(1, [2]), (2, [3, 2]), (None, [1, 4, 3, 2])])
def test_the_best_checkpoints_are_kept_beside_the_newest(tune: Any, most: int | None, best: list[int]) -> None:
    def steps(config: dict[str, Any]) -> None:
        for at, score in enumerate([1.0, 9.0, 5.0, 3.0], 1):
            checkpoint = tune.Checkpoint.from_directory(str(config["folder"]))
            tune.report({"score": score, "at": at}, checkpoint=checkpoint)

    Path("model").mkdir()
    kept = tune.CheckpointConfig(num_to_keep=most, checkpoint_score_attribute="score")
    found = tune.Tuner(
        steps, param_space={"folder": str(Path("model").absolute())}, run_config=tune.RunConfig(checkpoint_config=kept)
    ).fit()[0]
    assert [metrics["at"] for _, metrics in found.best_checkpoints] == best
    assert found.get_best_checkpoint("score", "max") == found.best_checkpoints[-1][0]
    assert found.checkpoint.path.split("/")[-3] == "4", "the newest one, from which a lost trial goes on"


def test_a_search_without_a_number_of_trials_ends_by_its_time(tune: Any) -> None:
    options = tune.TuneConfig(metric="loss", mode="min", num_samples=-1, time_budget_s=0.5)
    results = tune.Tuner(train, param_space={"x": tune.uniform(0, 1)}, tune_config=options).fit()
    assert len(results) >= 1
    assert results.num_errors == 0


class OwnScheduler(AsyncHyperBandScheduler):
    def on_trial_result(self, *_given: Any) -> str:
        return "STOP"


class OwnSearcher(SearchAlgorithm):
    def suggest(self, trial_id: str) -> dict[str, float]:
        return {"x": 1.0}


class OwnReporter(TableReporter):
    def report(self, trials: Any, done: bool, *_info: Any) -> None:
        raise AssertionError


class SmallASHA(AsyncHyperBandScheduler):
    """Has arguments of its own, and decides nothing itself."""

    def __init__(self) -> None:
        super().__init__(max_t=3)


def test_a_class_of_the_programs_own_is_used_or_refused() -> None:
    assert plan(scheduler=SmallASHA()).scheduler.end == 3
    for given in ({"scheduler": OwnScheduler()}, {"search_alg": ConcurrencyLimiter(OwnSearcher(), 2)}):
        with pytest.raises(UsageError, match="nobody calls it here"):
            plan(**given)


def test_a_logger_derived_from_one_of_rays_files_is_called(tune: Any) -> None:
    from ray.tune.logger import CSVLoggerCallback

    seen, logged = [], []

    class Csv(CSVLoggerCallback):  # type: ignore[misc]
        def log_trial_result(self, iteration: int, trial: Any, result: Any) -> None:
            seen.append(result["loss"])

    class Steps(tune.Trainable):  # type: ignore[misc]
        def step(self) -> dict[str, Any]:
            return {"loss": 2.0, "done": True}

        def log_result(self, result: dict[str, Any]) -> None:
            logged.append((result["training_iteration"], result["loss"]))

    tune.Tuner(Steps, run_config=tune.RunConfig(callbacks=[CSVLoggerCallback(), Csv()])).fit()
    assert (seen, logged) == ([2.0], [(1, 2.0)])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"scheduler": PopulationBasedTraining(log_config=True, hyperparam_mutations={"x": [1]})}, "log_config=True"),
        ({"resources": {"cpu": 1, "memory": 9}}, "The resources memory of a trial"),
        ({"run": RunConfig(progress_reporter=OwnReporter())}, "OwnReporter.report() is not called"),
        ({"reuse_actors": True}, "reuse_actors= has no effect here"),
    ],
    ids=["log_config", "memory", "reporter", "actors"],
)
def test_what_nobody_obeys_is_said(given: dict[str, Any], said: str) -> None:
    assert [note for note in plan(**given).notes if note.startswith(said)]


def test_a_report_is_read_by_its_groups_and_by_its_flat_names(tune: Any, capsys: pytest.CaptureFixture[str]) -> None:
    result = FlatResult({"valid/loss": 1.0, "valid/top/5": 2.0, "epoch": 3.0})
    assert result["valid"]["loss"] == result["valid/loss"] == 1.0
    assert result["valid"]["top"] == {"5": 2.0}
    assert ("valid" in result, "train" in result) == (True, False)
    assert (result.get("valid", {}).get("loss"), result.get("train")) == (1.0, None)
    with pytest.raises(KeyError, match="train"):
        result["train"]

    def steps(config: dict[str, Any]) -> None:
        for at in range(1, 5):
            tune.report({"valid": {"loss": config["x"] / at}, "epoch": at, "phase": f"at {at}", "long": "a" * 3000})

    seen = []

    class Notes(tune.Callback):  # type: ignore[misc]
        def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
            seen.append(result["valid"]["loss"])

    found = tune.Tuner(
        steps,
        param_space={"x": 6.0},
        tune_config=tune.TuneConfig(metric="valid/loss", mode="min"),
        run_config=tune.RunConfig(stop=lambda _, result: result["valid"]["loss"] <= 2, callbacks=[Notes()]),
    ).fit()
    metrics = found.get_best_result().metrics
    assert (metrics["valid"]["loss"], metrics["phase"], "long" in metrics) == (2.0, "at 3", False)
    assert list(found.get_dataframe()["phase"]) == ["at 3"]
    assert capsys.readouterr().err.count("the text of 'long' is not recorded") == 1
    assert seen == [6.0, 3.0, 2.0]


def test_callbacks_hear_of_steps_restores_and_recoveries(tune: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Steps(tune.Trainable):  # type: ignore[misc]
        def setup(self, config: dict[str, Any]) -> None:
            self.at = 0

        def step(self) -> dict[str, Any]:
            self.at += 1
            if self.at == 3 and not Path("../mark").exists():
                Path("../mark").write_text("failed")
                raise RuntimeError("once")
            return {"loss": self.at, "done": self.at == 3}

        def save_checkpoint(self, folder: str) -> dict[str, Any]:
            return {"at": self.at}

        def load_checkpoint(self, state: dict[str, Any]) -> None:
            self.at = state["at"]

    seen = []

    class Notes(tune.Callback):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> Any:
            if name.startswith("on_"):
                seen.append(name)
            return super().__getattribute__(name)

        def get_state(self) -> Any:
            return {"seen": 1}

    with caplog.at_level(logging.WARNING):
        tune.Tuner(
            Steps,
            run_config=tune.RunConfig(
                callbacks=[Notes()],
                failure_config=tune.FailureConfig(max_failures=1),
                checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
            ),
        ).fit()
    step = ["on_step_begin", "on_trial_result", "on_trial_save", "on_checkpoint", "on_step_end"]
    again = ["on_trial_recover", "on_trial_start", "on_trial_restore"]
    assert seen == ["on_trial_start", *step, *step, *again, *step, "on_trial_complete", "on_experiment_end"]
    assert "Notes.get_state() is not called here" in "\n".join(record.getMessage() for record in caplog.records)


def test_what_a_program_has_asked_for_may_be_unreadable_to_another() -> None:
    assert SearchRequest.unpacked(b"\x80\x05cno_such_module\nKind\n.", {}) is None
    assert SearchRequest.unpacked(b"", {}) is None

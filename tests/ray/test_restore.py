"""``Tuner.restore`` goes on with a whole search: its rules, its stoppers and what it has trained."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.errors import UsageError
from asyncsearch.journal.opening import read_records
from asyncsearch.ray.answering import ProgramAnswerer
from asyncsearch.ray.requests import RunConfig, SearchRequest, TuneConfig
from asyncsearch.ray.space.configurations import ParamSpace
from asyncsearch.ray.space.spaces import uniform
from asyncsearch.ray.stoppers import FunctionStopper, MaximumIterationStopper
from asyncsearch.ray.tuner import _require_space

_KILLED = """
import asyncsearch.ray
asyncsearch.ray.install()
import json, os, pathlib, signal, sys, tempfile
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining
from ray.tune.stopper import MaximumIterationStopper


def train(config):
    found, at = tune.get_checkpoint(), 0
    if found:
        with found.as_directory() as folder:
            at = json.loads(pathlib.Path(folder, "at").read_text())
    name = tune.get_context().get_trial_id()
    while True:
        at += 1
        pathlib.Path("{steps}").open("a").write(f"{{name}} {{at}}\\n")
        if name == "trial-2" and at == 5 and not pathlib.Path("{mark}").exists():
            pathlib.Path("{mark}").write_text("killed")
            os.kill(os.getpid(), signal.SIGKILL)
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "at").write_text(str(at))
            tune.report({{"score": at * config["x"]}}, checkpoint=tune.Checkpoint.from_directory(folder))


asyncsearch.ray.workers(backend="inline", display="none")
if sys.argv[1] == "restore":
    tuner = tune.Tuner.restore("studies/population", train, param_space={{"x": tune.uniform(0, 1)}})
else:
    population = PopulationBasedTraining(
        time_attr="training_iteration", perturbation_interval=4, hyperparam_mutations={{"x": [1.0, 2.0, 3.0]}}
    )
    tuner = tune.Tuner(
        train,
        param_space={{"x": tune.grid_search([3.0, 2.0, 1.0, 0.5])}},
        tune_config=tune.TuneConfig(metric="score", mode="max", scheduler=population, max_concurrent_trials=1),
        run_config=tune.RunConfig(name="population", stop=MaximumIterationStopper(6)),
    )
results = tuner.fit()
print([(result.metrics["training_iteration"], result.config["x"]) for result in results])
"""


def test_a_restored_population_goes_on_with_its_rules_and_its_stopper(tmp_path: Path) -> None:
    mark, steps, script = tmp_path / "mark", tmp_path / "steps", tmp_path / "program.py"
    script.write_text(_KILLED.format(mark=mark, steps=steps))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def run(word: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(script), word]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    first, second = run("fit"), run("restore")
    assert first.returncode == -signal.SIGKILL, first.stderr
    found = eval(second.stdout or "None")  # what the program above has printed
    assert [iterations for iterations, _ in found or ()] == [6, 6, 6, 6], second.stderr
    assert found[3][1] != 0.5, "the last one has gone on from another trial"
    lines = steps.read_text().splitlines()
    assert [lines.count(f"trial-{number} {at}") for number in (0, 1) for at in range(1, 7)] == [1] * 12
    assert lines.count("trial-2 5") == 2, "it goes on from its last checkpoint"
    assert lines.count("trial-2 4") == 1


def test_what_a_program_asks_for_is_kept_without_its_space() -> None:
    run = RunConfig(stop=MaximumIterationStopper(3), callbacks=[])
    request = SearchRequest(tune=TuneConfig(max_concurrent_trials=2), run=run, param_space={"x": 1}, resume=True)
    found = SearchRequest.unpacked(request.packed({"cpu": 2}), {"y": 2})
    assert found is not None
    assert (found.tune.max_concurrent_trials, found.resources, found.resume) == (2, {"cpu": 2}, False)
    assert found.param_space == {"y": 2}
    run.callbacks = [sys.stdout]
    assert SearchRequest.unpacked(request.packed(None), {}) is None, "an open file has no pickle"


def test_a_stopper_sees_what_an_earlier_driver_has_shown_it(tune: Any) -> None:
    def steps(config: dict[str, Any]) -> None:
        for at in range(1, 4):
            tune.report({"valid": {"loss": config["x"] / at}})

    found = tune.Tuner(steps, param_space={"x": tune.grid_search([6.0, 3.0])}).fit()
    with pytest.raises(UsageError, match="the search has x"):
        tune.Tuner.restore(found.experiment_path, steps, param_space={"y": tune.uniform(0, 1)})
    searcher, seen = found.study.searcher, []

    def noted(trial_id: str, result: Any) -> bool:
        seen.append((trial_id, result["training_iteration"], result["valid"]["loss"], result["config"]["x"]))
        return bool(result["none"])  # which nobody has reported: the search goes on all the same

    ProgramAnswerer(searcher.param_space, stopper=FunctionStopper(noted), records=read_records(found.study.store))
    assert seen == [(f"trial-{number}", at, x / at, x) for number, x in ((0, 6.0), (1, 3.0)) for at in (1, 2, 3)]


def test_another_space_than_that_of_the_search_is_refused() -> None:
    known = ParamSpace({"x": uniform(0, 1), "fixed": 1}, 1)
    _require_space({"x": uniform(0, 1), "fixed": 2}, known)
    _require_space(None, known)
    with pytest.raises(UsageError, match=r"has y to draw, and the search has x"):
        _require_space({"y": uniform(0, 1)}, known)

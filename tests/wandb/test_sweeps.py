"""Sweeps run by another import: with a function, and with a program of its own, whose runs log the metric."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import asyncsearch.wandb as wandb
from asyncsearch.errors import TrialsFailedError, UsageError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers.asha import ASHA
from asyncsearch.trial import TrialState
from asyncsearch.wandb.bands import BandStopping
from asyncsearch.wandb.logged import numbers_in
from asyncsearch.wandb.run_function import params_text
from asyncsearch.wandb.run_program import arguments_of
from asyncsearch.wandb.spaces import space_of
from asyncsearch.wandb.sweeps import parse
from tests.shares import takes_long

ROOT = Path(__file__).parents[2]
METRIC = {"name": "val.loss", "goal": "minimize"}
X = {"x": {"min": 0.0, "max": 1.0}}


def test_a_sweep_with_a_function_stops_runs_and_counts_on() -> None:
    """Nested parameters, hyperband, and a log in two parts, of which each metric is one report."""
    parameters = {
        "rate": {"distribution": "log_uniform_values", "min": 1e-5, "max": 1e-1},
        "model": {"parameters": {"width": {"min": 1, "max": 64}, "kind": {"value": "plain"}}},
    }
    early = {"type": "hyperband", "min_iter": 2, "eta": 2}
    described = {"method": "random", "name": "nested", "metric": METRIC, "parameters": parameters}

    def train() -> None:
        with wandb.init(config={"epochs": 6}) as run:
            config = wandb.config
            assert run is wandb.run
            assert config.model["kind"] == "plain"
            for epoch in range(config.epochs):
                wandb.log({"epoch": epoch, "name": "a text"}, commit=False)
                wandb.log({"val": {"loss": np.float32(config["rate"] * config.model["width"] / (epoch + 1))}})

    sweep = wandb.sweep({**described, "early_terminate": early}, project="tests")
    study = wandb.agent(sweep, function=train, count=6)
    assert study.best_trial.metrics.keys() == {"epoch", "val.loss"}
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETED, TrialState.STOPPED}
    assert max(trial.resource for trial in study.trials) == 6
    assert any("rank" in trial.reason for trial in study.trials if trial.state is TrialState.STOPPED)
    assert len(wandb.agent(f"me/tests/{sweep}", train, count=2).trials) == 8


def test_a_log_without_init_is_no_log_of_an_earlier_trial() -> None:
    described = {"method": "random", "name": "init", "metric": METRIC, "parameters": {"x": {"min": 0.0, "max": 1.0}}}

    def train() -> None:
        wandb.init()
        wandb.log({"val.loss": wandb.config.x})

    wandb.agent(wandb.sweep(described), function=train, count=1)
    with pytest.raises(TrialsFailedError, match=r"call .?wandb\.init\(\)") as failed:
        wandb.agent(wandb.sweep(described), function=lambda: wandb.log({"val.loss": 1.0}), count=1)
    assert "resume=True" not in str(failed.value)


PROGRAM = """
import argparse, os, signal, sys
import wandb

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float)
parser.add_argument("--width", type=int)
given = parser.parse_args()
with wandb.init(config=vars(given)):
    assert wandb.config.rate == given.rate
    for epoch in range(3):
        wandb.log({"val.loss": wandb.config.rate * wandb.config.width / (epoch + 1)})
    wandb.run.summary["seconds"] = 1.5
"""


def test_a_program_is_started_for_each_point_of_a_grid(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    parameters = {"rate": {"values": [0.5, 0.00001]}, "width": {"value": 2}}
    described = {"program": "program.py", "method": "grid", "metric": METRIC, "parameters": parameters}
    study = wandb.agent(wandb.sweep(described))
    assert [trial.value for trial in study.trials] == [pytest.approx(1 / 3), pytest.approx(2e-5 / 3)]
    assert [metrics["val.loss"] for _, metrics in study.history(0)] == [1.0, 0.5, pytest.approx(1 / 3)]
    assert study.trials[0].notes == {"seconds": "1.5"}


def test_a_program_that_is_to_stop_is_ended(tmp_path: Path) -> None:
    endless = PROGRAM.replace("range(3)", "range(10**9)").replace("/ (epoch + 1)", "")
    (tmp_path / "program.py").write_text(
        endless.replace("range(10**9)", "range(2 if given.rate < 0.2 else 10**9)"),
    )
    described = {
        "program": "program.py",
        "method": "grid",
        "metric": METRIC,
        "name": "endless",
        "parameters": {"rate": {"values": [0.1, 0.5]}, "width": {"value": 2}},
        "early_terminate": {"type": "hyperband", "min_iter": 1, "eta": 2},
    }
    study = wandb.agent(wandb.sweep(described))
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETED, TrialState.STOPPED]
    assert study.trials[1].resource == 1


def test_a_metric_that_is_not_logged_is_named_with_what_is() -> None:
    def train() -> None:
        wandb.init()
        wandb.log({"loss": 1.0})

    described = {"method": "random", "metric": METRIC, "parameters": {"x": {"min": 0.0, "max": 1.0}}, "name": "other"}
    with pytest.raises(Exception, match=r"has not logged 'val.loss'.*it has logged 'loss'"):
        wandb.agent(wandb.sweep(described), train, count=1)


def test_what_comes_after_the_last_report_is_a_note() -> None:
    def train() -> None:
        with wandb.init() as run:
            for loss in (3.0, 1.0, 2.0):
                run.log({"val.loss": loss, "epoch": loss})
            run.log({"test.accuracy": 0.5})
            run.summary["val.loss"] = 1.0
            run.summary["best"] = {"epoch": 2}

    study = wandb.agent(wandb.sweep({"method": "random", "metric": METRIC, "parameters": X}), train, count=1)
    assert study.trials[0].value == 2.0
    assert study.trials[0].notes == {"test.accuracy": "0.5", "val.loss": "1", "best.epoch": "2"}


def test_a_metric_counts_once_for_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    def train() -> None:
        with wandb.init() as run:
            for step in range(3):
                for batch in (3.0, 2.0, 1.0):
                    run.log({"val.loss": batch + 10 * step, "lr": step}, step=step)

    study = wandb.agent(wandb.sweep({"method": "random", "metric": METRIC, "parameters": X}), train, count=1)
    assert [metrics["val.loss"] for _, metrics in study.history(0)] == [3.0, 13.0, 23.0, 21.0]
    assert capsys.readouterr().err.count("is logged several times with step=0") == 1


def test_what_is_logged_at_an_earlier_step_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    def train() -> None:
        with wandb.init() as run:
            run.log({"val.loss": 3.0})
            run.log({"val.loss": 2.0}, step=5)
            for step in (0, 4):
                run.log({"val.loss": 1.0}, step=step)
            run.log({"val.loss": 4.0}, step=6)

    study = wandb.agent(wandb.sweep({"method": "random", "metric": METRIC, "parameters": X}), train, count=1)
    assert [metrics["val.loss"] for _, metrics in study.history(0)] == [3.0, 2.0, 4.0]
    assert capsys.readouterr().err.count("is left out, as in wandb") == 1


DEFINED = {"min": [3, 1, 1], "max": [3, 3, 3], "mean": [3, 2, 2], "first": [3, 3, 3], "last": [3, 1, 2]}


@pytest.mark.parametrize("kind", DEFINED)
def test_a_sweep_ranks_by_the_summary_that_a_run_defines(kind: str) -> None:
    def train() -> None:
        with wandb.init() as run:
            define = run.define_metric if kind == "min" else wandb.define_metric
            define("epoch")
            define("val/*" if kind == "max" else "val/loss", step_metric="epoch", summary=f"{kind},last")
            for epoch, loss in enumerate((3.0, 1.0, 2.0)):
                wandb.log({"epoch": epoch, "val/loss": loss})

    metric = {"name": f"val/loss.{kind}", "goal": "minimize"}
    study = wandb.agent(wandb.sweep({"method": "random", "metric": metric, "parameters": X}), train, count=1)
    assert [metrics[f"val/loss.{kind}"] for _, metrics in study.history(0)] == DEFINED[kind]
    assert study.trials[0].metrics["val/loss"] == 2.0


def test_the_lenient_form_of_hyperband_is_said_to_be_the_strict_one(capsys: pytest.CaptureFixture[str]) -> None:
    def train() -> None:
        with wandb.init() as run:
            run.log({"val.loss": 1.0})

    wandb.workers(1, backend="inline", store="lenient", display="plain")
    early = {"type": "hyperband", "min_iter": 2, "strict": False}
    described = {"method": "random", "metric": METRIC, "parameters": X, "early_terminate": early}
    wandb.agent(wandb.sweep(described), train, count=1)
    assert "strict=False stops runs as strict=True does" in "".join(capsys.readouterr())


def test_a_metric_without_a_summary_has_its_reports_alone() -> None:
    def train() -> None:
        with wandb.init() as run:
            run.define_metric("val.loss", summary="none", step_metric="epoch")
            run.log({"epoch": 1})  # waits for the metric
            run.log({"val.loss": 2.0})

    study = wandb.agent(wandb.sweep({"method": "random", "metric": METRIC, "parameters": X}), train, count=1)
    assert study.trials[0].metrics == {"epoch": 1.0, "val.loss": 2.0}


class SummaryPart:
    """As a part of wandb's summary: no mapping, and without attributes."""

    def keys(self) -> list[str]:
        return ["mean"]

    def __getitem__(self, name: str) -> float:
        return 0.5

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)


def test_numbers_are_found_in_whatever_holds_them() -> None:
    found = numbers_in({"a": {"b": np.float32(1), "c": "text"}, "part": SummaryPart(), "d": np.array(2), "e": [3]})
    assert found == {"a.b": 1.0, "part.mean": 0.5, "d": 2.0}


def test_a_grid_may_have_no_metric_and_counts_its_logs() -> None:
    def train() -> None:
        run = wandb.init()
        for _ in range(wandb.config["x"]):
            run.log({"loss": 1.0})

    described = {"method": "grid", "name": "bare", "parameters": {"x": {"values": [2, 3]}}}
    study = wandb.agent(wandb.sweep(described), train)
    assert [(trial.value, trial.metrics["loss"]) for trial in study.trials] == [(2, 1.0), (3, 1.0)]


@pytest.mark.parametrize(
    ("entry", "low", "high", "is_whole"),
    [
        ({"min": 1, "max": 9}, 1, 9, True),
        ({"min": 1.0, "max": 9}, 1, 9, False),
        ({"distribution": "log_uniform", "min": -3, "max": 0}, math.exp(-3), 1, False),
        ({"distribution": "inv_log_uniform", "min": 0, "max": 3}, math.exp(-3), 1, False),
        ({"distribution": "q_uniform", "min": 3, "max": 11, "q": 4}, 4, 12, True),
        ({"distribution": "q_log_uniform_values", "min": 8, "max": 100, "q": 8}, 8, 104, True),
        ({"distribution": "normal", "mu": 5, "sigma": 1e-9}, 4.9, 5.1, False),
        ({"distribution": "q_log_normal", "mu": 0, "sigma": 1e-9}, 1, 1, True),
    ],
)
def test_a_distribution_has_the_values_of_its_name(entry: Any, low: float, high: float, is_whole: bool) -> None:
    space = space_of({"x": entry})
    values = [space.sample(np.random.default_rng(seed))["x"] for seed in range(300)]
    assert all(low <= value <= high for value in values)
    assert all(isinstance(value, int) for value in values) == is_whole
    assert max(values) - min(values) >= 0.8 * (high - low) * (entry.get("sigma") != 1e-9)
    for value in values[:5]:
        space.validate({"x": value})


@pytest.mark.parametrize(
    ("early", "first", "eta"),
    [({"min_iter": 3}, 3, 3), ({"min_iter": 2, "eta": 4, "strict": True}, 2, 4)],
)
def test_the_bands_of_hyperband_are_the_rungs(early: dict[str, Any], first: int, eta: int) -> None:
    described = {"method": "random", "metric": METRIC, "parameters": {"x": {"min": 0, "max": 1}}}
    found = parse({**described, "early_terminate": {"type": "hyperband", **early}})
    assert found.scheduler == ASHA(min_resource=first, reduction_factor=eta, variant="stopping")


@pytest.mark.parametrize(
    ("max_iter", "s", "eta", "bands"), [(27, 2, 3, (3, 9)), (9, 1, 3, (3,)), (50, 2, 3, (5, 16)), (27, 9, 3, (1, 3, 9))]
)
def test_nobody_is_judged_from_max_iter_on(max_iter: int, s: int, eta: int, bands: tuple[int, ...]) -> None:
    early = {"type": "hyperband", "max_iter": max_iter, "s": s, "eta": eta}
    found = parse({"method": "random", "metric": METRIC, "parameters": X, "early_terminate": early}).scheduler
    assert found == BandStopping(bands=bands, eta=eta)
    state = found.begin()
    for number in (0, 1):  # the second one is the worse at each log
        trial = TrialId(number)
        state.created(trial, {})
        stops = []
        for at in range(1, 4 * max_iter):
            state.reported(trial, at, float(number))
            stops += [at] if state.judge(trial, at) else []
        assert stops == [*bands][: number * len(bands)]
        assert state.first_target(trial) is None
        assert state.judged_next(trial, bands[-1]) is None


def test_a_value_comes_as_often_as_its_probability_says() -> None:
    space = space_of({"x": {"values": ["a", "b", "c"], "probabilities": [0.75, 0.25, 0]}})
    found = [space.sample(np.random.default_rng(seed))["x"] for seed in range(400)]
    assert set(found) == {"a", "b"}
    assert 0.65 < found.count("a") / len(found) < 0.85


def test_macros_stand_for_the_parameters() -> None:
    params = {"rate": 1e-05, "flag": True, "off": False}

    def found(*command: str) -> list[str]:
        return arguments_of(command, "program.py", params, "")

    assert found("${interpreter}", "${program}", "${args}") == [
        *(sys.executable, "program.py"),
        *("--rate=1e-05", "--flag=True", "--off=False"),
    ]
    assert found("${args_no_hyphens}")[0] == "rate=1e-05"
    assert found("${args_no_boolean_flags}") == ["--rate=1e-05", "--flag"]
    assert found("x=${program}") == ["x=program.py"]
    assert '{"value": 1.0e-05}' in params_text(params), "YAML reads 1e-05 as text"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"method": "anneal"}, "'random', 'grid' or 'bayes'"),
        ({"method": "grid"}, "'x' has no list of values"),
        ({"method": "bayes", "parameters": {"x": {"mu": 0}}}, "the model knows no"),
        ({"metric": {"name": "a", "target": 3}}, "'target' has no effect"),
        ({"metric": None, "method": "bayes"}, "needs a metric"),
        ({"controller": {}}, "no entry 'controller'"),
        ({"parameters": {"x": {"min": "1e-4", "max": 1}}}, "YAML reads 1e-4 as text"),
        ({"parameters": {"x": {"values": [1, 2], "probabilities": [1]}}}, "for each of the values"),
        ({"parameters": {"x": {"values": [1, 2], "probabilities": [1, 1]}}}, "their sum is 2"),
        ({"method": "grid", "parameters": {"x": {"values": [1, 2], "probabilities": [0.5, 0.5]}}}, "leave 'probabil"),
        ({"early_terminate": {"type": "hyperband", "max_iter": 2, "s": 1}}, "has no band"),
        ({"early_terminate": {"type": "hyperband", "min_iter": 2, "strict": "no"}}, "neither True nor False"),
        ({"parameters": {"x": 3}}, r"write \{'value': 3\}"),
        ({"early_terminate": {"type": "hyperband"}}, "either min_iter, or max_iter with s"),
        ({"early_terminate": {"type": "envelope"}}, "'type': 'hyperband'"),
        ({"command": ["${progam}"]}, "write a list|is not known here"),
    ],
)
def test_a_wrong_sweep_is_answered_before_anything_starts(changes: Any, words: str, tmp_path: Path) -> None:
    (tmp_path / "p.py").touch()
    described = {"method": "random", "metric": METRIC, "parameters": X, "program": "p.py", **changes}
    with pytest.raises(UsageError, match=words):
        wandb.agent(wandb.sweep(described), count=1)
    assert not (tmp_path / "kept").exists()


def test_a_sweep_without_an_end_asks_for_a_count() -> None:
    sweep = wandb.sweep({"method": "random", "metric": METRIC, "parameters": X})
    with pytest.raises(UsageError, match=r"would never end: write wandb.agent\(sweep_id, function=train, count=20\)"):
        wandb.agent(sweep, lambda: None)
    with pytest.raises(UsageError, match="those of a server are out of reach"):
        wandb.agent("abcd1234", lambda: None, count=3)
    with pytest.raises(UsageError, match="needs a, and a sweep calls it without arguments"):
        wandb.agent(sweep, lambda a: None, count=3)


DRIVER = """
import os, signal, sys
import asyncsearch.wandb as wandb

def train():
    run = wandb.init()
    wandb.log({"loss": wandb.config.x})
    if run.name == "trial-4" and sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    wandb.log({"loss": wandb.config.x ** 2})

wandb.workers(1, backend="inline", display="none")
described = {"method": "random", "metric": {"name": "loss"}, "parameters": {"x": {"min": 0.0, "max": 1.0}}}
study = wandb.agent(wandb.sweep(described), train, count=6)
print([(trial.name, trial.value, trial.params) for trial in study.trials])
"""


@takes_long  # tests/maggy shows the law with the same folders
def test_a_killed_driver_goes_on_by_the_same_line(tmp_path: Path) -> None:
    folders = [tmp_path / "killed", tmp_path / "whole"]
    runs = []
    for folder, word in [(folders[0], "kill"), (folders[0], "go on"), (folders[1], "whole")]:
        folder.mkdir(exist_ok=True)
        (folder / "program.py").write_text(DRIVER)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "program.py", word]
        runs.append(subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False))
    assert [run.returncode for run in runs] == [-signal.SIGKILL, 0, 0], runs[1].stderr
    assert runs[1].stdout == runs[2].stdout
    assert [len(list((folder / "studies").iterdir())) for folder in folders] == [1, 1]

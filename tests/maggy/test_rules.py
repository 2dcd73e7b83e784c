"""Maggy's rules, each by an oracle written from its description, and what is refused before a worker starts."""

from __future__ import annotations

import os
import pickle
import random
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import Study
from asyncsearch.errors import NoTrialsError, TrialsFailedError, UsageError
from asyncsearch.ids import TrialId
from asyncsearch.maggy import Searchspace, experiment, workers
from asyncsearch.maggy.config import HyperparameterOptConfig, TorchDistributedConfig
from asyncsearch.maggy.earlystop import AbstractEarlyStop, BroadcastStopping
from asyncsearch.maggy.reporter import ALL_SENT, Reporter, result_of
from asyncsearch.maggy.result import result_of_trials
from asyncsearch.programs.same_line import SearchFolders
from asyncsearch.runner.standalone import StandaloneTrial
from asyncsearch.testing.checked_methods import CheckedScheduler
from asyncsearch.trial import Trial, TrialState

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("direction", ["min", "max"])
def test_a_trial_is_stopped_where_the_median_rule_says_so(direction: str) -> None:
    """All histories in lists, averages from their beginnings: the rule as it is described."""
    source, stops = random.Random(direction), 0
    for _ in range(150):
        least, interval = source.randint(0, 4), source.randint(1, 3)
        state = BroadcastStopping(es_min=least, es_interval=interval, direction=direction).begin()
        ended: list[list[float]] = []
        for number in range(source.randint(2, 12)):
            trial, history = TrialId(number), list[float]()
            state.created(trial, {})
            for step in range(source.randint(1, 7)):
                history.append(float(source.randint(-3, 3)))
                state.watched(trial, step + 1, history[-1])
                averages = [sum(one[: step + 1]) / (step + 1) for one in ended if len(one) > step]
                is_looked_at = len(ended) > least and step > 0 and step % interval == 0 and bool(averages)
                best = max(history) if direction == "max" else min(history)
                median = statistics.median(averages) if averages else 0.0
                is_worse = best < median if direction == "max" else best > median
                reason = state.judge(trial, step + 1)
                assert bool(reason) == (is_looked_at and is_worse)
                if step:
                    before = state.judged_next(trial, step)
                    assert not reason or before == step + 1, "it is waited for wherever it may stop"
                if reason:
                    stops += 1
                    break
            ended.append(history)
            state.ended(trial, len(history), None)
            copy = BroadcastStopping(es_min=least, es_interval=interval, direction=direction).begin()
            copy.restore(pickle.loads(pickle.dumps(state.snapshot())))
            assert copy.snapshot() == state.snapshot()
            state = copy
    assert stops > 20


def test_a_checked_state_passes_what_it_watches_on() -> None:
    checked = CheckedScheduler(lambda: BroadcastStopping(es_min=0).begin())
    assert checked.watches == "broadcast"
    for number in range(2):
        checked.created(TrialId(number), {})
        for resource in (1, 2):
            checked.watched(TrialId(number), resource, -float(number))
        if not number:
            checked.completed(TrialId(number), 2, 0.0)
    assert "worse than" in str(checked.judge(TrialId(1), 2))


def _interrupted(x: float) -> float:
    raise KeyboardInterrupt


def test_a_cut_off_search_goes_on_with_the_same_source_alone() -> None:
    workers(1, backend="inline", display="none")
    call: dict[str, Any] = {"searchspace": Searchspace(x=("DOUBLE", [0, 1])), "optimizer": "randomsearch"}
    cut = lambda x: x if Path("again").exists() else _interrupted(x)  # noqa: E731  # two functions of one name
    with pytest.raises(KeyboardInterrupt):
        experiment.lagom(cut, **call)
    experiment.lagom(lambda x: 2 * x, **call)
    assert len(list(Path("studies").glob("*/study.json"))) == 2, "what an other function has found is not mixed in"
    Path("again").touch()
    experiment.lagom(cut, **call)
    assert len(list(Path("studies").glob("*/study.json"))) == 2


def test_an_edited_function_is_said_where_a_store_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    call: dict[str, Any] = {"searchspace": Searchspace(x=("DOUBLE", [0, 1])), "optimizer": "randomsearch"}
    experiment.lagom(lambda x: x, num_trials=1, **call)
    monkeyed = SearchFolders._begun.copy()
    SearchFolders._begun.clear()  # as in another process
    with caplog.at_level("WARNING"):
        experiment.lagom(lambda x: 2 * x, num_trials=2, **call)
    SearchFolders._begun.update(monkeyed)
    assert "has changed since the study was created" in caplog.text


def test_an_error_of_a_function_says_what_a_program_can_write() -> None:
    space = Searchspace(x=("DOUBLE", [0, 1]))
    with pytest.raises(TrialsFailedError, match="run the program again, with another store= than") as failed:
        experiment.lagom(lambda x: 1 / 0, searchspace=space, optimizer="randomsearch", num_trials=2)
    assert "resume=True" not in str(failed.value)
    with pytest.raises(NoTrialsError, match="No trial of 'nan' has a finite result"):
        experiment.lagom(lambda x: float("nan"), searchspace=space, optimizer="randomsearch", name="nan")
    with pytest.raises(UsageError, match="search space is empty: write searchspace="):
        experiment.lagom(lambda x: x, optimizer="randomsearch")


def _trial(number: int, state: TrialState, value: float | None, broadcast: float | None, ended_s: float) -> Trial:
    trial = Trial(id=TrialId(number), kept={"x": number}, node="n", state=state, value=value, ended_s=ended_s)  # type: ignore[arg-type]
    return trial.seen_in("", {} if broadcast is None else {"broadcast": broadcast})


def test_the_result_has_the_entries_of_lagom() -> None:
    done, stopped, failed = TrialState.COMPLETED, TrialState.STOPPED, TrialState.FAILED
    trials = [
        _trial(0, done, 2.0, 9.0, 3.0),
        _trial(1, stopped, None, 7.0, 1.0),
        _trial(2, done, 4.0, None, 2.0),
        _trial(3, failed, None, 8.0, 0.0),
    ]
    found = result_of_trials(trials, "max", dict, lambda trial: trial.id + 10)
    best = {"best_id": "trial-2", "best_val": 4.0, "best_config": {"x": 2}, "best_hp": {"x": 2}}
    worst = {"worst_id": "trial-0", "worst_val": 2.0, "worst_config": {"x": 0}, "worst_hp": {"x": 0}}
    counts = {"num_trials": 3, "early_stopped": 1, "metric_list": [7.0, 4.0, 2.0], "avg": 13 / 3}
    assert found == best | worst | counts | {"num_epochs": 11, "trial_id": "trial-1"}
    low = result_of_trials(trials, "min", dict, lambda trial: 0)
    assert (low["best_id"], low["worst_id"]) == ("trial-0", "trial-1")


def test_thousands_of_broadcasts_are_thinned_and_keep_their_steps() -> None:
    trial = StandaloneTrial({})
    reporter = Reporter(trial, hb_interval=1e9)
    for batch in range(5_000):
        reporter.broadcast(float(batch))
    reporter.broadcast(1.0, step=4_999)  # a step once more changes nothing
    assert trial.resource == ALL_SENT
    with pytest.raises(ValueError, match="the step before was 4999"):
        reporter.broadcast(1.0, step=3)
    with pytest.raises(TypeError, match=r"must be a number, and is 'a'"):
        reporter.broadcast("a")


@pytest.mark.parametrize(
    ("returned", "key", "found"),
    [
        (0, "metric", {"metric": 0.0}),
        ({"loss": 1, "log": "a"}, "loss", {"loss": 1.0}),
        ({"acc": 0.5, "loss": 2.0}, "Metric", {"Metric": 0.5, "acc": 0.5, "loss": 2.0}),
    ],
)
def test_the_result_is_what_a_function_returns(returned: Any, key: str, found: dict[str, float]) -> None:
    assert result_of(returned, key, "train") == found


class FirstTwo(AbstractEarlyStop):
    """A policy of a program's own."""

    @staticmethod
    def earlystop_check(to_check: Any, finalized_trials: Any, direction: str) -> Any:
        return to_check.trial_id if to_check.step_history[-1] >= 2 else None


def test_a_policy_of_the_program_stops_trials_on_the_driver(tmp_path: Path) -> None:
    def train(x: int, reporter: Any) -> float:
        for step in range(6):
            reporter.broadcast(step)
        return float(x)

    space = Searchspace(x=("DISCRETE", [3, 1, 2]))
    config = HyperparameterOptConfig(99, "gridsearch", space, es_min=0, es_policy=FirstTwo(), name="own")
    result = experiment.lagom(train, config)
    assert (result["num_trials"], result["early_stopped"], result["metric_list"]) == (3, 2, [3.0, 2.0, 2.0])
    assert "by FirstTwo" in Study.open(tmp_path / "kept" / "own").explain(1)


def test_without_hyper_parameters_each_trial_runs_the_function_once() -> None:
    assert experiment.lagom(lambda: 2.5, num_trials=3, name="plain")["metric_list"] == [2.5] * 3
    assert experiment.lagom(lambda reporter: 1.0)["best_config"] == {}


def train(x: float) -> float:
    return x


SPACE = Searchspace(x=("DOUBLE", [0, 1]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: experiment.lagom(train, searchspace=SPACE, optimizer="tpa"), "'randomsearch', 'asha'"),
        (lambda: experiment.lagom(train, searchspace=SPACE, optimiser="tpe"), "write optimizer='tpe'"),
        (lambda: experiment.lagom(lambda: 1, searchspace=SPACE, optimizer="tpe"), "does not take 'x' of the search"),
        (lambda: experiment.lagom(lambda x, y: 1, searchspace=SPACE, optimizer="tpe"), "needs 'y', which nobody gives"),
        (lambda: experiment.lagom(train, searchspace=SPACE, optimizer="gridsearch"), r"x=\('DISCRETE'"),
        (lambda: experiment.lagom(train, searchspace=SPACE, optimizer="asha"), "num_trials=8 or more"),
        (lambda: experiment.lagom(train, searchspace=SPACE), "optimizer='randomsearch'"),
        (lambda: experiment.launch(map_fun=train, searchspace=SPACE), "optimizer='randomsearch'"),
        (lambda: experiment.lagom(train, searchspace=SPACE, optimizer="tpe", direction="up"), "write 'min' or 'max'"),
        (lambda: experiment.lagom(train, searchspace=SPACE, optimizer="tpe", es_policy="mean"), "AbstractEarlyStop"),
        (lambda: experiment.lagom(train, experiment_type="ablation"), "AblationStudy"),
        (lambda: TorchDistributedConfig(module=object), "workers_per_trial=4"),
        (lambda: Searchspace(x=("REAL", [0, 1])), "DOUBLE, INTEGER, DISCRETE, CATEGORICAL"),
        (lambda: Searchspace(x=("INTEGER", [0.5, 1])), "two integers"),
    ],
)
def test_a_wrong_call_is_answered_before_anything_starts(call: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        call()
    assert not (tmp_path / "kept").exists()


PROGRAM = """
import os, signal, sys
from asyncsearch import maggy
from asyncsearch.maggy import Searchspace, experiment

def train(x, reporter):
    for step in range(5):
        reporter.broadcast(-x * (step + 1))
    if reporter.trial_id == "trial-7" and sys.argv[1] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return x

maggy.workers(1, backend="inline", display="none")
space = Searchspace(x=("DOUBLE", [0, 1]))
print(experiment.lagom(train, searchspace=space, optimizer="randomsearch", num_trials=12, es_min=2, name="mine"))
"""


def test_a_killed_driver_goes_on_by_the_same_line(tmp_path: Path) -> None:
    """The second run has the result of one that nobody killed, and the third begins anew."""
    folders = [tmp_path / "killed", tmp_path / "whole"]
    runs = []
    for folder, word in [(folders[0], "kill"), (folders[0], "go on"), (folders[1], "whole")]:
        folder.mkdir(exist_ok=True)
        (folder / "program.py").write_text(PROGRAM)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "program.py", word]
        runs.append(subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False))
    assert [run.returncode for run in runs] == [-signal.SIGKILL, 0, 0], runs[1].stderr
    assert runs[1].stdout == runs[2].stdout
    assert "'early_stopped': 0" not in runs[1].stdout
    assert [len(list((folder / "studies").iterdir())) for folder in folders] == [1, 1]

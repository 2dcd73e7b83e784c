"""The first calls of people who know other libraries: accepted, or answered by the line to write."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import asyncsearch
from asyncsearch import ASHA, StandaloneTrial, Study, Trainer, Trial, TrialState, choice, uniform
from asyncsearch.errors import AsyncSearchError, NoTrialsError, TrialsFailedError
from asyncsearch.ids import NodeKey, TrialId
from tests.first_calls.calls import ACCEPTED, REFUSED

SPACE = {"lr": uniform(0.0, 1.0)}


def train(trial: Any) -> None:
    if trial is not None:
        trial.report(loss=trial.params["lr"])


def function_of_nothing() -> None: ...


def function_of_two(trial: Any, data: Any) -> None: ...


def function_of_values(lr: float, layers: int) -> None: ...


def reads_config(config: Any) -> dict[str, float]:
    return {"loss": config["lr"]}


def suggests(trial: Any) -> None:
    trial.report(loss=trial.suggest_float("lr", 0.0, 1.0))


def yields(trial: Any) -> Any:
    yield {"loss": trial.params["lr"]}


async def awaits(trial: Any) -> None: ...


class Whole(Trainer):
    def train(self) -> None: ...

    def evaluate(self) -> Mapping[str, float]:
        return {"loss": 1.0}


class NoSave(Whole): ...


class NoEvaluate(Trainer):
    def train(self) -> None: ...


class NoTrain(Trainer):
    def evaluate(self) -> Mapping[str, float]:
        return {"loss": 1.0}


def study(trainable: Any = train, **options: Any) -> Study:
    return Study(trainable, **({"space": SPACE, "metric": "loss", "mode": "min", "backend": "processes"} | options))


NET = object()
TRIAL = Trial(TrialId(7), {"lr": 0.1}, NodeKey("node"), TrialState.COMPLETED)


def trial() -> StandaloneTrial:
    return StandaloneTrial({"lr": 0.1}, max_resource=3)


NAMES = (
    {name: getattr(asyncsearch, name) for name in asyncsearch.__all__ if not name.startswith(("Torch", "Keras"))}
    | {"asyncsearch": asyncsearch, "os": os}
    | globals()
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def faults_of_answer(call: str, words: str, folder: Path) -> list[str]:
    """Return what is wrong with the answer to a call: an empty list for an error with the words, and with no effect."""
    threads = threading.active_count()
    try:
        eval(call, NAMES)
    except (AsyncSearchError, AttributeError) as error:
        is_elsewhere = call.startswith(("StandaloneTrial({'lr': 0.1})", "trial()", "os.")) or not isinstance(
            error, AsyncSearchError
        )
        faults = {
            f"the answer lacks {words!r}: {error}": words not in str(error),
            "it is a wall of frames": not is_elsewhere and not hasattr(error, "_render_traceback_"),
            "something was started": threading.active_count() > threads,
            "something was written": list(folder.iterdir()) != [],
        }
        return [f"{call}: {fault}" for fault, is_there in faults.items() if is_there]
    return [f"{call}: it was accepted"]


def test_a_wrong_call_is_answered_by_the_line_to_write(folder: Path) -> None:
    assert [fault for call, words in REFUSED for fault in faults_of_answer(call, words, folder)] == []


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_searcher_may_be_given_by_name(name: str) -> None:
    if name in ("tpe", "cmaes", "nsgaii"):
        pytest.importorskip("optuna")
    if name == "cmaes":
        pytest.importorskip("cmaes")
    if name == "sobol":
        pytest.importorskip("scipy")
    made = study(searcher=name, space={"lr": choice(0.1, 0.2), "x": choice(1, 2)}, backend="inline")
    made.run(2, display="none")
    assert len(made.trials) == 2


def test_gaussian_processes_may_be_given_by_name() -> None:
    pytest.importorskip("optuna")
    pytest.importorskip("torch")
    assert study(searcher="gp").searcher.describe() == "OptunaSearch('gp')"


def wrapped(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def call(trial: Any) -> Any:
        return function(trial.params)

    return call


@wrapped
def decorated(config: Any) -> dict[str, float]:
    return {"loss": config["lr"]}


def rebinds(trial: Any) -> dict[str, float]:
    trial = trial.params
    return {"loss": trial["lr"]}


class Experiment:
    def __init__(self) -> None:
        self.config = {"lr": 0.1}

    def train(self, trial: Any) -> None:
        for _ in trial.epochs(save=lambda path: None, load=lambda path: None):
            trial.report(loss=self.config["lr"])


@pytest.mark.parametrize(
    "trainable",
    [
        Experiment().train,
        wrapped(reads_config),
        decorated,
        rebinds,
        functools.partial(function_of_two, data=3),
        lambda trial: trial.params["lr"],
    ],
)
def test_what_works_is_not_refused(trainable: Any) -> None:
    study(trainable)


def test_a_method_that_loops_over_epochs_may_be_paused() -> None:
    study(Experiment().train, scheduler=ASHA(max_resource=9))


def test_a_study_whose_trials_all_failed_says_so_and_how_to_see_why() -> None:
    made = study(lambda trial: 1 / 0, backend="inline", space={"lr": choice(0.1, 0.2)}, searcher="grid")
    with pytest.raises(TrialsFailedError, match="all 2 trials failed"):
        made.run(display="none")
    with pytest.raises(NoTrialsError, match=r"All 2 trials.*ZeroDivisionError.*print\(study.explain\(1\)\)"):
        _ = made.best_trial


def test_studies_that_run_together_may_have_trial_numbers_of_their_own() -> None:
    several = [study(store="a"), study(store="b")]
    asyncsearch.run_together(several, num_trials=[1, 3], parallelism=2, display="none")
    assert [len(one.trials) for one in several] == [1, 3]


HOPELESS = """
from asyncsearch import Study, uniform

def train(trial):
    trial.report(loss={}["missing"])

study = Study(train, space={"lr": uniform(0.0, 1.0)}, metric="loss", mode="min", backend="processes")
study.run(num_trials=50, parallelism=1)
"""


def test_what_only_a_trial_can_notice_is_answered_by_the_line_too() -> None:
    with pytest.raises(TrialsFailedError, match=r"(?s)test_first_calls.py.*randint\(1, 4\)") as caught:
        study(lambda trial: trial.suggest_int("x", 1, 4)).run(20, parallelism=2, display="none")
    assert "trainable.py" not in str(caught.value)


@pytest.mark.parametrize("num_trials", [1, 2])
def test_a_run_of_few_trials_that_all_fail_raises_and_holds_the_traceback(num_trials: int) -> None:
    with pytest.raises(TrialsFailedError, match=r"(?s)failed\. Correct it.*in <lambda>.*ZeroDivisionError") as caught:
        study(lambda trial: 1 / 0).run(num_trials, parallelism=1, display="none")
    assert str(caught.value).count("ZeroDivisionError") == 1


def test_a_run_with_one_trial_that_is_trained_does_not_raise() -> None:
    def fails_mostly(trial: Any) -> None:
        if trial.params["x"] != 3:
            raise ValueError(trial.params["x"])
        trial.report(loss=1.0)

    made = study(fails_mostly, backend="inline", space={"x": choice(1, 2, 3)}, searcher="grid")
    assert made.run(display="none").best_params == {"x": 3}


def test_running_again_what_failed_altogether_raises_again(folder: Path) -> None:
    made = study(lambda trial: 1 / 0, backend="inline", store=folder / "s")
    for _ in range(2):
        with pytest.raises(TrialsFailedError, match="the only trial failed"):
            made.run(1, display="none")


def test_a_script_whose_trials_all_raise_alike_shows_one_traceback(folder: Path) -> None:
    (folder / "tune.py").write_text(HOPELESS, encoding="utf-8")
    done = subprocess.run([sys.executable, "tune.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "trials fail in the same way, and none has finished: KeyError in" in done.stderr
    assert (done.stdout + done.stderr).count('in train\n    trial.report(loss={}["missing"])') == 1

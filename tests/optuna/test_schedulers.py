"""A scheduler of asyncsearch judges the trials of an Optuna study: they pause, and go on where they were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

import asyncsearch.optuna as ours
from asyncsearch import ASHA, PBT
from asyncsearch.errors import UsageError
from tests.shares import takes_long

ROOT = Path(__file__).parents[2]
COMPLETE, PRUNED = optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED


@pytest.fixture(autouse=True)
def _workers(quiet: None, tmp_path: Path) -> None:
    ours.workers(1, backend="inline", display="none", store=str(tmp_path / "kept"))


class Objective:
    """Adds one to a state in each step: the value tells whether the state and the step belong together."""

    def __init__(self, first_step: int = 0, mark: Path | None = None) -> None:
        """``mark``: a file that the first process to come to the seventh unit makes, before it is killed."""
        self.first_step, self.mark = first_step, mark

    def __call__(self, trial: Any) -> float:
        rate = trial.suggest_float("rate", 0.1, 1.0)
        units = np.zeros(1)
        begin = trial.checkpoint(first_step=self.first_step, units=units)
        for step in range(begin, self.first_step + 9):
            units += 1
            if self.mark is not None and step == self.first_step + 6 and not self.mark.exists():
                self.mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            trial.report(rate * float(units[0]), step)
            assert not trial.should_prune()
        return float(rate * units[0])


def require_rungs(study: optuna.Study, first_step: int = 0) -> None:
    """Check every trial: its steps, its values, its state; and that the best third of each rung went on."""
    reached = []
    for trial in study.trials:
        units = len(trial.intermediate_values)
        reached.append((trial.params["rate"], units))
        assert units in (1, 3, 9)
        assert trial.state is (COMPLETE if units == 9 else PRUNED)
        rate = trial.params["rate"]
        assert trial.intermediate_values == {first_step + unit: rate * (unit + 1) for unit in range(units)}
        assert trial.value == rate * units
    for below, above in ((1, 3), (3, 9)):
        there = sorted([(rate, units) for rate, units in reached if units >= below], reverse=True)
        assert all(units >= above for _, units in there[: len(there) // 3])


def rows(study: optuna.Study) -> list[Any]:
    return [(t.number, t.state, t.value, t.params, t.intermediate_values, t.user_attrs) for t in study.trials]


def test_promoted_trials_go_on_from_what_they_name() -> None:
    seen: list[int] = []
    study = ours.create_study(direction="maximize", study_name="mine", sampler=optuna.samplers.RandomSampler(seed=1))
    study.optimize(
        Objective(5), n_trials=9, scheduler=ASHA(max_resource=9), callbacks=[lambda _, trial: seen.append(trial.number)]
    )
    assert len(study.trials) == 9
    require_rungs(study, 5)
    assert study.get_trials(states=(COMPLETE,))
    assert sorted(seen) == list(range(9)), "a callback comes once for each trial"
    again = ours.create_study(direction="maximize", study_name="mine", load_if_exists=True)
    assert rows(again) == rows(study), "the journal tells the same"


def test_a_trial_that_is_stopped_is_pruned_with_its_last_report() -> None:
    def objective(trial: Any) -> float:
        value = trial.suggest_float("rate", 0.1, 1.0)
        for step in range(9):
            trial.report(value, step)
        return float(value)

    study = ours.create_study(direction="maximize", study_name="mine", sampler=optuna.samplers.RandomSampler(seed=1))
    study.optimize(objective, n_trials=9, scheduler=ASHA(max_resource=9, variant="stopping"))
    states = {trial.state for trial in study.trials}
    assert states == {COMPLETE, PRUNED}
    for trial in study.trials:
        assert trial.value == trial.params["rate"]
        assert (len(trial.intermediate_values) == 9) is (trial.state is COMPLETE)
    again = ours.create_study(direction="maximize", study_name="mine", load_if_exists=True)
    assert rows(again) == rows(study)


PROGRAM = """
import os, signal, sys, warnings
sys.path.insert(0, sys.argv[1])
import optuna as plain
import asyncsearch.optuna as optuna
from asyncsearch import ASHA
from tests.optuna.test_schedulers import Objective, require_rungs
warnings.simplefilter("ignore")
plain.logging.set_verbosity(plain.logging.CRITICAL)

def kill(study, trial):
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)

storage = None if sys.argv[3] == "memory" else "sqlite:///trials.db"
optuna.workers(1, backend="inline", store="kept", display="none")
study = optuna.create_study(
    study_name="mine", direction="maximize", storage=storage, load_if_exists=storage is not None,
    sampler=plain.samplers.RandomSampler(seed=1),
)
before = [trial.params for trial in study.trials]
study.optimize(Objective(), n_trials=9, scheduler=ASHA(max_resource=9), callbacks=[kill])
require_rungs(study)
assert [trial.params for trial in study.trials][:len(before)] == before
print(len(before), len(study.trials))
"""


@pytest.mark.parametrize("storage", ["memory", pytest.param("sqlite", marks=takes_long)])
def test_paused_trials_go_on_after_their_driver_was_killed(storage: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    runs = [
        subprocess.run(
            [sys.executable, script, str(ROOT), word, storage],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        for word in ("kill", "go on")
    ]
    assert [run.returncode for run in runs] == [-signal.SIGKILL, 0], runs[1].stderr
    known, total = map(int, runs[1].stdout.split())
    assert 0 < known <= total == 9


@takes_long
def test_a_trial_goes_on_elsewhere_after_its_process_was_killed(tmp_path: Path) -> None:
    ours.workers(2, backend="processes", display="none")
    study = ours.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1))
    study.optimize(Objective(1, tmp_path / "mark"), n_trials=12, scheduler=ASHA(max_resource=9))
    assert (tmp_path / "mark").exists()
    assert len(study.trials) == 12
    require_rungs(study, 1)


def test_a_scheduler_that_cannot_judge_is_refused() -> None:
    study, asha = ours.create_study(), ASHA(max_resource=9)
    two = ours.create_study(directions=["minimize", "minimize"])
    pruned = ours.create_study(pruner=optuna.pruners.PercentilePruner(25.0))
    for one, scheduler, options, words in (
        (study, "asha", {"n_trials": 3}, "scheduler="),
        (study, PBT(max_resource=9, perturbation_interval=3), {"n_trials": 3}, "PBT gives trials other parameters"),
        (two, asha, {"n_trials": 3}, "2 directions"),
        (pruned, asha, {"n_trials": 3}, "PercentilePruner.*leave out either"),
        (study, asha, {}, "needs the number of trials"),
    ):
        with pytest.raises(UsageError, match=words):
            one.optimize(Objective(), scheduler=scheduler, **options)
        assert one.trials == []
    with pytest.raises(UsageError, match=r"first = trial.checkpoint\(model=model"):
        study.optimize(never_asks, n_trials=3, scheduler=asha)


def never_asks(trial: Any) -> float:
    trial.report(trial.suggest_float("x", 0, 1), 0)
    return 0.0


def checkpoint_without_objects(trial: Any) -> float:
    return float(trial.checkpoint())


def too_many_reports(trial: Any) -> float:
    for step in range(trial.checkpoint(units=np.zeros(1)), 20):
        trial.report(0.0, step)
    return 0.0


def hidden_call(trial: Any) -> float:
    setattr(trial, "noted", True)  # noqa: B010  # the trial leaves the function
    trial.report(0.0, 0)
    return 0.0


@pytest.mark.parametrize(
    ("objective", "words"),
    [
        (checkpoint_without_objects, "names no objects"),
        (too_many_reports, "as many reports as the scheduler's max_resource"),
        (hidden_call, "does not say what it trains"),
    ],
)
def test_a_wrong_checkpoint_is_answered_in_words(objective: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        ours.create_study().optimize(objective, n_trials=1, scheduler=ASHA(max_resource=3, finish_best=True))


def test_without_a_scheduler_a_checkpoint_saves_nothing() -> None:
    study = ours.create_study()
    study.optimize(Objective(2), n_trials=1)
    assert list(study.trials[0].intermediate_values) == list(range(2, 11))

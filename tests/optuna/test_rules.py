"""Optuna's rules where trials run in processes, some of them at a time."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import optuna
import pytest

import asyncsearch.optuna as ours
from asyncsearch import Study
from asyncsearch.errors import NotPicklableError, UsageError
from asyncsearch.journal.opening import read_study_file
from asyncsearch.runner.seal import launch_key
from asyncsearch.store import open_store
from asyncsearch.study import run_parts
from tests.optuna.test_programs import rows
from tests.shares import takes_long

ROOT = Path(__file__).parents[2]
COMPLETE, FAIL, RUNNING = (
    optuna.trial.TrialState.COMPLETE,
    optuna.trial.TrialState.FAIL,
    optuna.trial.TrialState.RUNNING,
)


@pytest.fixture(autouse=True)
def _workers(quiet: None) -> None:
    ours.workers(2, backend="processes", display="none")


class ScaleError(ValueError):
    """An error with a value that its class needs."""

    def __init__(self, scale: int) -> None:
        super().__init__(f"scale {scale}")
        self.scale = scale


def test_a_pruned_trial_is_one_that_was_stopped_early(tmp_path: Path) -> None:
    def objective(trial: Any) -> float:
        for step in range(3):
            trial.report(float(trial.number + step), step)
            if trial.number and step == 1:
                raise optuna.TrialPruned(f"at {step}" if trial.number == 1 else "")
        return 7.0

    ours.workers(1, backend="inline", store=str(tmp_path / "kept"), display="none")
    study = ours.create_study()
    study.optimize(objective, n_trials=3)
    kept = Study.open(next((tmp_path / "kept").rglob("study.json")).parent)
    assert [(trial.state.name, trial.value) for trial in kept.trials] == [
        ("COMPLETED", 7.0),
        ("STOPPED", 2.0),
        ("STOPPED", 3.0),
    ]
    assert [trial.reason for trial in kept.trials[1:]] == ["pruned: at 1", "pruned"]
    assert [(trial.state.name, trial.value) for trial in study.trials][1:] == [("PRUNED", 2.0), ("PRUNED", 3.0)]


def test_two_workers_keep_the_rules_of_one_study(caplog: pytest.LogCaptureFixture) -> None:
    """No point of a grid twice, callbacks one at a time, every trial at its end, attributes as they were set."""
    found: list[int] = []
    calls: list[tuple[int, int]] = []
    busy = threading.Lock()

    def objective(trial: Any) -> float:
        found.append(trial.number)  # on the worker, which is said
        x, y = trial.suggest_int("x", 0, 2), trial.suggest_int("y", 0, 1)
        trial.report(x, 0)
        trial.set_user_attr("point", (x, y))
        return float(x + y)

    def callback(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        assert busy.acquire(blocking=False)
        calls.append((trial.number, len(study.get_trials(states=(COMPLETE,)))))
        busy.release()

    sampler = optuna.samplers.GridSampler({"x": [0, 1, 2], "y": [0, 1]}, seed=1)
    study = ours.create_study(sampler=sampler)
    study.optimize(objective, callbacks=[callback])
    finished = study.get_trials(states=(COMPLETE,))
    assert {trial.user_attrs["point"] for trial in finished} == {(x, y) for x in range(3) for y in range(2)}
    assert not study.get_trials(states=(RUNNING,))
    assert [count for _, count in calls] == list(range(1, len(calls) + 1))
    assert found == []
    assert "changes found on its worker" in caplog.text


def test_an_exception_is_raised_as_itself_and_a_lost_trial_fails() -> None:
    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 0, 1)
        trial.report(x, 3)
        if trial.number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if trial.number == 3:
            raise ScaleError(7)
        return float(x)

    study = ours.create_study()
    with pytest.raises(ScaleError, match="scale 7") as caught:
        study.optimize(objective, n_trials=20)
    assert "raise ScaleError(7)" in str(caught.value.__cause__)
    assert caught.value.scale == 7
    states = {trial.number: trial.state for trial in study.trials}
    assert states[1] is FAIL
    assert study.trials[1].intermediate_values == {3: study.trials[1].params["x"]}
    assert states[3] is FAIL
    assert all(state is COMPLETE for number, state in states.items() if number not in (1, 3))
    assert len(states) < 20


@takes_long
def test_a_lost_trial_runs_again_where_that_is_asked_for() -> None:
    ours.workers(1, backend="processes", display="none", retries_lost=True)

    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 0, 1)
        if trial.number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return float(x)

    study = ours.create_study()
    study.optimize(objective, n_trials=3)
    assert [trial.state for trial in study.trials] == [COMPLETE, FAIL, COMPLETE, COMPLETE]
    assert study.trials[2].params == study.trials[1].params
    assert study.trials[2].system_attrs["retry_history"] == [1]


PROGRAM = """
import os, signal, sys, warnings
import optuna as plain
import asyncsearch.optuna as optuna
warnings.simplefilter("ignore")
plain.logging.set_verbosity(plain.logging.CRITICAL)

def objective(trial):
    x = trial.suggest_float("x", 0, 1)
    trial.report(x, 1)
    trial.set_user_attr("pair", (trial.number, x))
    return x

def kill(study, trial):
    study.set_user_attr("best", (trial.number, study.best_value))
    if sys.argv[1] == "kill" and trial.number == 3:
        os.kill(os.getpid(), signal.SIGKILL)

optuna.workers(1, backend="inline", store="kept", display="none")
study = optuna.create_study(study_name="mine", sampler=plain.samplers.RandomSampler(seed=1))
first = study.user_attrs.get("best")
study.optimize(objective, n_trials=6, callbacks=[kill])
print("attribute", study.user_attrs["best"][1] == study.best_value, first)
for trial in study.trials:
    print(trial.state.name, trial.values, trial.params, trial.user_attrs, trial.intermediate_values)
"""


def test_a_killed_driver_goes_on_by_the_same_line(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    runs = [
        subprocess.run(
            [sys.executable, script, word], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        for word in ("kill", "go on", "once more")
    ]
    assert [run.returncode for run in runs[:2]] == [-signal.SIGKILL, 0], runs[1].stderr
    attribute, *lines = runs[1].stdout.splitlines()
    assert attribute.startswith("attribute True (2, 0."), "what the callback had set last before the kill"
    done = [line for line in lines if line.startswith("COMPLETE")]
    assert len(done) == 6
    # The trial whose callback killed the driver had not ended, and is known if it was written that it had begun.
    assert [line.split()[0] for line in lines if line not in done] in ([], ["FAIL"])
    assert lines.index(done[2]) == 2
    assert len(set(lines)) == len(lines), "nothing is drawn twice"
    assert "holds a study that came to its end" in runs[2].stderr


def test_a_run_tells_its_story_and_goes_on_by_its_program_alone(tmp_path: Path) -> None:
    ours.workers(1, backend="inline", store=str(tmp_path / "kept"), display="none")
    study = ours.create_study(study_name="told", sampler=optuna.samplers.RandomSampler(seed=1))
    study.optimize(lambda trial: float(trial.suggest_int("depth", 1, 9)), n_trials=2)
    folder = tmp_path / "kept" / "told" / "1"
    story = Study.open(folder).explain("trial-1")
    file = read_study_file(open_store(folder))
    assert file is not None
    assert (file.trainable, file.script) == ("<lambda>", __file__)
    assert f"suggested depth, value {study.trials[1].params['depth']}" in story
    assert "ended COMPLETE" in story
    assert [trial.params for trial in Study.open(folder).trials] == [trial.params for trial in study.trials]
    with pytest.raises(UsageError, match="run that program again"):
        Study.resume(folder).run(3, display="none")


def test_no_file_of_a_study_holds_the_key_of_a_seal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[bytes] = []

    def kept(*launch: Any) -> bytes:
        keys.append(launch_key(*launch))
        return keys[-1]

    monkeypatch.setattr(run_parts, "launch_key", kept)
    ours.workers(1, backend="inline", store=str(tmp_path / "kept"), display="none")
    study = ours.create_study()
    study.optimize(lambda trial: trial.set_user_attr("object", {1}) or trial.suggest_float("x", 0, 1), n_trials=1)
    assert study.trials[0].user_attrs == {"object": {1}}
    (key,) = keys
    written = b"".join([file.read_bytes() for file in (tmp_path / "kept").rglob("*") if file.is_file()])
    assert written
    assert not [one for one in (key, key.hex().encode(), base64.b64encode(key)) if one in written]


def test_what_cannot_be_sent_is_named_with_the_line_to_write() -> None:
    lock = threading.Lock()

    def objective(trial: Any) -> float:
        with lock:
            return float(trial.suggest_float("x", 0, 1))

    study = ours.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    with pytest.raises(NotPicklableError, match=r"variable 'lock'.*optuna.workers\(backend='threads'\)"):
        study.optimize(objective, n_trials=2)
    assert study.trials == []
    ours.workers(1, backend="threads", display="none")
    study.optimize(objective, n_trials=2)
    theirs = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    theirs.optimize(objective, n_trials=2)
    assert rows(study) == rows(theirs)

"""The folder of a trial whose worker or process is killed: what was there at its checkpoint, and nothing twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from asyncsearch import Study
from asyncsearch.study.trial_dirs import place_in
from asyncsearch.trainable import TrialContext
from tests.shares import takes_long
from tests.system.tools import Running, make_study, require_gone
from tests.system.trained import Gate


def make_writer(gate: Gate) -> Callable[[TrialContext], None]:
    """Return a trainable that notes each unit in its folder, and waits at the gate in the middle of one, once."""
    passed = gate.said.with_name("passed")

    def save(path: Path) -> None:
        path.write_text("saved")

    def load(path: Path) -> None:
        path.read_text()

    def train(trial: TrialContext) -> None:
        for unit in trial.epochs(save=save, load=load):
            with (trial.dir / "units.txt").open("a") as file:
                file.write(f"{unit} ")
            if trial.name == "trial-0" and unit == 5 and not passed.exists():
                passed.write_text("")
                gate.wait()
            trial.report(loss=trial.params["x"] / unit)

    return train


def require_each_unit_once(study: Study) -> None:
    for trial in study.trials:
        with study.trial_dir(trial) as folder:
            assert (folder / "units.txt").read_text().split() == [str(unit) for unit in range(1, trial.resource + 1)]


@pytest.mark.parametrize(
    ("place", "victim"),
    [
        ("", "runner"),
        ("file://", "agent"),
        pytest.param("", "agent", marks=takes_long),
        pytest.param("file://", "runner", marks=takes_long),
    ],
)
def test_a_killed_process_costs_what_was_written_since_the_last_checkpoint(
    victim: str, place: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path).make()
    running = Running(make_study(make_writer(gate), f"{place}{tmp_path}/study", max_failures=1))
    runner, agent = gate.pids()
    os.kill(runner if victim == "runner" else agent, signal.SIGKILL)
    study = running.wait()
    require_gone([runner])
    first = study.trials[0]  # of others the agent may still have been storing a checkpoint
    assert first.losses + first.failures == 1
    require_each_unit_once(study)
    assert len(place_in(study.store).checkpoints()) <= len(study.trials), "a folder is kept once"

"""All ranks of a trial end alike: stopped at one unit, paused, failed with the error of the rank that failed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from asyncsearch import ASHA, TrialContext, TrialState
from asyncsearch.actions import StopTraining
from asyncsearch.store import open_store
from asyncsearch.trainable import Trainable
from tests.gangs.searches import await_action, counting, grid, linear, require_same_units
from tests.shares import takes_long
from tests.system.tools import Running
from tests.system.trained import Gate

TRIALS = 6


def failing(trial: TrialContext, unit: int, place: str) -> None:
    if (trial.params["number"], unit, trial.rank, place) == (1, 2, 1, "step"):
        raise ValueError("bad luck")


def reporting_once(trial: TrialContext) -> None:
    group = trial.process_group()
    for unit in trial.epochs():
        sys.stdout.write(f"unit {unit} of rank {trial.rank}\n")
        torch.distributed.barrier(group=group)  # a rank that ends before the others have met would end theirs
        if trial.rank == 0:
            trial.report(loss=1.0 / unit)


@takes_long  # a pause: test_same_results.py; a stop in a sum: the next test
@pytest.mark.slow
def test_every_rank_of_a_stopped_trial_trains_the_same_units(tmp_path: Path) -> None:
    (tmp_path / "units").mkdir()
    scheduler = ASHA(max_resource=9, reduction_factor=3, variant="stopping")
    study = grid(linear(counting(tmp_path / "units")), tmp_path / "s", 2, TRIALS, scheduler=scheduler)
    study.run(parallelism=2, display="none")
    require_same_units(study, tmp_path / "units")


def held_in_a_sum(gate: Gate, folder: Path) -> Trainable:
    """Return a function whose rank 1 waits at the gate, in the first unit of number 1, while rank 0 is in a sum."""
    happen = counting(folder)

    def train(trial: TrialContext) -> None:
        group = trial.process_group()
        for unit in trial.epochs():
            trial.report(loss=float(trial.params["number"]))
            if (trial.params["number"], unit, trial.rank) == (1, 1, 1):
                gate.wait()
            torch.distributed.all_reduce(torch.ones(1), group=group)
            happen(trial, unit, "end")

    return train


@pytest.mark.slow
def test_a_stop_decided_during_a_sum_ends_all_ranks_after_the_same_unit(tmp_path: Path) -> None:
    gate = Gate(tmp_path).make()
    (tmp_path / "units").mkdir()
    scheduler = ASHA(max_resource=9, reduction_factor=3, variant="stopping")
    study = grid(held_in_a_sum(gate, tmp_path / "units"), tmp_path / "s", 2, 2, scheduler=scheduler)
    running = Running(study)
    gate.pids()
    await_action(study, StopTraining)
    gate.open()
    running.wait()
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETED, TrialState.STOPPED]
    first, second = ((tmp_path / "units" / f"1 {rank}").read_text() for rank in (0, 1))
    assert first == second
    assert first.startswith("1\n"), "the sum that the decision came in was ended"


@pytest.mark.slow
def test_an_error_of_one_rank_fails_its_trial_with_that_error(tmp_path: Path) -> None:
    study = grid(linear(failing), tmp_path / "s", 2, 3).run(parallelism=2, display="none")
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETED, TrialState.FAILED, TrialState.COMPLETED]
    assert study.trials[1].reason == "ValueError: bad luck"
    told = str(study.explain(1))
    assert "In rank 1 of a gang of 2 workers" in told
    assert 'raise ValueError("bad luck")' in told


@pytest.mark.slow
def test_one_rank_may_report_for_all_and_each_has_its_lines_in_the_log(tmp_path: Path) -> None:
    study = grid(reporting_once, tmp_path / "s", 2, 1).run(parallelism=2, display="none")
    assert study.trials[0].value == pytest.approx(0.25)
    log = "".join(open_store(str(tmp_path / "s")).read_log("trial-0"))
    assert "O unit 4 of rank 0" in log
    assert "O [rank 1] unit 4 of rank 1" in log

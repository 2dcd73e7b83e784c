"""Trials that get more workers where some are free: on real processes, with the results of one worker."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from asyncsearch import ASHA, FIFO, Autoscale, Study, TrialContext
from asyncsearch.actions import Assign
from asyncsearch.errors import UsageError
from asyncsearch.events import VolumeMeasured, WorkerAttached
from asyncsearch.journal.opening import read_records
from asyncsearch.simulate import TrainingModel
from asyncsearch.sizing.autoscale import KnownSpeed
from tests.faults.accounts import wait_until
from tests.gangs.searches import BATCHES, Happen, digits, grid, linear, require_lines
from tests.system.tools import PATIENCE_S, Running

UNITS = 20
BYTES = 1_000_000
"""Of gradients, that a function tells."""
STEP_S = 0.2
"""Of a step on one worker: more than the messages take by which the engine hears of a unit, and the trial of a cut."""


def working(folder: Path) -> Happen:
    """Return what takes long in each step on one worker alone, whose second unit ends once there is another worker."""
    there = str(folder / "there")

    def happen(trial: TrialContext, unit: int, place: str) -> None:
        if place != "step":
            return
        if trial.world_size == 1:
            until_s = time.monotonic() + PATIENCE_S
            while unit > 1 and not Path(there).exists():
                assert time.monotonic() < until_s, "there is no second worker"
                time.sleep(0.02)
            time.sleep(STEP_S)
        trial.note_volume(BATCHES, BYTES)

    return happen


def sizes(study: Study) -> list[int]:
    actions = (action for record in read_records(study.store) for action in record.actions)
    return [1 + len(action.work.followers) for action in actions if isinstance(action, Assign)]


@pytest.mark.slow
def test_the_last_trials_get_the_workers_that_are_free_and_end_as_on_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else a slow start of the first worker decides whether a second one pays: tests/sizing and tests/engine count it.
    monkeypatch.setattr(KnownSpeed, "start_s", lambda self, size: 0.0)
    scheduler = FIFO(max_resource=UNITS)
    alone = grid(linear(), tmp_path / "alone", None, 1, backend="inline", scheduler=scheduler).run(display="none")
    function = linear(working(tmp_path))
    study = grid(function, tmp_path / "s", None, 1, autoscale=Autoscale(0.2), scheduler=scheduler)
    running = Running(study)
    wait_until(study, lambda event: isinstance(event, WorkerAttached) and event.worker == 1)
    (tmp_path / "there").touch()
    running.wait()
    found = sizes(study)
    assert set(found) == {1, 2}, "it changes its size, since it gains by it"
    assert found == sorted(found), "and not back"
    require_lines(study, alone)
    story = " ".join(str(study.explain(0)).split())
    assert "returned to the queue for a worker: it goes on with 2 workers: " in story
    assert re.search(r"together with worker-[01] \(2 workers: ", story)
    assert "an efficiency of " in story
    (volume,) = {
        (event.steps, event.gradient_bytes)
        for record in read_records(study.store)
        if isinstance(event := record.event, VolumeMeasured)
    }
    assert volume == (BATCHES, BYTES)
    assert study.trials[0].trained == UNITS, "no unit is trained twice"


@pytest.mark.slow
def test_a_trainer_tells_its_volume_and_ends_as_without_autoscaling(tmp_path: Path) -> None:
    scheduler = ASHA(max_resource=3)
    alone = digits(tmp_path / "alone", None, scheduler=scheduler, backend="inline").run(2, display="none")
    study = digits(tmp_path / "s", None, scheduler=scheduler, autoscale=Autoscale(0.01, max_size=2))
    study.run(2, parallelism=2, display="none")
    assert [trial.resource for trial in study.trials] == [trial.resource for trial in alone.trials]
    for one, other in zip(study.trials, alone.trials, strict=True):
        assert one.value == pytest.approx(other.value, abs=1e-9)
    told = [event for record in read_records(study.store) if isinstance(event := record.event, VolumeMeasured)]
    steps, weights = -(-501 // 50), 64 * 16 + 16 + 16 * 10 + 10
    assert {(event.steps, event.gradient_bytes) for event in told} == {(steps, 8 * weights)}
    assert len({event.device for event in told}) == 1


def test_a_preview_says_what_more_workers_gain_in_the_last_rung(tmp_path: Path) -> None:
    study = digits(tmp_path / "s", None, scheduler=ASHA(max_resource=27), autoscale=Autoscale(0.7))
    seen = study.preview(30, parallelism=4, gang_speedup={2: 1.9, 4: 2.96})
    assert "The last rung takes 18 units on one worker, 6.08 on 4, with the gain of preview(" in seen.scaled
    assert seen.expected is not None
    assert seen.alone is not None
    assert seen.expected.wall_s < seen.alone.wall_s
    text = " ".join(str(seen).split())
    assert "Autoscaling saves" in text
    assert "and more workers do not shorten it" not in text
    assert "on 3, with" in study.preview(30, parallelism=4, gang_speedup={2: 1.9, 4: 2.7}).scaled
    assert "of the least efficiency, 0.7, since nothing was measured" in study.preview(30, parallelism=4).scaled
    with pytest.raises(UsageError, match="gang_speedup"):
        study.preview(30, parallelism=4, gang_speedup={2: -1.0})


def test_what_cannot_be_scaled_is_refused(tmp_path: Path) -> None:
    def alone(trial: TrialContext) -> None:
        trial.report(loss=1.0)

    with pytest.raises(UsageError, match=r"autoscale=: alone reads neither trial\.process_group"):
        grid(alone, tmp_path / "a", None, autoscale=Autoscale())
    bounded = FIFO(max_resource=3)
    with pytest.raises(UsageError, match="max_size=2 is below the 4 workers"):
        digits(tmp_path / "b", 4, scheduler=bounded, autoscale=Autoscale(max_size=2))
    with pytest.raises(UsageError, match="autoscale= and pack=: one trains a trial on several workers"):
        digits(tmp_path / "c", None, scheduler=bounded, autoscale=Autoscale(), pack=2)
    with pytest.raises(UsageError, match="gang_speedup: workers"):
        TrainingModel(gang_speedup={0: 1.0})

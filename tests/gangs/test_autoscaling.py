"""Trials that get more workers where some are free: on real processes, with the results of one worker."""

from __future__ import annotations

import re
import time
from pathlib import Path

import psutil
import pytest

from asyncsearch import ASHA, FIFO, Autoscale, Study, TrialContext
from asyncsearch.actions import Assign
from asyncsearch.errors import UsageError
from asyncsearch.events import VolumeMeasured
from asyncsearch.journal.opening import read_records
from asyncsearch.simulate import TrainingModel
from tests.gangs.searches import BATCHES, Happen, digits, grid, linear, once, require_lines
from tests.system.tools import agent_pid

UNITS = 40
BYTES = 1_000_000
"""Of gradients, that a function tells."""
LEAST_START_S = 2.0
"""What the engine supposes that a start takes at least."""


def working(folder: Path, units: int) -> Happen:
    """Return what computes for so long in each step, which workers share, that a second worker pays on any machine.

    It saves half of all steps, which must be more than twice what the start of the first worker took, as is known from
    the first step on; it is twice as much as that.
    """
    pace = str(folder / "pace")

    def happen(trial: TrialContext, _unit: int, place: str) -> None:
        if place != "step":
            return
        if once(Path(pace).parent, "measured"):
            start_s = max(LEAST_START_S, time.time() - psutil.Process(agent_pid()).create_time())
            Path(pace).write_text(str(8 * start_s / (units * BATCHES)))
        time.sleep(float(Path(pace).read_text()) / trial.world_size)
        trial.note_volume(BATCHES, BYTES)

    return happen


def sizes(study: Study) -> list[int]:
    actions = (action for record in read_records(study.store) for action in record.actions)
    return [1 + len(action.work.followers) for action in actions if isinstance(action, Assign)]


@pytest.mark.slow
def test_the_last_trials_get_the_workers_that_are_free_and_end_as_on_one(tmp_path: Path) -> None:
    scheduler = FIFO(max_resource=UNITS)
    alone = grid(linear(), tmp_path / "alone", None, 1, backend="inline", scheduler=scheduler).run(display="none")
    function = linear(working(tmp_path, UNITS))
    study = grid(function, tmp_path / "s", None, 1, autoscale=Autoscale(0.2), scheduler=scheduler)
    study.run(parallelism=2, display="none")
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
    scheduler = ASHA(max_resource=9)
    alone = digits(tmp_path / "alone", None, scheduler=scheduler, backend="inline").run(3, display="none")
    study = digits(tmp_path / "s", None, scheduler=scheduler, autoscale=Autoscale(0.01, max_size=2))
    study.run(3, parallelism=2, display="none")
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

"""A metric that is not there yet is not a bad one: in every scheduler, packed or not, with and without sharing."""

from __future__ import annotations

import math
from typing import Any

import pytest

from asyncsearch.actions import EndRun
from asyncsearch.engine.state import StudyState
from asyncsearch.events import AnyEvent, Reported
from asyncsearch.ids import TrialId
from asyncsearch.listener import StudyListener
from asyncsearch.schedulers import ASHA, FIFO, SHA, Hyperband, MedianStopping
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.sequences import multistep
from asyncsearch.simulate import Simulation
from asyncsearch.simulate.workloads import Curves
from asyncsearch.space import Space, choice
from asyncsearch.testing.recording import SPACE
from asyncsearch.trial import TrialState
from tests.engine.tools import PACKED_SCHEDULERS, Recorded, packed_state, replayed

STAGES = Space.of({"lr": choice(0.1, multistep(0.1, [2], 0.1), multistep(0.1, [3], 0.5)), "x": choice(1, 2)})
STOPPING = (ASHA(max_resource=9, variant="stopping"), MedianStopping(max_resource=9, min_trials=1))


class LateMetric(Simulation):
    """Workers whose trials validate every ``every`` units, and report their training loss at each."""

    every = 3
    diverged: frozenset[int] = frozenset()
    """Trials whose metric is NaN where others have a value."""

    def _send(self, event: AnyEvent) -> None:
        if isinstance(event, Reported):
            attempt = self.state.attempts[event.lease.number + event.lane]
            value = "NaN" if attempt.trial in self.diverged else event.metrics["loss"]
            metrics: dict[str, Any] = {"train_loss": 1.0}
            if event.resource % self.every == 0:
                metrics["loss"] = value
            event = Reported(event.lease, event.resource, metrics, event.lane)
        super()._send(event)


def search(
    scheduler: Scheduler, every: int, pack: int | None = None, space: Space = SPACE, diverged: tuple[int, ...] = ()
) -> tuple[StudyState, EndRun, Recorded]:
    state = packed_state(scheduler, pack, space)
    recorded = Recorded(state)
    simulation = LateMetric(state, workers=2, watch=recorded, workload=Curves(seed=1, spread=0.5))
    simulation.every, simulation.diverged = every, frozenset(diverged)
    end = simulation.run(12 if space is SPACE else 6)
    assert end is not None
    return state, end, recorded


PLACES = [
    pytest.param(2, None, SPACE, id="every 2"),
    pytest.param(4, 4, SPACE, id="every 4 packed"),
    pytest.param(3, None, STAGES, id="every 3 in stages"),
    pytest.param(2, 4, STAGES, id="every 2 packed in stages"),
]


@pytest.mark.parametrize(("every", "pack", "space"), PLACES)
@pytest.mark.parametrize("scheduler", PACKED_SCHEDULERS)
def test_a_late_metric_is_waited_for_or_the_run_says_where_it_was_missing(
    scheduler: Scheduler, every: int, pack: int | None, space: Space
) -> None:
    if scheduler.branches:  # PBT changes numbers
        space = SPACE
    state, end, _ = search(scheduler, every, pack, space)
    if end.error_kind:
        assert end.error_kind == "MetricNotReportedError"
        assert "never reported 'loss'; reported so far: " in end.reason
        assert "'train_loss'" in end.reason
        assert "was to pause at " in end.reason
        assert scheduler.pauses, "a scheduler that pauses nothing can wait for the metric"
    else:
        assert end.is_complete
        for trial in state.trials:
            assert trial.state is not TrialState.FAILED, trial.reason
            assert trial.value_resource % every == 0
            assert trial.value is not None, trial.reason


@pytest.mark.parametrize("pack", [None, 4], ids=["alone", "packed"])
@pytest.mark.parametrize("scheduler", STOPPING, ids=["asha", "median"])
def test_a_value_that_is_not_finite_is_still_the_worst_beside_late_metrics(
    scheduler: Scheduler, pack: int | None
) -> None:
    state, end, recorded = search(scheduler, 3, pack, diverged=(3, 5, 7))
    assert end.is_complete
    for number in (5, 7):
        trial = state.trials[number]
        assert trial.state is TrialState.STOPPED
        assert "not finite" in trial.reason
        assert trial.resource >= 3
    again = replayed(packed_state(scheduler, pack), recorded.lines)
    assert [t.reason for t in again.trials] == [t.reason for t in state.trials]


def test_a_rung_below_every_first_metric_ends_a_run_with_other_brackets() -> None:
    """Else each trial of the first bracket would fail by itself, as if it alone were at fault."""
    _, end, _ = search(Hyperband(max_resource=9, variant="rounds", brackets=(3, 2)), every=3)
    assert end.error_kind == "MetricNotReportedError"
    assert "was to pause at 1" in end.reason
    reported, end, _ = search(Hyperband(max_resource=9, min_resource=3), every=3)
    assert end.is_complete
    assert all(trial.value is not None for trial in reported.trials)


class Listening(StudyListener):
    """Keeps what it is told of reports."""

    def __init__(self) -> None:
        self.heard: list[tuple[TrialId, int, float | None]] = []

    def reported(self, trial: TrialId, resource: int, score: float | None) -> None:
        self.heard.append((trial, resource, score))

    def snapshot(self) -> dict[str, Any]:
        return {}

    def restore(self, snapshot: dict[str, Any]) -> None:
        pass


def test_own_schedulers_and_searchers_see_no_report_before_the_first_value() -> None:
    state = packed_state(FIFO(max_resource=9), None)
    listening = Listening()
    state.listeners = (*state.listeners, listening)
    simulation = LateMetric(state, workers=1, workload=Curves(seed=1))
    simulation.diverged = frozenset({1})
    simulation.run(2)
    assert [resource for trial, resource, _ in listening.heard if trial == 0] == list(range(3, 10))
    assert all(score is not None and math.isfinite(score) for trial, _, score in listening.heard if trial == 0)
    assert (TrialId(1), 3, None) in listening.heard
    assert min(resource for trial, resource, _ in listening.heard if trial == 1) == 3


def test_a_trial_that_alone_never_reports_fails_alone() -> None:
    """Others reported at or before the rung: then it is not the rung that lies too low."""

    class OneSilent(LateMetric):
        def _send(self, event: AnyEvent) -> None:
            if isinstance(event, Reported) and self.state.attempts[event.lease.number].trial == 2:
                event = Reported(event.lease, event.resource, {"train_loss": 1.0})
            Simulation._send(self, event)

    state = packed_state(SHA(max_resource=9), None)
    end = OneSilent(state, workers=2, workload=Curves(seed=1)).run(9)
    assert end is not None
    assert end.is_complete
    assert not end.error_kind
    assert [trial.id for trial in state.trials if trial.state is TrialState.FAILED] == [2]
    assert "trial-2 was to pause at 1 and never reported 'loss'" in state.trials[2].reason

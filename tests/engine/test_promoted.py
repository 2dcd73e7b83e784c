"""A search of which every trial that goes on fails has failed, and says where."""

from __future__ import annotations

from typing import Any

import pytest

from asyncsearch import Study
from asyncsearch.actions import EndRun
from asyncsearch.engine import snapshot
from asyncsearch.engine.promoted import failed_as_a_whole
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import TrialsFailedError
from asyncsearch.ids import TrialId
from asyncsearch.report.live.lines import title
from asyncsearch.report.live.status_of import status_of
from asyncsearch.schedulers import ASHA, FIFO, PBT, SHA, Hyperband
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.simulate import Simulation
from asyncsearch.simulate.workloads import Curves
from asyncsearch.space import uniform
from asyncsearch.testing.recording import restored
from asyncsearch.trial import TrialState
from tests.engine.tools import packed_state

GOES_ON = [
    pytest.param(ASHA(max_resource=9), id="asha"),
    pytest.param(ASHA(max_resource=9, variant="stopping"), id="stopping"),
    pytest.param(ASHA(max_resource=9, finish_best=True), id="finish best"),
    pytest.param(SHA(max_resource=9), id="sha"),
    pytest.param(Hyperband(max_resource=9, brackets=1), id="hyperband"),
    pytest.param(PBT(max_resource=9, perturbation_interval=1), id="pbt"),
]


class Failing(Curves):
    """Trials that fail in the unit after ``units``, except some."""

    def __init__(self, units: int, sound: tuple[int, ...] = ()) -> None:
        super().__init__(seed=1)
        self.units, self.sound = units, sound

    def fails_after(self, trial: TrialId) -> tuple[int, float] | None:
        return None if trial in self.sound else (self.units, 0.5)


def search(scheduler: Scheduler, units: int, sound: tuple[int, ...] = (), pack: int | None = None) -> Any:
    state = packed_state(scheduler, pack)
    end = Simulation(state, workers=2, workload=Failing(units, sound)).run(9)
    return state, end


@pytest.mark.parametrize("pack", [None, 3], ids=["alone", "packed"])
@pytest.mark.parametrize("scheduler", GOES_ON)
def test_a_search_fails_if_every_trial_that_goes_on_does(scheduler: Scheduler, pack: int | None) -> None:
    state, end = search(scheduler, 1, pack=pack)
    assert isinstance(end, EndRun)
    assert (end.error_kind, end.is_complete) == ("TrialsFailedError", True)
    are_all_failed = all(trial.state is TrialState.FAILED for trial in state.trials)
    assert (
        "all 9 trials failed" in end.reason
        if are_all_failed
        else "failed: it failed as the workload says" in end.reason
    )
    words = title(status_of(state))
    assert "failed" in words
    assert "finished" not in words
    again = restored(state, packed_state(scheduler, pack))
    assert failed_as_a_whole(again.trials, again.promoted) == failed_as_a_whole(state.trials, state.promoted)


@pytest.mark.parametrize("scheduler", GOES_ON)
def test_a_search_of_which_one_trial_gets_on_has_not_failed(scheduler: Scheduler) -> None:
    state, _ = search(scheduler, 1, sound=tuple(range(9)))
    went_on = [t.id for t in state.trials if t.resource > 1]
    state, end = search(scheduler, 1, sound=(went_on[0],))
    assert not end.error_kind, end.reason
    assert any(trial.resource > 1 and trial.state is not TrialState.FAILED for trial in state.trials)


def test_failures_beyond_a_rung_that_others_have_passed_fail_no_search() -> None:
    _, end = search(ASHA(max_resource=9), 4)
    assert not end.error_kind


def test_a_search_with_failed_and_complete_trials_has_not_failed() -> None:
    _, end = search(FIFO(max_resource=3), 1, sound=(4,))
    assert not end.error_kind


def test_what_promotions_came_to_is_in_the_snapshot() -> None:
    state, _ = search(ASHA(max_resource=9), 1)
    found = snapshot.decode(snapshot.encode(state, 1))
    assert found is not None
    assert found.promoted == state.promoted
    assert isinstance(state, StudyState)


def explode(trial: Any) -> None:
    weights = {"x": 1.0}
    for epoch in trial.epochs(state={"weights": weights}):
        if epoch == 2:
            raise ValueError("exploded")
        trial.report(loss=trial.params["x"])


def test_run_and_resume_raise_with_the_line(tmp_path: Any) -> None:
    def study(resume: bool) -> Study:
        options: dict[str, Any] = {"scheduler": ASHA(max_resource=9), "store": tmp_path / "st", "backend": "inline"}
        return Study(explode, space={"x": uniform(0, 1)}, metric="loss", mode="min", resume=resume, **options)

    line = explode.__code__.co_firstlineno + 4
    for resume in (False, True):
        with pytest.raises(TrialsFailedError) as raised:
            study(resume).run(num_trials=9, parallelism=1, display="none")
        assert f'ValueError: exploded, in "{__file__}", line {line}' in str(raised.value)
    assert study(True).best_trial.value is not None, "what was reported is kept"

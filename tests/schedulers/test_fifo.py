from __future__ import annotations

import pytest

from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import ResourceError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import FIFO, RungForecast
from asyncsearch.schedulers.fifo import FIFOState
from asyncsearch.searchers import RandomSearch
from asyncsearch.space import Space
from asyncsearch.trial import TrialState
from tests.engine.player import Player
from tests.schedulers.tools import restored


@pytest.mark.parametrize("max_resource", [None, 1, 27])
def test_every_trial_trains_to_the_end(max_resource: int | None) -> None:
    state = FIFO(max_resource=max_resource).begin()
    for number, score in enumerate([1.0, None, 1e300]):
        trial = TrialId(number)
        assert state.may_create(trial)
        assert state.first_target(trial) == max_resource
        state.created(trial, {})
        for resource in (1, 2, 3):
            state.reported(trial, resource, score)
            assert state.judge(trial, resource) is None
        assert state.next_promotion() is None
        assert state.closing_promotion() is None
        state.completed(trial, 3, score)
    state.failed(TrialId(3), 1)
    assert state.next_promotion() is None
    assert restored(FIFO(max_resource=max_resource), state).first_target(TrialId(4)) == max_resource


def test_fifo_needs_no_checkpoints() -> None:
    assert not FIFO(max_resource=27).pauses
    assert FIFO(max_resource=27).max_resource == 27
    assert FIFO().max_resource is None


def test_forecast_says_how_far_trials_train() -> None:
    assert FIFO(max_resource=27).forecast(64) == [RungForecast(0, 27, 64)]
    assert FIFO().forecast(8) == [RungForecast(0, None, 8)]
    assert FIFO().warnings(None) == []


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "9"])
def test_max_resource_that_is_no_positive_integer_is_refused(value: object) -> None:
    with pytest.raises(ResourceError, match="max_resource="):
        FIFO(max_resource=value)  # type: ignore[arg-type]


class StopAtTwo(FIFO):
    def begin(self, space: Space | None = None, seed: int = 0) -> FIFOState:
        return StopAtTwoState(None)


class StopAtTwoState(FIFOState):
    def judge(self, trial: TrialId, resource: int) -> str | None:
        return "stopped at 2" if resource == 2 else None


def test_a_state_that_only_overrides_judge_is_asked() -> None:
    state = StudyState(
        EngineConfig(study="s", metric="loss", mode="min"),
        RandomSearch().begin(Space({"lr": 0.1}), 0),
        StopAtTwo().begin(),
        None,
    )
    player = Player(state)
    player.begin(1, 1)
    lease = state.attempts[0].lease
    player.report(lease, 1)
    assert player.states() == [TrialState.RUNNING]
    player.report(lease, 2)
    assert player.states() == [TrialState.STOPPED]
    assert state.trials[0].reason == "stopped at 2"

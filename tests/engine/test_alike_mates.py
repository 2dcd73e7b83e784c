"""Packs of alike trials: where too few wait, more are created, if no proposal comes too early by that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.actions import Assign, CreateTrial, lanes_given
from asyncsearch.engine import snapshot
from asyncsearch.engine.sizing.packs import _OVERTAKEN, _WINDOW
from asyncsearch.engine.state import StudyState
from asyncsearch.events import Outcome, Reported, TrainingEnded
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import ASHA, FIFO, Hyperband
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.schedulers.fifo import FIFOState
from asyncsearch.searchers.random import RandomSearch, RandomState
from asyncsearch.sizing.packing import Packing
from asyncsearch.space import Space, choice, uniform
from asyncsearch.trial import TrialState
from tests.engine.player import Player, only
from tests.engine.tools import packed_state, record, replayed, results

PACK = 4
WIDTHS = Space.of({"x": uniform(0.0, 1.0), "width": choice(8, 16, 32)})


class Learning(RandomSearch):
    """Would propose by results."""

    def begin(self, space: Space, seed: int) -> RandomState:
        class State(RandomState):
            def reported(self, trial: TrialId, resource: int, score: float | None) -> None:
                pass

        return State(space, seed)


def first_widths(trials: int | None = 64, **settings: Any) -> tuple[Player, list[int]]:
    """Return a search with one worker, and the widths of the trials that it got first."""
    player = Player(packed_state(FIFO(max_resource=3), PACK, **{"space": WIDTHS} | settings))
    player.begin(trials, 1)
    (assign,) = only(player.last, Assign)
    return player, [lane.stages[0].params["width"] for lane in assign.work.lanes]


def test_trials_are_created_until_a_worker_has_a_pack_of_alike_ones() -> None:
    _, widths = first_widths()
    assert len(widths) == PACK
    assert len(set(widths)) == 1


@pytest.mark.parametrize("trials", [None, 1000])
def test_no_more_wait_than_are_looked_at(trials: int | None) -> None:
    rare = Space.of({"x": uniform(0.0, 1.0), "width": choice(*range(100))})
    player, widths = first_widths(trials, space=rare)
    assert len(widths) < PACK
    assert len(player.state.trials) == _WINDOW * PACK


def test_a_searcher_that_learns_proposes_no_more_than_a_pack_has_lanes() -> None:
    player, widths = first_widths(searcher=Learning())
    assert player.state.searcher.learns
    assert len(widths) < PACK == len(player.state.trials)


@pytest.mark.parametrize("strategy", ["random", "nearest"])
def test_a_strategy_for_unlike_trials_has_no_more_created_than_it_takes(strategy: str) -> None:
    player, widths = first_widths(strategy=strategy)
    assert len(widths) == PACK == len(player.state.trials)


def test_a_worker_does_not_wait_for_alike_ones_that_do_not_come() -> None:
    player, widths = first_widths(3)
    assert 0 < len(widths) < 3 == len(player.state.trials)


SCHEDULERS = [
    pytest.param(FIFO(max_resource=3), id="fifo"),
    pytest.param(ASHA(max_resource=9), id="asha"),
    pytest.param(Hyperband(max_resource=9), id="hyperband"),
    pytest.param(Hyperband(max_resource=9, variant="synchronous"), id="synchronous hyperband"),
]


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_trials_created_for_packs_are_counted_and_replay_to_the_byte(scheduler: Scheduler) -> None:
    def fresh() -> StudyState:
        return packed_state(scheduler, PACK, WIDTHS)

    recorded = record(fresh(), 41, 2)
    decided = [action for _, _, actions in recorded.steps for action in actions]
    assert [action.trial for action in only(decided, CreateTrial)] == list(range(41))
    assert not [t for t in recorded.state.trials if t.state in (TrialState.WAITING, TrialState.RUNNING)]
    proposed = RandomSearch().begin(WIDTHS, recorded.state.config.seed)
    assert [trial.params for trial in recorded.state.trials] == [proposed.propose(number) for number in range(41)]
    state = replayed(fresh(), recorded.lines)
    assert snapshot.encode(state, len(recorded.states)) == recorded.states[-1]
    assert results(state) == results(recorded.state)


class LongAfterTheFirst(FIFOState):
    """Asks little of the first trial and much of all others, which have the longer way through the plan."""

    def first_target(self, trial: TrialId) -> int:
        return 2 if trial else 1


def test_a_trial_preceded_by_longer_ones_is_overtaken_a_bounded_number() -> None:
    player = Player(packed_state(FIFO(max_resource=2), 2, Space.of({"x": choice(*range(999)), "width": choice(8, 9)})))
    player.state.scheduler = LongAfterTheFirst(2)
    assert player.state.plan.is_shared
    player.begin(None, 1)
    for _ in range(999):
        for attempt in list(player.state.attempts.values()):
            player.tell(Reported(attempt.lease, attempt.stop, {"loss": 1.0}, attempt.lane))
            player.tell(TrainingEnded(attempt.lease, Outcome.RETURNED, attempt.stop, lane=attempt.lane))
        if player.state.trials[0].state is not TrialState.WAITING:
            break
    assert len(player.state.trials) <= (_OVERTAKEN + 1) * _WINDOW * 2


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 99), pack=st.integers(2, 4))
def test_where_trials_share_nothing_a_pack_has_the_oldest_waiting_trial(seed: int, pack: int) -> None:
    state = packed_state(FIFO(max_resource=2), pack, WIDTHS, seed=seed, share=False)
    state.packing = Packing(pack, takes_joiners=False)
    waiting: list[TrialId] = []
    for action in [action for _, _, actions in record(state, 30, 1).steps for action in actions]:
        if isinstance(action, CreateTrial):
            waiting.append(action.trial)
        for number, one in enumerate(lanes_given(action)):
            (trial,) = one.lane.stages[0].trials
            assert number or trial == waiting[0]
            waiting.remove(trial)
    assert not waiting

"""ASHA without ``max_resource``: the infinite horizon of Li et al. 2020, section 3."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import InternalError, ResourceError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import ASHA, RungForecast, SchedulerState
from asyncsearch.schedulers.rungs import HIGHEST, levels_up_to
from asyncsearch.trial import TrialState
from tests.engine.tools import make_state, record
from tests.schedulers.oracle import Oracle, check_promotions
from tests.schedulers.oracle_play import COMMANDS, Command, OraclePlay
from tests.schedulers.test_asha_stopping import report
from tests.schedulers.tools import Move, drain, pause_new, restored

ENDLESS = ASHA()
STOPPING = ASHA(variant="stopping")


def climb(state: SchedulerState) -> list[Move]:
    """Train every promoted trial to its target until nothing is due; a trial's score is its id."""
    moves: list[Move] = []
    while (promotion := state.next_promotion()) is not None:
        state.promoted(promotion.trial, promotion.from_resource, promotion.to_resource)
        state.paused(promotion.trial, promotion.to_resource, float(promotion.trial))
        moves.append((promotion.trial, promotion.from_resource, promotion.to_resource))
    return moves


@pytest.mark.parametrize(("low", "eta"), [(1, 3), (2, 4), (5, 2), (7, 10)])
def test_the_rungs_are_counted_from_the_bottom_and_have_no_end(low: int, eta: int) -> None:
    state = ASHA(min_resource=low, reduction_factor=eta).begin()
    assert state.first_target(TrialId(0)) == low
    pause_new(state, [float(number) for number in range(eta**4)])
    reached: dict[int, int] = {}
    for _, _, to in climb(state):
        reached[to] = reached.get(to, 0) + 1
    assert reached == {low * eta**k: eta ** (4 - k) for k in range(1, 5)}


def test_a_search_ends_without_promotions_and_more_trials_take_it_further() -> None:
    state = ENDLESS.begin()
    pause_new(state, [float(number) for number in range(9)])
    assert [to for _, _, to in climb(state)] == [3, 3, 3, 9]
    assert drain(state) == []
    assert state.closing_promotion() is None
    pause_new(state, [float(number) for number in range(9, 27)], first=9)
    assert max(to for _, _, to in climb(state)) == 27


@pytest.mark.parametrize(
    ("scores", "promotions"),
    [
        ([1.0, 2.0], []),
        ([3.0, 2.0, 1.0], [(2, 1, 3)]),
        ([5.0] * 9, [(0, 1, 3), (1, 1, 3), (2, 1, 3)]),
        ([None, float("nan"), 8.0], [(2, 1, 3)]),
        ([None, None, None], []),
    ],
)
def test_scores_in_promotions_out(scores: list[float | None], promotions: list[Move]) -> None:
    """Ties, NaN and missing values count as with a horizon."""
    state = ENDLESS.begin()
    pause_new(state, scores)
    assert drain(state) == promotions


def test_a_trial_failed_or_returned_above_all_others_counts_but_stays() -> None:
    state = ENDLESS.begin()
    pause_new(state, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    assert drain(state) == [(0, 1, 3), (1, 1, 3), (2, 1, 3)]
    state.failed(TrialId(0), 3)
    state.completed(TrialId(1), 2, 1.0)
    assert drain(state) == []
    state.paused(TrialId(2), 3, 2.0)
    assert drain(state) == [], "the one in the quota ended at 3 by itself"
    assert state.position(TrialId(1)) == "rank 1 of 3 at resource 3, 1 goes on; it ended there"
    with pytest.raises(InternalError, match="is at resource 27"):
        state.paused(TrialId(2), 27, 2.0)


@settings(max_examples=100, deadline=None)
@given(COMMANDS, st.sampled_from([(1, 3), (1, 2), (2, 4), (3, 2)]))
def test_every_promotion_is_the_one_that_brute_force_finds(commands: list[Command], form: tuple[int, int]) -> None:
    low, eta = form
    levels = [low * eta**k for k in range(12)]
    play = OraclePlay(ASHA(min_resource=low, reduction_factor=eta), Oracle(levels, eta))
    play.go(commands)
    check_promotions(play.facts, levels, eta)


def test_no_rung_lies_where_plans_do_not_count() -> None:
    levels = levels_up_to((1,), 2**80, 2)
    assert levels == tuple(2**k for k in range(62))
    assert levels[-1] <= HIGHEST < 2 * levels[-1]
    assert levels_up_to((1, 3), 9, 3) == (1, 3, 9, 27)
    assert levels_up_to((1, 3), 2, 3) == (1, 3)


def test_the_stopping_variant_trains_to_the_return_and_judges_every_rung() -> None:
    state = STOPPING.begin()
    assert state.first_target(TrialId(0)) is None
    for resource in range(1, 244):
        assert report(state, 0, resource, 5.0) is None
    for resource in range(1, 243):
        assert report(state, 1, resource, 1.0 if resource < 81 else 5.0) is None or resource == 81
    assert state.snapshot()["rungs"][5]["size"] == 1, "243, by trial 0"
    assert len(state.snapshot()["rungs"]) == 7, "one rung lies beyond all reports"


def test_the_stopping_variant_counts_a_return_between_rungs_at_the_upper() -> None:
    state = STOPPING.begin()
    for resource in (1, 2, 3, 4):
        assert report(state, 0, resource, 1.0) is None
    state.completed(TrialId(0), 4, 1.0)
    for resource in range(1, 9):
        assert report(state, 1, resource, 0.5) is None
    assert report(state, 1, 9, 2.0) == "stopped at resource 9: rank 2 of 2, 1 goes on"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 40), st.sampled_from([None, 0.0, 1.0, 2.0])), max_size=30))
def test_the_stopping_variant_survives_its_snapshot_to_the_byte(reports: list[tuple[int, int, float | None]]) -> None:
    state = STOPPING.begin()
    at: dict[int, int] = {}
    for trial, more, score in reports:
        state.created(TrialId(trial), {})
        at[trial] = at.get(trial, 0) + more
        state.reported(TrialId(trial), at[trial], score)
        copy = restored(STOPPING, state)
        reason = state.judge(TrialId(trial), at[trial])
        assert copy.judge(TrialId(trial), at[trial]) == reason
        if reason is not None:
            state.stopped(TrialId(trial), at[trial], None)
        state = restored(STOPPING, state)


@pytest.mark.parametrize("workers", [1, 7])
def test_the_engine_pauses_every_trial_at_its_rung_and_goes_on_with_more(workers: int) -> None:
    """The study has no max_resource: targets come from promotions alone, and no trial is complete."""
    state = make_state(ENDLESS)
    recorded = record(state, 60, workers)
    assert {trial.state for trial in state.trials} == {TrialState.PAUSED}
    assert all(trial.resource == trial.target for trial in state.trials)
    before = [trial.target or 0 for trial in state.trials]
    assert max(before) >= 9
    record(state, 200, workers, last=recorded.last)
    after = [trial.target or 0 for trial in state.trials]
    assert all(high >= low for low, high in zip(before, after, strict=False))
    assert max(after) > max(before)


def test_description_forecast_and_warnings_know_that_there_is_no_end() -> None:
    assert ENDLESS.describe() == "ASHA(min_resource=1, reduction_factor=3): rungs at 1, 3, 9, ... without end"
    assert ASHA(min_resource=2, reduction_factor=4, variant="stopping").describe() == (
        "ASHA(min_resource=2, reduction_factor=4, variant='stopping'): rungs at 2, 8, 32, ... without end"
    )
    assert ENDLESS.pauses
    assert not STOPPING.pauses
    assert ENDLESS.levels == (1,)
    lines = [RungForecast(0, 1, 10), RungForecast(1, 3, 3), RungForecast(3, 9, 1)]
    assert ENDLESS.forecast(10) == lines
    assert STOPPING.forecast(10) == [*lines, RungForecast(9, None, 1)]
    assert ENDLESS.forecast(0) == [RungForecast(0, 1, 0)]
    assert ENDLESS.warnings(None) == ENDLESS.warnings(3) == STOPPING.warnings(1) == []
    (few,) = ENDLESS.warnings(2)
    assert few == (
        "No trial will go on from the first rung: each rung passes one of 3, and 2 trials are fewer. "
        "Use num_trials >= 3."
    )


def test_finish_best_has_nowhere_to_go() -> None:
    with pytest.raises(ResourceError, match=r"there is none\. Leave finish_best out, or set max_resource"):
        ASHA(finish_best=True)
    with pytest.raises(ResourceError, match="min_resource=0 is too small"):
        ASHA(min_resource=0)
    with pytest.raises(ResourceError, match="reduction_factor=1 is too small"):
        ASHA(reduction_factor=1)

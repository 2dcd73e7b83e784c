from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import InternalError, ResourceError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import SHA, RungForecast, SchedulerState
from asyncsearch.schedulers.bracket import SynchronousBracket
from tests.schedulers.synchronous_play import SEARCHES, Search, ideal, outcome
from tests.schedulers.tools import Move, drain, pause_new

NINE = SHA(max_resource=9)
"""Rungs 1, 3, 9."""


def requested(num_trials: int | None, scheduler: SHA = NINE) -> SchedulerState:
    state = scheduler.begin()
    state.run_requested(num_trials)
    return state


def finish(state: SchedulerState, moves: list[Move], scores: dict[int, float | None] | None = None) -> None:
    """Let promoted trials reach their targets, with their number as score unless another is given."""
    for trial, _, to in moves:
        score = float(trial) if scores is None else scores[trial]
        if to == 9:
            state.completed(TrialId(trial), to, score)
        else:
            state.paused(TrialId(trial), to, score)


def test_a_trial_goes_on_as_soon_as_it_is_certain_to() -> None:
    state = requested(9)
    pause_new(state, [float(number) for number in range(6)])
    assert drain(state) == [], "the three that are missing may be better"
    pause_new(state, [6.0, 7.0], first=6)
    assert drain(state) == [(0, 1, 3), (1, 1, 3)]
    pause_new(state, [8.0], first=8)
    assert drain(state) == [(2, 1, 3)]
    finish(state, [(0, 1, 3), (1, 1, 3)])
    assert drain(state) == [], "the third may be the best"
    finish(state, [(2, 1, 3)])
    assert drain(state) == [(0, 3, 9)]
    finish(state, [(0, 3, 9)])
    assert drain(state) == []


def test_the_reason_of_an_early_promotion_says_who_is_missing() -> None:
    state = requested(9)
    pause_new(state, [float(number) for number in range(8)])
    promotion = state.next_promotion()
    assert promotion is not None
    words = "rank 1 of 8 at resource 1, among the best 3 whatever the one that is missing reports: goes on to 3"
    assert promotion.reason == words


@given(scores=st.lists(st.sampled_from([0.0, 1.0, 2.0, None]), min_size=1, max_size=30), data=st.data())
def test_whatever_the_order_the_same_trials_go_on_and_none_too_early(
    scores: list[float | None], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(scores))))
    state = requested(len(scores))
    for number in range(len(scores)):
        state.created(TrialId(number), {})
    gone: list[int] = []
    for at, number in enumerate(order, 1):
        state.paused(TrialId(number), 1, scores[number])
        gone += [trial for trial, _, _ in drain(state)]
        ranked = sorted((scores[n], n) for n in order[:at] if scores[n] is not None)
        certain = max(0, len(scores) // 3 - (len(scores) - at))
        assert sorted(gone) == sorted(n for _, n in ranked[:certain])


@pytest.mark.parametrize(
    ("scores", "promotions"),
    [
        ([3.0, 2.0, 1.0], [(2, 1, 3)]),
        ([1.0, 2.0], []),
        ([1.0] * 7, [(0, 1, 3), (1, 1, 3)]),
        ([None] * 6, []),
        ([None, None, None, None, None, 5.0], [(5, 1, 3)]),
        ([float("nan"), 4.0, 5.0, float("-inf"), 3.0, 9.0], [(4, 1, 3), (1, 1, 3)]),
    ],
)
def test_scores_in_promotions_out(scores: list[float | None], promotions: list[Move]) -> None:
    """asha.md 1.5, 1.6."""
    state = requested(len(scores))
    pause_new(state, scores)
    assert drain(state) == promotions


def test_a_failed_trial_counts_as_worst_and_holds_nobody_up() -> None:
    """asha.md 1.6: the places are counted from the bracket's size, so failures do not shrink them."""
    state = requested(9)
    for number in range(6):
        state.created(TrialId(number), {})
        state.failed(TrialId(number), 1)
    pause_new(state, [6.0, 7.0, 8.0], first=6)
    moves = drain(state)
    assert moves == [(6, 1, 3), (7, 1, 3), (8, 1, 3)]
    state.failed(TrialId(6), 3)
    state.failed(TrialId(6), 3)
    assert drain(state) == [], "two are still on their way"
    finish(state, [(7, 1, 3), (8, 1, 3)])
    assert drain(state) == [(7, 3, 9)]


def test_fewer_go_on_only_if_fewer_are_finite() -> None:
    """asha.md 1.6."""
    state = requested(9)
    pause_new(state, [None] * 7 + [1.0, 2.0])
    moves = drain(state)
    assert moves == [(7, 1, 3), (8, 1, 3)]
    finish(state, moves)
    assert drain(state) == [(7, 3, 9)], "one of nine goes to the third rung, however few are left"


def test_a_scoreless_trial_given_up_later_does_not_count_at_the_next_rung() -> None:
    state = requested(6)
    pause_new(state, [None, 1.0, 2.0, 3.0, 4.0, 5.0])
    moves = drain(state)
    state.failed(TrialId(0), 3)
    state.stopped(TrialId(5), 1, None)
    finish(state, moves[:1])
    assert state.position(TrialId(1)) == "bracket 0: rank 1 of 1 at resource 3, 0 go on; it waits there"


def test_a_trial_that_ends_by_itself_holds_nobody_up() -> None:
    """asha.md 1.14."""
    state = requested(9)
    state.created(TrialId(0), {})
    state.completed(TrialId(0), 1, 0.0)
    pause_new(state, [float(number) for number in range(1, 9)], first=1)
    moves = drain(state)
    assert moves == [(1, 1, 3), (2, 1, 3)], "the best of the three is done already"
    state.completed(TrialId(1), 2, 1.0)
    state.stopped(TrialId(2), 2, None)
    assert drain(state) == [], "the best of resource 3 ended there"


def test_a_chosen_trial_stopped_before_it_goes_on_is_not_waited_for() -> None:
    state = requested(9)
    pause_new(state, [float(number) for number in range(9)])
    state.stopped(TrialId(0), 1, None)
    moves = drain(state)
    assert moves == [(1, 1, 3), (2, 1, 3)], "a decided rung stays as it is"
    finish(state, moves)
    assert drain(state) == [(1, 3, 9)]


def test_a_duplicate_pause_counts_once() -> None:
    """asha.md 1.11."""
    state = requested(3)
    pause_new(state, [1.0, 2.0])
    for _ in range(3):
        state.paused(TrialId(0), 1, 0.0)
    assert drain(state) == []


def test_a_promotion_stated_twice_is_refused() -> None:
    """asha.md 1.12."""
    state = requested(3)
    pause_new(state, [1.0, 2.0, 3.0])
    assert drain(state) == [(0, 1, 3)]
    with pytest.raises(InternalError, match="trial-0 does not wait"):
        state.promoted(TrialId(0), 1, 3)


def test_without_a_bracket_size_the_trials_of_the_run_are_one_bracket() -> None:
    state = requested(6)
    assert all(state.may_create(TrialId(number)) for number in range(6))
    pause_new(state, [float(number) for number in range(6)])
    assert not state.may_create(TrialId(6))
    assert state.position(TrialId(5)) == "bracket 0: rank 6 of 6 at resource 1, 2 go on; it waits there"


def test_a_later_run_opens_another_bracket_and_leaves_the_first_alone() -> None:
    state = requested(6)
    pause_new(state, [float(number) for number in range(6)])
    assert drain(state) == [(0, 1, 3), (1, 1, 3)]
    state.run_requested(9)
    assert state.may_create(TrialId(6))
    pause_new(state, [-3.0, -2.0, -1.0], first=6)
    assert drain(state) == [(6, 1, 3)]
    assert not state.may_create(TrialId(9))
    assert state.position(TrialId(6)).startswith("bracket 1: rank 1 of 3")


def test_a_run_that_goes_on_after_a_crash_keeps_its_bracket() -> None:
    state = requested(6)
    pause_new(state, [0.0, 1.0, 2.0])
    state.run_requested(6)
    pause_new(state, [3.0, 4.0], first=3)
    assert drain(state) == [(0, 1, 3)]
    pause_new(state, [5.0], first=5)
    assert drain(state) == [(1, 1, 3)]


def test_a_run_for_more_trials_does_not_widen_a_bracket_being_filled() -> None:
    state = requested(3)
    pause_new(state, [0.0, 1.0])
    state.run_requested(100)
    pause_new(state, [2.0], first=2)
    assert drain(state) == [(0, 1, 3)]
    assert state.may_create(TrialId(3))


def test_a_run_for_fewer_trials_closes_an_interrupted_runs_bracket() -> None:
    state = requested(100)
    pause_new(state, [0.0, 1.0, 2.0, 3.0])
    state.run_requested(3)
    assert drain(state) == [(0, 1, 3)]
    assert not state.may_create(TrialId(4))
    state.run_requested(10)
    assert state.may_create(TrialId(4))
    pause_new(state, [float(number) for number in range(4, 10)], first=4)
    assert drain(state) == [(4, 1, 3), (5, 1, 3)], "six of the second bracket"


def test_while_a_bracket_waits_workers_begin_the_next_one() -> None:
    state = requested(9, SHA(max_resource=9, bracket_size=3))
    for number in range(3):
        state.created(TrialId(number), {})
    assert state.may_create(TrialId(3))
    pause_new(state, [3.0, 4.0, 5.0], first=3)
    assert drain(state) == [(3, 1, 3)], "the second bracket was quicker"
    for number in range(3):
        state.paused(TrialId(number), 1, float(number))
    pause_new(state, [6.0, 7.0, 8.0], first=6)
    assert drain(state) == [(0, 1, 3), (6, 1, 3)], "the older bracket first"
    assert not state.may_create(TrialId(9))


def test_the_last_bracket_takes_what_is_left_over() -> None:
    state = requested(10, SHA(max_resource=3, bracket_size=7))
    pause_new(state, [float(number) for number in range(10)])
    assert drain(state) == [(0, 1, 3), (1, 1, 3), (7, 1, 3)]


def test_an_exhausted_searcher_makes_a_bracket_full() -> None:
    state = requested(100)
    state.no_more_trials()
    pause_new(state, [0.0, 1.0, 2.0])
    assert drain(state) == []
    state.no_more_trials()
    state.no_more_trials()
    assert drain(state) == [(0, 1, 3)]
    assert state.may_create(TrialId(3)), "a searcher that is continued with more opens a further bracket"


def test_without_a_number_of_trials_the_bracket_ends_with_the_searcher() -> None:
    for state in (requested(None), NINE.begin()):
        pause_new(state, [float(number) for number in range(6)])
        assert state.may_create(TrialId(6))
        assert drain(state) == []
        state.no_more_trials()
        assert drain(state) == [(0, 1, 3), (1, 1, 3)]


def test_without_a_number_of_trials_brackets_of_a_size_follow_each_other() -> None:
    state = requested(None, SHA(max_resource=3, bracket_size=3))
    pause_new(state, [float(number) for number in range(7)])
    assert drain(state) == [(0, 1, 3), (3, 1, 3)]
    assert state.may_create(TrialId(7))


def test_trials_are_not_judged_on_their_way_and_nothing_closes() -> None:
    state = requested(3)
    assert state.first_target(TrialId(0)) == 1
    state.created(TrialId(0), {})
    state.reported(TrialId(0), 1, None)
    assert state.judge(TrialId(0), 1) is None
    assert state.closing_promotion() is None
    assert state.position(TrialId(7)) == ""


@settings(max_examples=60, deadline=None)
@given(SEARCHES, st.sampled_from([None, 4, 9]), st.sampled_from([2, 3]))
def test_the_order_in_which_trials_arrive_does_not_matter(search: Search, bracket_size: int | None, eta: int) -> None:
    """asha.md 1.19: also through a snapshot after every fact."""
    scheduler = SHA(max_resource=eta * eta, reduction_factor=eta, bracket_size=bracket_size)
    brackets = [(scheduler.levels, bracket_size or len(search.scores))]
    assert outcome(search, scheduler) == ideal(search, brackets, eta)


def test_a_decision_does_not_visit_all_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    """asha.md 1.18."""
    state = requested(3_000, SHA(max_resource=3, bracket_size=3))
    pause_new(state, [float(number) for number in range(2_999)])
    assert len(drain(state)) == 999
    advance, visits = SynchronousBracket.advance, []

    def counted(bracket: SynchronousBracket) -> None:
        visits.append(bracket.start)
        advance(bracket)

    monkeypatch.setattr(SynchronousBracket, "advance", counted)
    pause_new(state, [0.0], first=2_999)
    assert drain(state) == [(2_999, 1, 3)]
    assert visits == [2_997, 2_997], "when the trial paused, and when it was promoted"


def test_every_promotion_says_rank_count_and_quota() -> None:
    state = requested(9)
    pause_new(state, [float(number) for number in range(9)])
    promotion = state.next_promotion()
    assert promotion is not None
    assert promotion.reason == "rank 1 of 9 at resource 1, 3 go on to 3"


def test_pausing_is_asked_for_only_where_a_rung_needs_it() -> None:
    assert NINE.pauses
    assert not SHA(max_resource=2).pauses


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_resource": "9"}, "max_resource='9'"),
        ({"max_resource": 9, "min_resource": 10}, "min_resource=10 is above max_resource=9"),
        ({"max_resource": 9, "bracket_size": 0}, "bracket_size=0 is too small"),
        ({"max_resource": 9, "bracket_size": 2.5}, "bracket_size=2.5 is not an integer.*bracket_size=2"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ResourceError, match=words):
        SHA(**arguments)


def test_forecast_adds_up_the_brackets() -> None:
    assert SHA(max_resource=9).forecast(20) == [
        RungForecast(0, 1, 20),
        RungForecast(1, 3, 6),
        RungForecast(3, 9, 2),
    ]
    assert [line.trials for line in SHA(max_resource=9, bracket_size=9).forecast(20)] == [20, 6, 2]
    assert [line.trials for line in SHA(max_resource=9, bracket_size=8).forecast(20)] == [20, 5, 0]
    assert [line.trials for line in SHA(max_resource=9).forecast(0)] == [0, 0, 0]


def test_a_bracket_too_small_for_its_rungs_is_warned_of() -> None:
    """asha.md 1.13."""
    (few,) = SHA(max_resource=81).warnings(20)
    assert few == (
        "No trial is expected to reach max_resource=81: a bracket has 20 trials, fewer than 3^4 = 81, and each rung "
        "passes one of 3. Use num_trials >= 81 or max_resource <= 26."
    )
    (whole,) = SHA(max_resource=81, bracket_size=27).warnings(81)
    assert "a bracket has 27 trials, fewer than 3^4 = 81" in whole
    assert whole.endswith("Use bracket_size and num_trials >= 81 or max_resource <= 80.")
    (rest,) = SHA(max_resource=9, bracket_size=9).warnings(19)
    assert "the last bracket has 1 trial, fewer than 3^2 = 9" in rest
    assert "num_trials as a multiple of bracket_size=9" in rest
    assert SHA(max_resource=9, bracket_size=9).warnings(18) == []
    assert SHA(max_resource=9, bracket_size=9).warnings(None) == []
    assert SHA(max_resource=9).warnings(9) == []
    assert SHA(max_resource=9).warnings(None) == [], "the bracket ends with the searcher"


def test_losers_of_a_decided_rung_are_named_until_they_have_ended() -> None:
    state = SHA(max_resource=4, reduction_factor=2, bracket_size=4).begin()
    state.run_requested(4)
    for number in range(4):
        state.created(TrialId(number), {})
        state.paused(TrialId(number), 1, float(number))
    assert state.losers() == (), "two are to go on first"
    for number in (0, 1):
        state.promoted(TrialId(number), 1, 2)
    assert state.losers() == [2, 3]
    assert state.position(TrialId(2)).endswith("that is decided")
    again = SHA(max_resource=4, reduction_factor=2, bracket_size=4).begin()
    again.restore(state.snapshot())
    assert again.losers() == [2, 3], "a snapshot keeps them: one may still be saving"
    for one in (state, again):
        one.stopped(TrialId(2), 1, 2.0)
        one.stopped(TrialId(3), 1, 3.0)
        assert one.losers() == ()
        for number in (0, 1):
            one.paused(TrialId(number), 2, float(number))
        one.promoted(TrialId(0), 2, 4)
        assert one.losers() == [1], "what was stopped changes no rung"

from __future__ import annotations

import random
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import InternalError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import ASHA, SchedulerState
from asyncsearch.testing.instruction_count import instructions
from tests.schedulers.oracle import Fact, Oracle, check_promotions, legal_promotions
from tests.schedulers.oracle_play import COMMANDS, Command, OraclePlay
from tests.schedulers.tools import Move, begun, drain, pause_new

NINE = ASHA(max_resource=9)
"""Rungs 1, 3, 9."""


@pytest.mark.parametrize(
    ("scores", "promotions"),
    [
        ([], []),
        ([1.0], []),
        ([1.0, 2.0], []),
        ([3.0, 2.0, 1.0], [(2, 1, 3)]),
        ([1.0, 2.0, 3.0, 4.0, 5.0], [(0, 1, 3)]),
        ([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], [(5, 1, 3), (4, 1, 3)]),
        ([5.0] * 9, [(0, 1, 3), (1, 1, 3), (2, 1, 3)]),
        ([None, None, None], []),
        ([None, None, 8.0], [(2, 1, 3)]),
        ([None, 8.0, None, None, 9.0, None], [(1, 1, 3), (4, 1, 3)]),
        ([None, 8.0, None, None, None, None], [(1, 1, 3)]),
        ([-1e308, 1e308, 0.0], [(0, 1, 3)]),
    ],
)
def test_scores_in_promotions_out(scores: list[float | None], promotions: list[Move]) -> None:
    """asha.md 1.1, 1.5, 1.6, 1.7: smaller is better; the engine turns the sign of a metric that is maximised."""
    assert drain(begun(NINE, scores)) == promotions


def test_rungs_are_asked_from_the_top_down() -> None:
    """asha.md 1.1; Algorithm 2."""
    state = begun(NINE, [float(number) for number in range(9)])
    for trial, _, _ in drain(state):
        state.paused(TrialId(trial), 3, float(trial))
    pause_new(state, [9.0, 10.0, 11.0], first=9)
    assert drain(state) == [(0, 3, 9), (3, 1, 3)]


def test_all_at_once_passes_exactly_the_quota_at_every_rung() -> None:
    """asha.md 1.3: 27 of 81, 9 of 27, 3 of 9, 1 of 3; no interpolation, and the trial itself counts."""
    state = begun(ASHA(max_resource=81), [float(number) for number in range(81)])
    for resource, expected in [(3, 27), (9, 9), (27, 3), (81, 1)]:
        moves = drain(state)
        assert [trial for trial, _, _ in moves] == list(range(expected))
        for trial, _, to in moves:
            assert to == resource
            state.paused(TrialId(trial), to, float(trial))


@pytest.mark.parametrize("eta", [2, 3, 4])
def test_a_constant_metric_passes_the_exact_quota_one_arrival_at_a_time(eta: int) -> None:
    """asha.md 1.5."""
    state = ASHA(max_resource=eta, reduction_factor=eta).begin()
    total = 0
    for number in range(100):
        pause_new(state, [0.0], first=number)
        total += len(drain(state))
        assert total == (number + 1) // eta


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf"), float("-inf")])
def test_what_is_not_finite_counts_and_never_goes_on(bad: float | None) -> None:
    """asha.md 1.6: NaN neither goes on for ever nor poisons the ranks of others."""
    state = begun(NINE, [5.0, bad, 7.0, 3.0, bad, bad])
    assert drain(state) == [(3, 1, 3), (0, 1, 3)]
    assert drain(begun(NINE, [bad] * 30)) == []


def test_a_failed_trial_is_worst_in_the_rung_where_it_failed() -> None:
    """asha.md 1.6: it counts in n there, so that the ratio stays honest, and in no rung above."""
    state = NINE.begin()
    for number in range(3):
        state.created(TrialId(number), {})
    state.failed(TrialId(0), 1)
    state.failed(TrialId(1), 1)
    assert drain(state) == []
    state.paused(TrialId(2), 1, 1e9)
    assert drain(state) == [(2, 1, 3)]
    state.failed(TrialId(2), 3)
    pause_new(state, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], first=3)
    assert drain(state) == [(3, 1, 3), (4, 1, 3), (5, 1, 3)], (
        "9 reached resource 1; the failed one was promoted and is last"
    )
    state.paused(TrialId(3), 3, 1.0)
    assert drain(state) == []
    state.paused(TrialId(4), 3, 2.0)
    assert drain(state) == [(3, 3, 9)], "the third that reached resource 3, or failed on its way"


def test_a_trial_failed_while_waiting_keeps_its_rank_and_no_promotion() -> None:
    state = begun(NINE, [1.0, 2.0, 3.0])
    state.failed(TrialId(0), 3)
    assert drain(state) == []
    pause_new(state, [4.0, 5.0, 6.0], first=3)
    assert drain(state) == [(1, 1, 3)]


def test_a_duplicate_end_counts_once() -> None:
    """asha.md 1.11."""
    state = begun(NINE, [1.0])
    state.created(TrialId(1), {})
    for _ in range(5):
        state.failed(TrialId(1), 1)
        state.stopped(TrialId(1), 1, None)
        state.completed(TrialId(1), 1, 0.0)
        state.paused(TrialId(1), 1, 0.0)
    assert drain(state) == []
    pause_new(state, [9.0], first=2)
    assert drain(state) == [(0, 1, 3)]


def test_a_promotion_stated_twice_is_refused() -> None:
    """asha.md 1.12: a lost attempt of a promoted trial is issued again by the engine, never decided again."""
    state = begun(NINE, [1.0, 2.0, 3.0])
    assert drain(state) == [(0, 1, 3)]
    with pytest.raises(InternalError, match="trial-0 does not wait"):
        state.promoted(TrialId(0), 1, 3)


def test_a_pause_where_no_rung_is_is_our_own_bug() -> None:
    with pytest.raises(InternalError, match=r"trial-0 is at resource 2, the rungs are \(1, 3, 9\)"):
        NINE.begin().paused(TrialId(0), 2, 1.0)


def test_a_trial_that_ends_by_itself_blocks_nobody_and_never_goes_on() -> None:
    """asha.md 1.14: it counts with its last score at the rung that it headed for."""
    state = NINE.begin()
    for number in range(3):
        state.created(TrialId(number), {})
    state.completed(TrialId(0), 1, 0.0)
    pause_new(state, [1.0, 2.0], first=1)
    assert drain(state) == [], "the best of three needs no promotion any more"
    pause_new(state, [3.0, 4.0, 5.0], first=3)
    assert drain(state) == [(1, 1, 3)]
    state.completed(TrialId(1), 2, 1.0)
    assert state.position(TrialId(1)) == "rank 1 of 1 at resource 3, 0 go on; it ended there"


def test_promotion_goes_on_after_the_last_trial_was_created() -> None:
    """asha.md 1.13: until no rung has a candidate."""
    state = begun(ASHA(max_resource=27), [float(number) for number in range(27)])
    trained = 0
    while moves := drain(state):
        for trial, _, to in moves:
            trained += 1
            if to == 27:
                state.completed(TrialId(trial), 27, float(trial))
            else:
                state.paused(TrialId(trial), to, float(trial))
    assert trained == 9 + 3 + 1


def test_trials_start_at_the_lowest_rung_and_are_not_judged_on_their_way() -> None:
    state = ASHA(max_resource=81, min_resource=2).begin()
    assert state.first_target(TrialId(0)) == 3
    assert state.may_create(TrialId(0))
    state.created(TrialId(0), {})
    state.reported(TrialId(0), 1, None)
    assert state.judge(TrialId(0), 1) is None


def test_improving_arrivals_are_all_promoted() -> None:
    """asha.md 1.4: a known weakness; do not enqueue configurations in the order of expected quality."""
    state = NINE.begin()
    for number in range(30):
        pause_new(state, [float(-number)], first=number)
        drain(state)
    pause_new(state, [100.0], first=30)
    assert state.position(TrialId(0)).startswith("rank 30 of 31")
    assert sum(rung["promoted"] for rung in state.snapshot()["rungs"][:1]) == 28, "all but the first two"


@pytest.mark.parametrize("seed", range(5))
def test_random_arrivals_promote_about_a_square_root_in_excess(seed: int) -> None:
    """asha.md 1.2: 268.5 promoted on average of 1024 with η = 4, where 256 are ideal."""
    source = random.Random(seed)
    state = ASHA(max_resource=4, reduction_factor=4).begin()
    total = 0
    scores = [source.random() for _ in range(1024)]
    for number, score in enumerate(scores):
        pause_new(state, [score], first=number)
        total += len(drain(state))
    best = sorted(range(1024), key=lambda number: scores[number])[:256]
    assert 256 <= total <= 256 + 32
    assert all(state.position(TrialId(number)).endswith("on its way to resource 4") for number in best), (
        "none of the true best quarter is left behind"
    )


def play_to_the_end(state: SchedulerState, max_resource: int) -> list[Move]:
    """Promote until neither promotion nor closing promotion is left; return all moves."""
    moves: list[Move] = []
    while True:
        due = drain(state)
        closing = state.closing_promotion()
        if not due and closing is not None:
            state.promoted(closing.trial, closing.from_resource, closing.to_resource)
            due = [(closing.trial, closing.from_resource, closing.to_resource)]
        if not due:
            return moves
        for trial, _, to in due:
            if to == max_resource:
                state.completed(TrialId(trial), to, float(trial))
            else:
                state.paused(TrialId(trial), to, float(trial))
        moves += due


def test_finish_best_trains_the_best_of_the_highest_rung_to_the_end() -> None:
    """asha.md 1.13."""
    state = begun(ASHA(max_resource=27, finish_best=True), [4.0, 3.0, 2.0, 1.0])
    assert play_to_the_end(state, 27) == [(3, 1, 3), (3, 3, 9), (3, 9, 27)]


def test_finish_best_takes_two_trials_even_if_no_rung_promotes() -> None:
    state = begun(ASHA(max_resource=3, finish_best=True), [2.0, 1.0])
    closing = state.closing_promotion()
    assert closing is not None
    assert closing.reason == "best at resource 1, goes on to 3 since no other trial will reach 3 (finish_best)"
    assert play_to_the_end(state, 3) == [(1, 1, 3)]


def test_finish_best_takes_the_next_one_if_the_best_fails_on_its_way() -> None:
    state = begun(ASHA(max_resource=3, finish_best=True), [1.0, 2.0])
    state.promoted(TrialId(0), 1, 3)
    assert state.closing_promotion() is None, "one is on its way"
    state.failed(TrialId(0), 3)
    closing = state.closing_promotion()
    assert closing is not None
    assert closing.trial == 1


def test_finish_best_does_nothing_once_a_trial_came_to_the_end() -> None:
    state = begun(ASHA(max_resource=3, finish_best=True), [1.0, 2.0, 3.0, 4.0])
    assert play_to_the_end(state, 3) == [(0, 1, 3)]
    state.failed(TrialId(1), 3)
    state.stopped(TrialId(2), 1, None)
    assert state.closing_promotion() is None


def test_finish_best_is_not_misled_by_a_scoreless_trial_that_is_given_up() -> None:
    state = begun(ASHA(max_resource=3, finish_best=True), [None, 1.0])
    state.failed(TrialId(0), 3)
    closing = state.closing_promotion()
    assert closing is not None
    assert closing.trial == 1


def test_finish_best_never_takes_a_trial_without_a_finite_score() -> None:
    """asha.md 1.6."""
    state = begun(ASHA(max_resource=27, finish_best=True), [None, None, None])
    assert state.closing_promotion() is None
    state = begun(ASHA(max_resource=9, finish_best=True), [5.0, 6.0, 7.0, 8.0])
    assert drain(state) == [(0, 1, 3)]
    state.paused(TrialId(0), 3, None)
    closing = state.closing_promotion()
    assert closing is not None
    assert (closing.trial, closing.from_resource) == (1, 1), "the highest rung has nobody who could go on"


def test_without_finish_best_nothing_closes() -> None:
    assert begun(NINE, [1.0, 2.0]).closing_promotion() is None


@settings(max_examples=150, deadline=None)
@given(COMMANDS, st.sampled_from([(9, 1, 3), (8, 1, 2), (27, 2, 3), (4, 1, 4), (5, 5, 2)]))
def test_every_promotion_is_the_one_that_brute_force_finds(commands: list[Command], form: tuple[int, int, int]) -> None:
    """asha.md 1.1, 1.5, 1.6, 1.11, 1.12, 1.14, and 1.19: the state is put through its snapshot after every fact."""
    max_resource, min_resource, eta = form
    scheduler = ASHA(max_resource=max_resource, min_resource=min_resource, reduction_factor=eta)
    play = OraclePlay(scheduler, Oracle(scheduler.levels, eta))
    play.go(commands)
    assert legal_promotions(play.facts, scheduler.levels, eta) == []
    assert check_promotions(play.facts, scheduler.levels, eta) == sum(fact[0] == "promoted" for fact in play.facts)


def test_the_oracle_refuses_a_promotion_that_is_not_due() -> None:
    arrivals: list[Fact] = [("paused", trial, 1, float(trial)) for trial in range(3)]
    assert check_promotions([*arrivals, ("promoted", 0, 1, 3)], [1, 3, 9], 3) == 1
    with pytest.raises(AssertionError, match=r"\(0, 1, 3\) was due"):
        check_promotions([*arrivals, ("promoted", 1, 1, 3)], [1, 3, 9], 3)
    with pytest.raises(AssertionError, match="no promotion was due"):
        check_promotions([*arrivals[:2], ("promoted", 0, 1, 3)], [1, 3, 9], 3)
    with pytest.raises(AssertionError, match="no promotion was due"):
        check_promotions([*arrivals, ("promoted", 0, 1, 3), ("promoted", 0, 1, 3)], [1, 3, 9], 3)
    assert check_promotions([*arrivals[:2], ("promoted", 0, 1, 3)], [1, 3, 9], 3, closing=True) == 1


def test_a_decision_at_100_000_trials_costs_as_much_as_at_1000() -> None:
    """asha.md 1.18, in instructions of Python; ``test_rungs`` counts comparisons."""

    def decision(num_trials: int) -> float:
        source = random.Random(0)
        state = ASHA(max_resource=3**10).begin()
        pause_new(state, [source.random() for _ in range(num_trials)])
        drain(state)

        def decide(number: int) -> None:
            pause_new(state, [source.random()], first=number)
            drain(state)

        return sum(instructions(partial(decide, num_trials + number)) for number in range(200)) / 200

    assert decision(100_000) < 2 * decision(1_000)

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.ids import TrialId
from asyncsearch.schedulers import ASHA, SchedulerState
from tests.schedulers.tools import restored

NINE = ASHA(max_resource=9, variant="stopping")
THREE_UP = ASHA(max_resource=9, min_resource=3, variant="stopping")
"""Rungs 1, 3, 9."""


def report(state: SchedulerState, trial: int, resource: int, score: float | None) -> str | None:
    """Do what the engine does with a report."""
    if resource == 1:
        state.created(TrialId(trial), {})
    state.reported(TrialId(trial), resource, score)
    reason = state.judge(TrialId(trial), resource)
    if reason is not None:
        state.stopped(TrialId(trial), resource, None)
    return reason


def kept(scores: list[float | None], scheduler: ASHA = NINE) -> list[int]:
    """Return which of the trials that arrive at the first rung in this order go on."""
    state = scheduler.begin()
    return [number for number, score in enumerate(scores) if report(state, number, 1, score) is None]


@pytest.mark.parametrize(
    ("scores", "going_on"),
    [
        ([5.0], [0]),
        ([1.0, 2.0], [0]),
        ([2.0, 1.0], [0, 1]),
        ([3.0, 2.0, 1.0], [0, 1, 2]),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 1.5], [0, 5]),
        ([1.0, 2.0, 3.0, 4.0, 5.0, 2.5], [0]),
        ([4.0] * 12, [0, 5, 8, 11]),
        ([None], []),
        ([None, None, 3.0], [2]),
        ([float("nan"), 3.0, 7.0, 2.0], [1, 3]),
        ([None, None, None, None, 9.0, 8.0, 10.0], [4, 5]),
    ],
)
def test_scores_in_those_that_go_on_out(scores: list[float | None], going_on: list[int]) -> None:
    """asha.md 1.2, 1.3, 1.5, 1.6: the best max(⌊n/η⌋, 1) so far, itself included; what is not finite is stopped."""
    assert kept(scores) == going_on


def test_improving_arrivals_all_go_on() -> None:
    """asha.md 1.4: a known weakness of the rule."""
    assert len(kept([float(-number) for number in range(81)])) == 81


@given(st.lists(st.one_of(st.none(), st.sampled_from([0.0, 1.0]), st.floats(-5, 5)), max_size=40), st.integers(2, 4))
def test_going_on_is_what_brute_force_says(scores: list[float | None], eta: int) -> None:
    expected: list[int] = []
    for number, score in enumerate(scores):
        better = sum(other is not None and score is not None and other < score for other in scores[:number])
        tied = sum(scores[other] == score for other in expected)
        if score is not None and better + tied < max((number + 1) // eta, 1):
            expected.append(number)
    assert kept(scores, ASHA(max_resource=eta * eta, reduction_factor=eta, variant="stopping")) == expected


def test_random_arrivals_keep_little_more_than_one_of_eta() -> None:
    """asha.md 1.3: others keep 84.3 and 83.7 of 243 on average; 81 is the quota once all are known."""
    totals = []
    for seed in range(20):
        source = random.Random(seed)
        totals.append(len(kept([source.random() for _ in range(243)])))
    assert 75 <= sum(totals) / len(totals) <= 87


def test_trials_train_to_the_end_and_never_pause() -> None:
    state = NINE.begin()
    assert state.first_target(TrialId(0)) == 9
    assert state.next_promotion() is None
    assert state.closing_promotion() is None


def test_only_the_report_that_passes_a_rung_is_judged() -> None:
    state = NINE.begin()
    assert report(state, 0, 1, 1.0) is None
    assert report(state, 1, 1, 0.5) is None
    assert report(state, 1, 2, 99.0) is None, "no rung lies at 2"
    assert report(state, 0, 2, 0.1) is None
    assert report(state, 0, 3, 0.1) is None
    assert report(state, 1, 3, 0.2) == "stopped at resource 3: rank 2 of 2, 1 goes on"
    assert state.judge(TrialId(0), 3) is None, "was judged before"


def test_a_trial_at_max_resource_is_not_stopped() -> None:
    state = NINE.begin()
    for resource in (1, 2, 3, 4, 9):
        assert report(state, 0, resource, 1.0) is None
    for resource in (1, 3):
        assert report(state, 1, resource, 0.5) is None
    assert report(state, 1, 9, 100.0) is None
    assert report(state, 1, 10, 100.0) is None


def test_a_report_that_jumps_over_rungs_counts_at_the_highest_only() -> None:
    """asha.md 1.9: never later at the rungs below."""
    state = ASHA(max_resource=27, variant="stopping").begin()
    for resource in (1, 3, 9):
        assert report(state, 0, resource, 5.0) is None
    assert report(state, 1, 1, 4.0) is None
    assert report(state, 1, 10, 1.0) is None
    assert report(state, 1, 11, 99.0) is None, "rung 3 is not filled in afterwards"
    sizes = [rung["size"] for rung in state.snapshot()["rungs"]]
    assert sizes == [2, 1, 2, 0]


def test_what_counts_at_a_rung_is_the_last_report_at_or_before_it() -> None:
    """asha.md 1.9, and law 11: a value from beyond the rung would favour the trial."""
    state = NINE.begin()
    for resource in (1, 3):
        assert report(state, 0, resource, 2.0) is None
    assert report(state, 1, 1, 1.0) is None
    assert report(state, 1, 2, 3.0) is None
    assert report(state, 1, 5, 0.0) == "stopped at resource 5: rank 2 of 2 at the rung of 3, 1 goes on"


def test_a_trial_without_a_report_up_to_a_rung_is_judged_by_its_first() -> None:
    """Law 11: a metric that is not there yet is not a bad one."""
    state = NINE.begin()
    assert report(state, 0, 5, 2.0) is None
    assert report(state, 1, 4, 3.0) == "stopped at resource 4: rank 2 of 2 at the rung of 3, 1 goes on"
    assert report(state, 2, 4, 1.0) is None
    assert report(state, 2, 5, 9.0) is None, "it was judged at 3 before"


def test_a_value_before_a_rung_that_is_not_finite_is_no_missing_one() -> None:
    state = THREE_UP.begin()
    assert report(state, 0, 1, None) is None, "no rung lies at 1"
    assert report(state, 0, 4, 0.0) == (
        "stopped at resource 4: its value at the rung of 3 is not finite, which counts as the worst of 1"
    )


def test_a_value_that_is_not_finite_at_a_rung_stops_the_trial() -> None:
    """asha.md 1.6: others let it go on for ever."""
    assert report(NINE.begin(), 0, 1, None) == (
        "stopped at resource 1: its value there is not finite, which counts as the worst of 1"
    )


def test_every_stop_says_rank_count_and_quota() -> None:
    state = NINE.begin()
    for number in range(19):
        report(state, number, 1, float(number))
    assert report(state, 19, 1, 5.5) == "stopped at resource 1: rank 7 of 20, 6 go on"


def test_a_failed_trial_is_worst_at_the_rung_that_it_headed_for() -> None:
    """asha.md 1.6."""
    state = NINE.begin()
    for number in range(5):
        state.created(TrialId(number), {})
        state.failed(TrialId(number), 9)
        state.failed(TrialId(number), 9)
    assert [rung["size"] for rung in state.snapshot()["rungs"]] == [5, 0, 0]
    assert report(state, 5, 1, 1.0) is None
    assert report(state, 6, 1, 2.0) is None, "rank 2 of 7"
    state.failed(TrialId(5), 9)
    assert [rung["size"] for rung in state.snapshot()["rungs"]] == [7, 1, 0]


def test_a_trial_that_ends_by_itself_counts_with_its_last_score() -> None:
    """asha.md 1.14."""
    state = NINE.begin()
    assert report(state, 0, 1, 1.0) is None
    state.completed(TrialId(0), 2, 0.5)
    assert report(state, 1, 1, 0.9) is None
    assert report(state, 1, 3, 0.6) == "stopped at resource 3: rank 2 of 2, 1 goes on"


def test_a_late_report_of_a_stopped_trial_counts_nowhere() -> None:
    """asha.md 1.11."""
    state = NINE.begin()
    report(state, 0, 1, 1.0)
    assert report(state, 1, 1, 2.0) is not None
    before = state.snapshot()
    state.reported(TrialId(1), 3, 0.0)
    assert state.judge(TrialId(1), 3) is None
    state.failed(TrialId(1), 9)
    assert state.snapshot() == before


def test_position_tells_which_rung_was_passed() -> None:
    state = NINE.begin()
    assert state.position(TrialId(0)) == ""
    state.created(TrialId(0), {})
    assert state.position(TrialId(0)) == "on its way to resource 1"
    report(state, 0, 1, 1.0)
    report(state, 1, 1, 2.0)
    assert state.position(TrialId(0)) == "one of 2 that passed the rung of 1; 1 goes on"


REPORTS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 5), st.one_of(st.none(), st.floats(-5, 5))), max_size=40)


@settings(max_examples=100, deadline=None)
@given(REPORTS)
def test_state_survives_its_snapshot_to_the_byte_after_every_fact(
    reports: list[tuple[int, int, float | None]],
) -> None:
    """asha.md 1.19: also between a report and its judgement."""
    kept_whole, copied = NINE.begin(), NINE.begin()
    resources = dict.fromkeys(range(7), 0)
    for number, step, score in reports:
        trial = TrialId(number)
        resources[number] += step
        for state in (kept_whole, copied):
            state.created(trial, {})
            state.reported(trial, resources[number], score)
        copied = restored(NINE, copied)
        reason = kept_whole.judge(trial, resources[number])
        assert copied.judge(trial, resources[number]) == reason
        if reason is not None:
            kept_whole.stopped(trial, resources[number], None)
            copied.stopped(trial, resources[number], None)
            copied = restored(NINE, copied)
    assert copied.snapshot() == kept_whole.snapshot()

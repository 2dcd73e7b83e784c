"""Median stopping: who is stopped where, and what is remembered of whom."""

from __future__ import annotations

import math
import random
import statistics
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import ResourceError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import MedianStopping, RungForecast, SchedulerState
from tests.schedulers.tools import restored

EACH = MedianStopping(max_resource=10, min_trials=2, interval=1)
"""The paper's rule: judged at every unit."""
DOUBLING = MedianStopping(max_resource=100, min_trials=1)
"""Judged at 1, 2, 4, 8, ..."""

Report = tuple[int, int, float | None]
"""(trial, resource, score)"""


def report(state: SchedulerState, trial: int, resource: int, score: float | None) -> str | None:
    """Do what the engine does with a report, beginning trials as they come."""
    state.created(TrialId(trial), {})
    state.reported(TrialId(trial), resource, score)
    reason = state.judge(TrialId(trial), resource)
    if reason is not None:
        state.stopped(TrialId(trial), resource, None)
    return reason


def stops(scheduler: MedianStopping, *histories: Sequence[float | None]) -> list[int | None]:
    """Train one trial after the other, each reporting at every unit; return where each is stopped."""
    state = scheduler.begin()
    ends: list[int | None] = []
    for trial, scores in enumerate(histories):
        for resource, score in enumerate(scores, start=1):
            if report(state, trial, resource, score) is not None:
                ends.append(resource)
                break
        else:
            ends.append(None)
    return ends


@pytest.mark.parametrize(
    ("histories", "ends"),
    [
        ([[1.0], [2.0], [3.0]], [None, None, 1]),
        ([[1.0], [3.0], [2.0]], [None, None, None]),
        ([[1.0], [3.0], [2.1]], [None, None, 1]),
        ([[2.0], [2.0], [2.0], [2.0]], [None, None, None, None]),
        ([[0.1] * 9, [0.1] * 9, [0.1] * 9], [None, None, None]),
        ([[4.0, 2.0, 0.0], [4.0, 2.0, 0.0], [4.0, 4.0, 4.0]], [None, None, 2]),
        ([[4.0, 2.0, 0.0], [4.0, 2.0, 0.0], [4.0, 3.0, 4.0], [4.0, 3.5, 1.0]], [None, None, 3, 2]),
        ([[4.0, 2.0, 0.0], [4.0, 2.0, 0.0], [4.0, 1.0, 9.0, 9.0]], [None, None, None]),
        ([[9.0], [9.0], [None]], [None, None, 1]),
        ([[9.0], [9.0], [float("nan")]], [None, None, 1]),
        ([[9.0], [9.0], [float("-inf")]], [None, None, 1]),
        ([[None], [9.0], [None]], [None, None, None]),
        ([[None], [None], [None], [9.0]], [None, None, None, None]),
        ([[None], [None], [9.0], [9.0], [9.0], [8.0], [None]], [None, None, None, None, None, None, 1]),
        ([[9.0, 9.0], [9.0, 9.0], [1.0, None]], [None, None, 2]),
    ],
    ids=str,
)
def test_scores_in_stops_out(histories: list[list[float | None]], ends: list[int | None]) -> None:
    """Strictly worse than the median of averages, of two others at least; what is not finite is worst where it is."""
    assert stops(EACH, *histories) == ends


def test_the_best_value_is_compared_with_averages_not_with_best_values() -> None:
    """Averages of the others are 5 at resource 2; a best of 4.5 is better than that, though worse than their best."""
    assert stops(EACH, [8.0, 2.0], [8.0, 2.0], [4.5, 9.0]) == [None, None, None]
    assert stops(EACH, [8.0, 2.0], [8.0, 2.0], [5.5, 5.5]) == [None, None, 2]


def test_trials_are_compared_at_a_resource_however_many_reports_they_made() -> None:
    """Reports at 2, 4, 6 are aligned with reports at 1, 2, 3, 4 by resource; their count would pair 4 with 2."""
    state = EACH.begin()
    for trial in (0, 1):
        for resource in (1, 2, 3, 4):
            assert report(state, trial, resource, 10.0 - resource) is None
    assert report(state, 2, 2, 8.4) is None, "their averages at 2 are 8.5"
    assert report(state, 2, 4, 7.6) == (
        "stopped at resource 4: its best value is worse than the median of the averages of 2 other trials there"
    ), "their averages at 4 are 7.5; at the second report they would be 8.5"


def test_only_trials_that_reached_a_resource_count_there() -> None:
    state = EACH.begin()
    for trial in range(5):
        assert report(state, trial, 1, 1.0) is None
    assert report(state, 5, 1, 1.0) is None
    for resource in range(2, 11):
        assert report(state, 5, resource, 100.0) is None, "nobody else was there"


def test_nobody_is_judged_in_the_grace_before_enough_others_or_at_the_end() -> None:
    grace = MedianStopping(max_resource=10, min_resource=3, min_trials=2, interval=1)
    assert stops(grace, [1.0] * 10, [1.0] * 10, [9.0] * 10) == [None, None, 3]
    assert stops(EACH, [1.0] * 10, [9.0] * 10) == [None, None]
    late = MedianStopping(max_resource=3, min_resource=3, min_trials=1, interval=1)
    assert stops(late, [1.0] * 3, [9.0] * 3) == [None, None]
    state = late.begin()
    assert report(state, 0, 3, 1.0) is None
    assert state.snapshot()["averages"] == [], "nobody is ever compared with it there"


def test_a_trial_that_jumps_over_the_last_point_is_complete_and_counts() -> None:
    state = DOUBLING.begin()
    for trial, score in ((0, 9.0), (1, 1.0)):
        for resource in (33, 100):
            assert report(state, trial, resource, score) is None
    assert state.snapshot()["averages"] == [{"point": 32, "values": [1.0, 9.0]}, {"point": 64, "values": [1.0, 9.0]}]


def test_points_double_unless_an_interval_is_given() -> None:
    assert [DOUBLING.point(index) for index in range(5)] == [1, 2, 4, 8, 16]
    assert [DOUBLING.index(resource) for resource in (1, 2, 3, 4, 7, 8)] == [0, 1, 1, 2, 2, 3]
    from_three = MedianStopping(min_resource=3)
    assert [from_three.index(resource) for resource in (1, 2, 3, 5, 6, 11, 12)] == [-1, -1, 0, 0, 1, 1, 2]
    tens = MedianStopping(min_resource=5, interval=10)
    assert [tens.point(index) for index in range(3)] == [5, 15, 25]
    assert [tens.index(resource) for resource in (4, 5, 14, 15, 25)] == [-1, 0, 0, 1, 2]
    assert stops(DOUBLING, [1.0] * 20, [1.0] * 8 + [9.0] * 12, [1.0] * 2 + [9.0] * 18) == [None, None, None]
    assert stops(DOUBLING, [5.0] * 20, [9.0] * 20) == [None, 1]


@settings(max_examples=200)
@given(st.integers(1, 10**6), st.integers(0, 10**9), st.one_of(st.none(), st.integers(1, 10**4)))
def test_the_last_point_at_or_before_a_resource_is_found_without_search(
    low: int, more: int, interval: int | None
) -> None:
    scheduler = MedianStopping(min_resource=low, interval=interval)
    index = scheduler.index(low + more)
    assert scheduler.point(index) <= low + more < scheduler.point(index + 1)
    assert scheduler.index(low - 1) == -1


def test_what_counts_at_a_point_is_what_was_reported_at_or_before_it() -> None:
    """A report beyond the point is not known there, neither good nor bad; of points jumped over the last one counts."""
    state = DOUBLING.begin()
    for resource, score in ((1, 4.0), (2, 4.0), (7, 0.0), (8, 0.0)):
        assert report(state, 0, resource, score) is None
    assert [at["values"] for at in state.snapshot()["averages"]] == [[4.0], [4.0], [4.0], [2.0]]
    assert report(state, 1, 2, 6.0) is not None
    assert report(state, 2, 3, 5.0) is None, "nothing at or before 2, so that its first value counts there"
    assert [at["values"] for at in state.snapshot()["averages"]] == [[4.0], [4.0, 5.0, 6.0], [4.0], [2.0]]
    reason = report(state, 2, 5, 0.0)
    assert reason == (
        "stopped at resource 5: its best value is worse than the median of the averages of 1 other trial at 4"
    )


def test_points_that_are_jumped_over_at_once_cost_nothing() -> None:
    state = MedianStopping(interval=1).begin()
    state.created(TrialId(0), {})
    state.reported(TrialId(0), 1, 1.0)
    state.reported(TrialId(0), 10**9, 1.0)
    assert [at["point"] for at in state.snapshot()["averages"]] == [1, 10**9]


def test_every_stop_says_why_without_the_sign_that_users_never_see() -> None:
    state = EACH.begin()
    for trial in (0, 1):
        report(state, trial, 1, -5.0)
    reason = report(state, 2, 1, -4.0)
    assert reason == (
        "stopped at resource 1: its best value is worse than the median of the averages of 2 other trials there"
    )
    assert report(state, 3, 1, None) == (
        "stopped at resource 1: its last value there is not finite, which counts as worse than the median of 3 other "
        "trials"
    )


def test_an_ended_trial_counts_at_the_points_it_passed_and_at_no_other() -> None:
    state = EACH.begin()
    for trial in (0, 1, 2):
        report(state, trial, 1, float(trial))
    state.failed(TrialId(0), 10)
    before = state.snapshot()["averages"]
    for resource in (2, 3):
        state.reported(TrialId(0), resource, 0.0)
        state.reported(TrialId(2), resource, 0.0)
        assert state.judge(TrialId(0), resource) is state.judge(TrialId(2), resource) is None
    assert state.snapshot()["averages"] == before == [{"point": 1, "values": [0.0, 1.0, 2.0]}]
    assert [running["trial"] for running in state.snapshot()["courses"]] == [1]


def test_a_trial_that_returns_early_is_done_and_blocks_nobody() -> None:
    state = EACH.begin()
    report(state, 0, 1, 1.0)
    state.completed(TrialId(0), 1, 1.0)
    state.completed(TrialId(0), 1, 1.0)
    assert state.next_promotion() is None
    assert state.position(TrialId(0)) == ""
    assert report(state, 1, 1, 1.0) is None


def test_a_report_is_judged_by_the_trials_that_were_there_before_it() -> None:
    """Trials that report between a report and its judgement, as subscribers of one stage do, change nothing."""
    state = EACH.begin()
    for trial in (0, 1):
        report(state, trial, 1, 5.0)
    for trial in (2, 3, 4, 5):
        state.created(TrialId(trial), {})
        state.reported(TrialId(trial), 1, 6.0)
    assert [state.judge(TrialId(trial), 1) is None for trial in (2, 3, 4, 5)] == [False, False, False, True]


def test_position_tells_where_a_trial_was_compared() -> None:
    state = DOUBLING.begin()
    assert state.position(TrialId(0)) == ""
    state.created(TrialId(0), {})
    assert state.position(TrialId(0)) == "not compared with other trials before resource 1"
    report(state, 0, 1, 1.0)
    report(state, 1, 1, 1.0)
    assert state.position(TrialId(1)) == "last compared at resource 1, which 1 other trial had reached before"


def expected(reports: list[Report], scheduler: MedianStopping) -> list[bool]:
    """Say for each report by brute force whether it stops its trial; reports after that count nothing."""
    reported: dict[int, list[tuple[int, float | None]]] = {}
    averages: dict[int, list[float]] = {}
    stopped: set[int] = set()
    verdicts = []
    for trial, resource, score in reports:
        if trial in stopped:
            verdicts.append(False)
            continue
        earlier = reported.setdefault(trial, [])
        last = earlier[-1][0] if earlier else 0
        earlier.append((resource, score))
        points = [p for p in points_up_to(scheduler, resource) if p > last]
        known = [value for at, value in earlier if points and at <= points[-1]] or [score]
        is_worse = False
        if points and points[-1] != scheduler.max_resource:
            values = [value for value in known if value is not None]
            best, average = (min(values), sum(values) / len(values)) if known[-1] is not None else (math.inf, math.inf)
            others = averages.setdefault(points[-1], [])
            is_judged = len(others) >= scheduler.min_trials and resource != scheduler.max_resource
            is_worse = is_judged and best > statistics.median(others)
            others.append(average)
        if is_worse:
            stopped.add(trial)
        verdicts.append(is_worse)
    return verdicts


def points_up_to(scheduler: MedianStopping, resource: int) -> list[int]:
    points, point = [], scheduler.min_resource
    while point <= resource:
        points.append(point)
        point += scheduler.interval or point
    return points


STEPS = st.lists(
    st.tuples(
        st.integers(0, 7),
        st.sampled_from([1, 1, 1, 1, 2, 3, 5]),
        st.one_of(st.none(), st.integers(0, 4).map(lambda number: 840.0 * number)),
    ),
    max_size=60,
)
"""(trial, units since its last report, score): up to 8 such scores have averages that are exact."""


@settings(max_examples=300, deadline=None)
@given(STEPS, st.sampled_from([None, 1, 2]), st.integers(1, 3), st.integers(1, 3))
def test_every_stop_is_the_one_that_brute_force_finds(
    steps: list[Report], interval: int | None, min_trials: int, min_resource: int
) -> None:
    """In any order of reports, through a snapshot after each."""
    scheduler = MedianStopping(max_resource=8, min_resource=min_resource, min_trials=min_trials, interval=interval)
    at: dict[int, int] = {}
    reports = []
    for trial, units, score in steps:
        if at.get(trial, 0) < 8:
            at[trial] = min(8, at.get(trial, 0) + units)
            reports.append((trial, at[trial], score))
    state: SchedulerState = scheduler.begin()
    verdicts = []
    over: set[int] = set()
    for trial, resource, score in reports:
        if trial not in over:
            state.created(TrialId(trial), {})
        state.reported(TrialId(trial), resource, score)
        reason = state.judge(TrialId(trial), resource)
        assert restored(scheduler, state).judge(TrialId(trial), resource) == reason
        verdicts.append(reason is not None)
        if reason is not None:
            over.add(trial)
            state.stopped(TrialId(trial), resource, None)
        state = restored(scheduler, state)
    assert verdicts == expected(reports, scheduler)


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(1, 40))
def test_the_average_of_equal_values_is_that_value_so_ties_stop_nobody(value: float, count: int) -> None:
    scheduler = MedianStopping(min_trials=1, interval=1)
    assert stops(scheduler, *[[value] * count] * 4) == [None] * 4


def test_huge_values_do_not_overflow() -> None:
    assert stops(EACH, *[[1.7e308, -1.7e308, 1.7e308]] * 4) == [None] * 4
    state = EACH.begin()
    for resource, score in enumerate([1.7e308, -1.7e308, 1.7e308], start=1):
        report(state, 0, resource, score)
    (running,) = state.snapshot()["courses"]
    assert math.isfinite(running["average"])


def test_a_finished_trial_is_remembered_in_less_than_80_bytes() -> None:
    """Of trials that all train to the end of 81 units, the worst case, with the points that double."""
    scheduler = MedianStopping(max_resource=81, min_trials=10**9)
    state = scheduler.begin()
    source = random.Random(5)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(3_000):
            trial = TrialId(number)
            state.created(trial, {})
            for resource in (1, 2, 4, 8, 16, 32, 64, 81):
                state.reported(trial, resource, source.random())
            state.completed(trial, 81, 0.0)
        size = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert size / 3_000 < 80


def test_trials_train_to_the_end_unless_they_are_stopped() -> None:
    scheduler = MedianStopping(max_resource=81, interval=3)
    assert not scheduler.pauses
    assert scheduler.begin().first_target(TrialId(0)) == 81
    assert MedianStopping().begin().first_target(TrialId(0)) is None
    assert scheduler.forecast(9) == [RungForecast(0, 81, 9)]
    assert MedianStopping().forecast(9) == [RungForecast(0, None, 9)]


def test_a_search_that_can_stop_nobody_is_warned_of() -> None:
    assert DOUBLING.warnings(None) == DOUBLING.warnings(2) == []
    (few,) = MedianStopping(max_resource=81).warnings(5)
    assert few == (
        "No trial is ever stopped: a trial is compared with 5 others or more, and there are 5 trials. "
        "Use num_trials > 5 or a smaller min_trials."
    )
    (late,) = MedianStopping(max_resource=9, min_resource=9).warnings(None)
    assert late == (
        "No trial is ever judged: min_resource is max_resource=9, where trials are complete. Use a lower min_resource."
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_resource": 0}, "max_resource=0 is too small"),
        ({"min_resource": 1.5}, "min_resource=1.5 is not an integer"),
        ({"min_trials": 0}, "min_trials=0 is too small"),
        ({"interval": 0}, "interval=0 is too small"),
        ({"max_resource": 9, "min_resource": 10}, "min_resource=10 is above max_resource=9.* Use min_resource < 9"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ResourceError, match=words):
        MedianStopping(**arguments)

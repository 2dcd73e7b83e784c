from __future__ import annotations

import random
import sys
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.errors import InternalError, ResourceError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers.rungs import Progress, Rung, rung_levels


@pytest.mark.parametrize(
    ("max_resource", "reduction_factor", "rungs"),
    [(81, 3, 5), (243, 3, 6), (3**10, 3, 11), (1000, 10, 4), (10**6, 10, 7), (256, 4, 5), (100, 4, 4)],
)
def test_every_rung_is_there_where_logarithms_lose_one(max_resource: int, reduction_factor: int, rungs: int) -> None:
    """asha.md 1.8."""
    levels = rung_levels(1, max_resource, reduction_factor)
    assert len(levels) == rungs
    assert levels[-1] == max_resource


@pytest.mark.parametrize(
    ("arguments", "levels"),
    [
        ((1, 81, 3), (1, 3, 9, 27, 81)),
        ((1, 100, 4), (1, 6, 25, 100)),
        ((1, 10, 4), (2, 10)),
        ((2, 81, 3), (3, 9, 27, 81)),
        ((9, 81, 3), (9, 27, 81)),
        ((28, 81, 3), (81,)),
        ((1, 2, 3), (2,)),
        ((1, 1, 2), (1,)),
        ((1, 2**61, 2), tuple(2**k for k in range(62))),
    ],
)
def test_levels_are_divided_down_from_the_top(arguments: tuple[int, int, int], levels: tuple[int, ...]) -> None:
    """asha.md 1.8: the last ratio is exactly the reduction factor, and no level comes twice."""
    assert rung_levels(*arguments) == levels


@given(st.integers(1, 100), st.integers(0, 10**6), st.integers(2, 12))
def test_levels_rise_and_stay_within_their_bounds(low: int, more: int, factor: int) -> None:
    levels = rung_levels(low, low + more, factor)
    assert list(levels) == sorted(set(levels))
    assert low <= levels[0] < low * factor, "a lower rung would have fitted"
    assert all(below == above // factor for below, above in pairwise(levels))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1, 81.0, 3), r"max_resource=81.0 is not an integer.*max_resource=81\b"),
        ((1, np.int64(81), 3), r"max_resource=np.int64\(81\) is not an integer.*max_resource=81\b"),
        ((1, "81", 3), "max_resource='81' is not an integer"),
        ((1, True, 3), "max_resource=True is not an integer"),
        ((1, None, 3), "max_resource=None is not an integer"),
        ((1, float("nan"), 3), "max_resource=nan is not an integer"),
        ((0, 81, 3), "min_resource=0 is too small.*at least 1"),
        ((1, 0, 3), "max_resource=0 is too small.*at least 1"),
        ((1, -5, 3), "max_resource=-5 is too small"),
        ((1, 81, 1), "reduction_factor=1 is too small.*at least 2"),
        ((1, 81, 2.5), "reduction_factor=2.5 is not an integer.*reduction_factor=2"),
        ((1, 2**62, 3), "max_resource=4611686018427387904 is too large: .* up to 4611686018427387903.*coarser units"),
        ((10**5000, 81, 3), "min_resource of 16,610 bits is too large"),
        ((100, 81, 3), "min_resource=100 is above max_resource=81.*min_resource <= 81 or max_resource >= 100"),
    ],
)
def test_resources_that_do_not_fit_are_refused_with_the_next_step(arguments: tuple[Any, Any, Any], words: str) -> None:
    """asha.md 1.20: min_resource is at least 1."""
    with pytest.raises(ResourceError, match=words):
        rung_levels(*arguments)


def filled(scores: list[float | None], quota: int) -> Rung:
    rung = Rung()
    for number, score in enumerate(scores):
        rung.insert(TrialId(number), score)
    rung.allow(quota)
    return rung


def promote_all(rung: Rung) -> list[int]:
    trials = []
    while rung.candidate is not None:
        score, trial = rung.candidate
        rung.promote(trial, score)
        trials.append(int(trial))
    return trials


@pytest.mark.parametrize(
    ("scores", "quota", "promoted"),
    [
        ([3.0, 1.0, 2.0], 1, [1]),
        ([3.0, 1.0, 2.0], 0, []),
        ([3.0, 1.0, 2.0], 3, [1, 2, 0]),
        ([5.0, 5.0, 5.0, 5.0], 2, [0, 1]),
        ([0.0, -0.0, 0.0], 2, [0, 1]),
        ([None, None, None], 1, []),
        ([None, 7.0, None], 3, [1]),
        ([float("nan"), 7.0, float("-inf"), float("inf")], 4, [1]),
        ([], 1, []),
    ],
)
def test_the_best_within_the_quota_go_on_by_score_then_trial_id(
    scores: list[float | None], quota: int, promoted: list[int]
) -> None:
    """asha.md 1.5 and 1.6."""
    assert promote_all(filled(scores, quota)) == promoted


def test_those_without_a_finite_score_count_in_the_size() -> None:
    """asha.md 1.6."""
    assert filled([None, 1.0, float("nan"), float("inf"), float("-inf")], 0).size == 5


def test_a_late_better_trial_takes_a_place_after_worse_ones_went_on() -> None:
    rung = filled([2.0, 3.0, 4.0], 1)
    assert promote_all(rung) == [0]
    rung.insert(TrialId(3), 1.0)
    assert promote_all(rung) == [3]
    rung.insert(TrialId(4), 2.5)
    rung.allow(2)
    assert promote_all(rung) == [], "two better ones went on already"


def test_a_trial_that_ends_at_a_rung_keeps_its_rank_and_never_goes_on() -> None:
    rung = filled([1.0, 2.0, 3.0], 1)
    rung.withdraw(TrialId(0), 1.0)
    assert promote_all(rung) == []
    assert rung.rank(TrialId(1), 2.0) == 2
    assert rung.promoted == 0


@pytest.mark.parametrize(("trial", "score"), [(0, 1.0), (1, 9.0), (7, 2.0), (1, None)])
def test_a_trial_that_does_not_wait_cannot_go_on(trial: int, score: float | None) -> None:
    rung = filled([1.0, 2.0], 1)
    rung.promote(TrialId(0), 1.0)
    with pytest.raises(InternalError, match=f"trial-{trial} does not wait"):
        rung.promote(TrialId(trial), score)


@given(st.lists(st.one_of(st.none(), st.sampled_from([0.5, 1.0]), st.floats(allow_nan=False))), st.integers(0, 10))
def test_a_rung_survives_its_snapshot_to_the_byte(scores: list[float | None], quota: int) -> None:
    """asha.md 1.19."""
    rung = filled(scores, quota)
    if rung.candidate is not None:
        rung.promote(rung.candidate[1], rung.candidate[0])
    text = msgspec.json.encode(rung.snapshot())
    copy = Rung.restored(msgspec.json.decode(text))
    assert msgspec.json.encode(copy.snapshot()) == text
    assert promote_all(copy) == promote_all(rung)


class Counted(float):
    """A score that counts how often it is compared."""

    comparisons = 0

    def __lt__(self, other: float) -> bool:
        Counted.comparisons += 1
        return float.__lt__(self, other)

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return float.__eq__(self, other)

    __hash__ = float.__hash__


def test_insert_candidate_and_promotion_do_not_scan_a_rung_of_100_000() -> None:
    """asha.md 1.18."""
    source = random.Random(0)
    rung = filled([Counted(source.random()) for _ in range(100_000)], 30_000)
    for _ in range(20_000):
        assert rung.candidate is not None
        rung.promote(rung.candidate[1], rung.candidate[0])
    for number in range(100_000, 100_020):
        Counted.comparisons = 0
        rung.insert(TrialId(number), Counted(source.random()))
        rung.allow(rung.quota + 1)
        assert rung.candidate is not None
        rung.promote(rung.candidate[1], rung.candidate[0])
        assert Counted.comparisons < 200


def test_progress_of_a_trial_is_nine_bytes() -> None:
    progress = Progress()
    for number in range(10_000):
        progress.begin(TrialId(number))
        progress.record(TrialId(number), 3, 0.25)
    assert sum(sys.getsizeof(getattr(progress, name)) for name in Progress.__slots__) < 10_000 * 9 * 1.3


def test_progress_knows_only_trials_that_began() -> None:
    progress = Progress()
    progress.begin(TrialId(5))
    assert [progress.knows(TrialId(number)) for number in (4, 5, 6)] == [False, True, False]
    assert progress.next_rung(TrialId(4)) == 0
    assert progress.value(TrialId(9)) is None
    assert not progress.has_ended(TrialId(9))

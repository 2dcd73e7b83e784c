"""What ASHA says of itself: reasons, positions, descriptions, forecasts, warnings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.errors import ResourceError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers import ASHA, RungForecast
from tests.schedulers.tools import begun, drain

NINE = ASHA(max_resource=9)
"""Rungs 1, 3, 9."""


def test_every_promotion_says_rank_count_and_quota() -> None:
    state = begun(NINE, [float(number) for number in range(12)])
    reasons = []
    while (promotion := state.next_promotion()) is not None:
        reasons.append(promotion.reason)
        state.promoted(promotion.trial, promotion.from_resource, promotion.to_resource)
    assert reasons == [f"rank {rank} of 12 at resource 1, 4 go on to 3" for rank in (1, 2, 3, 4)]


def test_position_tells_where_a_trial_is() -> None:
    state = begun(NINE, [1.0, 2.0, 3.0, None])
    state.created(TrialId(4), {})
    assert state.position(TrialId(99)) == ""
    assert state.position(TrialId(4)) == "on its way to resource 1"
    assert state.position(TrialId(1)) == "rank 2 of 4 at resource 1, 1 goes on; it waits there"
    assert state.position(TrialId(3)) == (
        "counts as the worst of 4 at resource 1: it failed or had no finite value, so it does not go on"
    )
    assert drain(state) == [(0, 1, 3)]
    assert state.position(TrialId(0)) == "rank 1 of 4 at resource 1, 1 goes on; on its way to resource 3"
    state.paused(TrialId(0), 3, 1.0)
    state.promoted(TrialId(0), 3, 9)
    state.completed(TrialId(0), 9, 1.0)
    assert state.position(TrialId(0)) == "rank 1 of 1 at resource 9, the last rung"


def test_pausing_is_asked_for_only_where_a_rung_needs_it() -> None:
    assert ASHA(max_resource=81).pauses
    assert not ASHA(max_resource=81, variant="stopping").pauses
    assert not ASHA(max_resource=2).pauses, "one rung"
    assert ASHA(max_resource=81).max_resource == 81


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_resource": 0}, "max_resource=0 is too small"),
        ({"max_resource": 81, "min_resource": 100}, "min_resource=100 is above max_resource=81"),
        ({"max_resource": 81, "reduction_factor": 1}, "reduction_factor=1"),
        ({"max_resource": 81, "variant": "promote"}, "variant='promote' is unknown.*'promotion' or variant='stopping'"),
        ({"max_resource": 81, "finish_best": 1}, "finish_best=1 is neither True nor False"),
        ({"max_resource": 81, "variant": "stopping", "finish_best": True}, "finish_best=True needs paused trials"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ResourceError, match=words):
        ASHA(**arguments)


def test_forecast_divides_by_the_reduction_factor_at_each_rung() -> None:
    trials = [(line.from_resource, line.to_resource, line.trials) for line in ASHA(max_resource=81).forecast(256)]
    assert trials == [(0, 1, 256), (1, 3, 85), (3, 9, 28), (9, 27, 9), (27, 81, 3)]
    assert ASHA(max_resource=2).forecast(7) == [RungForecast(0, 2, 7)]


@pytest.mark.parametrize("options", [{"variant": "stopping"}, {"finish_best": True}])
def test_forecast_counts_the_trial_that_always_goes_on_from_every_rung(options: dict[str, Any]) -> None:
    scheduler = ASHA(max_resource=27, **options)
    forecasts = [[line.trials for line in scheduler.forecast(size)] for size in (0, 1, 4, 10)]
    assert forecasts == [[0, 0, 0, 0], [1, 1, 1, 1], [4, 1, 1, 1], [10, 3, 1, 1]]
    assert [line.trials for line in ASHA(max_resource=27).forecast(4)] == [4, 1, 0, 0]


def test_a_search_too_small_for_its_rungs_is_warned_of() -> None:
    """asha.md 1.13: reaching max_resource needs n ≥ η^(rungs-1)."""
    (warning,) = ASHA(max_resource=81).warnings(20)
    assert warning == (
        "Only trials that are promoted early reach max_resource=81: 20 trials are fewer than 3^4 = 81, and each rung "
        "passes one of 3. Use finish_best=True or num_trials >= 81 or max_resource <= 26."
    )
    assert ASHA(max_resource=81).warnings(81) == []
    assert ASHA(max_resource=81).warnings(None) == []
    assert ASHA(max_resource=26).warnings(20) == []
    assert ASHA(max_resource=81, finish_best=True).warnings(1) == []
    assert ASHA(max_resource=81, variant="stopping").warnings(20) == [], "the first trial always goes on"
    assert "1 trial is fewer than 3^1 = 3" in ASHA(max_resource=3).warnings(1)[0]


def test_a_single_rung_is_warned_of_with_the_nearest_that_has_two() -> None:
    (warning,) = ASHA(max_resource=10, min_resource=5).warnings(100)
    assert warning.endswith("Use max_resource >= 15 or min_resource <= 3 or reduction_factor <= 2.")
    for better in (
        ASHA(max_resource=15, min_resource=5),
        ASHA(max_resource=10, min_resource=3),
        ASHA(max_resource=10, min_resource=5, reduction_factor=2),
    ):
        assert better.warnings(100) == []
    assert ASHA(max_resource=1).warnings(5)[0].endswith("Use max_resource >= 3.")


@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 5), st.integers(2, 5))
def test_the_max_resource_that_a_warning_offers_is_the_highest_that_works(
    num_trials: int, max_resource: int, min_resource: int, eta: int
) -> None:
    if max_resource < min_resource:
        return
    scheduler = ASHA(max_resource=max_resource, min_resource=min_resource, reduction_factor=eta)
    for warning in scheduler.warnings(num_trials):
        if warning.startswith("No trial"):
            offered = int(warning.removesuffix(".").split()[-1])
            assert max_resource > offered
            for resource, works in ((offered, True), (offered + 1, False)):
                levels = ASHA(max_resource=resource, min_resource=min_resource, reduction_factor=eta).levels
                assert (num_trials >= eta ** (len(levels) - 1)) == works

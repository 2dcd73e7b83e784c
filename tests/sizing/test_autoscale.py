"""How many workers a training gets: by what was measured, else by what is expected."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.errors import UsageError
from asyncsearch.sizing.autoscale import (
    BANDWIDTH,
    LATENCY_S,
    Autoscale,
    KnownSpeed,
    OwnUnits,
    Volume,
    choose_size,
    efficiency,
    is_worth,
    seconds_at,
)
from asyncsearch.sizing.gangs import Gang, gang_of

LONG = 10_000
SCALE = Autoscale(0.75)


def known(times: dict[int, float], volume: Volume | None = None) -> KnownSpeed:
    found = KnownSpeed({}, {}, volume)
    own: dict[int, float] = {}
    for size, seconds in sorted(times.items()):
        found.note_unit(size, seconds, min(times), own)
        found.note_first(size, seconds)
        own[size] = seconds
    return found


def size(found: KnownSpeed, spare: int, scale: Autoscale = SCALE, base: int = 1, units: int = LONG) -> int:
    chosen = choose_size(scale, found, base, spare, units, found.like(base))
    return base if chosen is None else chosen.size


def test_nothing_is_enlarged_before_a_unit_was_measured() -> None:
    assert size(KnownSpeed(), 8) == 1
    assert size(KnownSpeed(volume=Volume(1, 1)), 8) == 1


def test_without_a_volume_the_size_at_most_doubles_what_was_measured() -> None:
    assert size(known({1: 8.0}), 16) == 2
    assert size(known({1: 8.0, 2: 4.0}), 16) == 4
    assert size(known({1: 8.0, 2: 4.0, 4: 2.0}), 16) == 8


def test_a_size_that_was_measured_as_inefficient_is_not_chosen() -> None:
    measured = {1: 8.0, 2: 4.2, 4: 3.0}  # efficiencies 1, 0.95 and 0.67
    assert size(known(measured), 16, Autoscale(0.7)) == 3
    assert size(known(measured), 16, Autoscale(0.96)) == 1
    assert size(known(measured), 16, Autoscale(0.6)) == 4


def test_the_overhead_of_the_largest_size_is_expected_of_others() -> None:
    found = known({1: 8.0, 2: 5.0})  # 1 s beyond half of 8 s, with 1/2 of a ring's volume
    assert seconds_at(found, 1, 4) == pytest.approx(8 / 4 + 1.0 * (3 / 4) / (1 / 2))


def test_workers_that_gain_more_than_their_number_expect_no_cost_of_sums() -> None:
    assert seconds_at(known({1: 8.0, 2: 3.0}), 1, 4) == 2.0


def test_a_unit_without_sums_has_no_overhead() -> None:
    assert seconds_at(known({1: 8.0, 2: 5.0}, Volume(0, 0)), 1, 4) == 2.0


def test_the_prior_is_computation_shared_and_gradients_in_a_ring() -> None:
    found = known({1: 10.0}, Volume(100, 125_000_000))
    ring = 100 * (2 * 3 / 4 * 125_000_000 / BANDWIDTH + 6 * LATENCY_S)
    assert seconds_at(found, 1, 4) == pytest.approx(10 / 4 + ring)
    assert size(found, 8) == 1, "15 s of sums are more than what is shared"
    assert size(known({1: 10_000.0}, Volume(100, 125_000_000)), 64) == 64


def test_measures_correct_the_prior() -> None:
    found = known({1: 10.0, 2: 6.0}, Volume(100, 12_500_000))
    ratio = Volume(100, 12_500_000).seconds(4) / Volume(100, 12_500_000).seconds(2)
    assert seconds_at(found, 1, 4) == pytest.approx(10 / 4 + 1.0 * ratio)


def test_a_training_too_short_to_pay_its_gangs_start_is_not_enlarged() -> None:
    found = known({1: 1.0, 2: 0.5})
    assert size(found, 2, units=5) == 2, "it starts at once"
    found.first_s[2] = [30.5]
    quick = Autoscale(0.01)
    assert size(found, 2, quick, units=59) == 1
    assert size(found, 2, quick, units=61) == 2


def test_the_start_of_a_gang_counts_among_its_worker_seconds() -> None:
    found = known({1: 1.0, 2: 0.5})
    found.first_s[2] = [30.5]
    assert size(found, 2, units=179) == 1, "2 workers for 30 s and 89.5 s are more than 179 s / 0.75"
    assert size(found, 2, units=180) == 2
    found.first_s[1] = [31.0]
    assert size(found, 2, units=61) == 2, "one worker takes as long to start"


def test_an_unmeasured_start_takes_as_long_as_the_longest_measured() -> None:
    assert known({1: 1.0}).start_s(2) == 2.0, "nothing is known of the start of a gang"
    found = known({1: 1.0, 2: 0.5, 3: 0.4})
    found.first_s |= {1: [61.0], 2: [90.5]}
    assert found.start_s(1) == 60.0
    assert found.start_s(2) == found.start_s(4) == 90.0


def test_sizes_are_multiples_of_what_each_trial_has() -> None:
    assert size(known({2: 8.0}), 7, base=2) == 4
    assert size(known({2: 8.0, 4: 4.0}), 7, base=2) == 6
    assert size(known({1: 8.0, 8: 1.0}), 8, Autoscale(0.75, max_size=5)) == 5


def test_the_median_counts_so_that_one_stalled_unit_changes_nothing() -> None:
    found = known({1: 1.0})
    for seconds in (1.0, 1.0, 60.0):
        found.note_unit(1, seconds, 1, {})
    assert found.measured == {1: 1.0}
    for _ in range(100):
        found.note_unit(1, 2.0, 1, {})
    assert found.measured == {1: 2.0}, "old measures are forgotten"
    assert len(found.unit_s[1]) == 15


def test_a_change_must_save_more_than_a_pause_and_a_start_cost() -> None:
    assert is_worth(10.0, 5.9, 2.0)
    assert not is_worth(10.0, 6.0, 2.0)


def test_the_reason_says_the_times_the_efficiency_and_where_they_are_from() -> None:
    chosen = choose_size(SCALE, known({1: 4.0, 2: 2.5}), 1, 2, 27, {1: 4.0})
    assert chosen is not None
    assert chosen.reason == (
        "2 workers: 27 units take 108 s on 1 and 67.5 s on 2 (measured), an efficiency of 0.80, at least 0.75"
    )
    expected = choose_size(SCALE, known({1: 4.0}), 1, 2, 27, {1: 4.0})
    assert expected is not None
    assert "(expected)" in expected.reason


@given(
    st.dictionaries(st.integers(1, 16), st.floats(1e-3, 1e3), max_size=5),
    st.integers(1, 4),
    st.integers(1, 64),
    st.floats(0.01, 1.0),
    st.one_of(st.none(), st.builds(Volume, st.integers(0, 10_000), st.integers(0, 10**9))),
    st.integers(1, LONG),
)
def test_whatever_was_measured_the_size_is_spare_and_efficient(
    times: dict[int, float], base: int, spare: int, limit: float, volume: Volume | None, units: int
) -> None:
    found = known(times, volume)
    chosen = choose_size(Autoscale(limit), found, base, spare, units, found.like(base))
    if chosen is None:
        return
    alone, unit_s = seconds_at(found, base, base), seconds_at(found, base, chosen.size)
    assert alone is not None
    assert unit_s is not None
    assert base < chosen.size <= spare
    assert chosen.size % base == 0
    assert efficiency(alone, unit_s, base, chosen.size) >= limit
    assert unit_s < alone
    spent = chosen.size * (found.start_s(chosen.size) + units * unit_s)
    assert spent <= base * (found.start_s(base) + units * alone) / limit * (1 + 1e-9)


@pytest.mark.parametrize("limit", [0, -0.5, 1.01, float("nan"), "0.75", None, True])
def test_an_efficiency_out_of_its_range_is_refused(limit: Any) -> None:
    with pytest.raises(UsageError, match="must be above 0 and at most 1"):
        Autoscale(limit)


@pytest.mark.parametrize("most", [0, -1, 2.0, True, "4"])
def test_a_largest_size_that_is_none_is_refused(most: Any) -> None:
    with pytest.raises(UsageError, match=r"max_size=.* must be an integer from 1, or None"):
        Autoscale(max_size=most)


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="max_size=2 is below the 4 workers that each trial gets"):
        gang_of(4, Autoscale(max_size=2))
    with pytest.raises(UsageError, match="say the same thing twice"):
        gang_of(Gang(4, autoscale=Autoscale(0.5)), Autoscale(0.75))
    with pytest.raises(UsageError, match=r"write autoscale=Autoscale\(efficiency=0.75\)"):
        gang_of(1, 0.75)  # type: ignore[arg-type]


def test_one_worker_a_trial_may_still_be_more_with_autoscaling() -> None:
    assert gang_of(None, SCALE) == Gang(1, None, SCALE)
    assert gang_of(Gang(4, 2), SCALE) == Gang(4, 2, SCALE)
    assert gang_of(1) is None


@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=8), st.floats(0.55, 1.0), st.integers(1, 3))
def test_what_workers_gain_is_measured_on_each_trial_by_itself(
    costs: list[float], true_efficiency: float, base: int
) -> None:
    """Whatever the trials cost, and although cheap ones alone train on few workers and dear ones on many."""
    found, twice = KnownSpeed(), 2 * base
    for cost in costs:
        found.note_unit(base, cost, base, {})
    dear = max(costs)
    larger_s = dear / (2 * true_efficiency)
    found.note_unit(twice, larger_s, base, {base: dear})
    alone_s, unit_s = seconds_at(found, base, base), seconds_at(found, base, twice)
    assert alone_s is not None
    assert unit_s is not None
    assert efficiency(alone_s, unit_s, base, twice) == pytest.approx(true_efficiency)
    found.note_unit(2 * twice, larger_s / 2, base, {twice: larger_s})
    assert found.ratio(base, 2 * twice) == pytest.approx(1 / (4 * true_efficiency)), "also by way of a third size"
    chosen = choose_size(Autoscale(0.5), found, base, twice, LONG, {base: dear})
    assert chosen is not None
    assert f"units take {LONG * dear:.3g} s on {base} " in chosen.reason, "its own units, not those of others"


def test_units_on_one_number_of_workers_show_no_gain() -> None:
    found = KnownSpeed()
    found.note_unit(1, 8.0, 1, {})
    found.note_unit(2, 1.0, 1, {})
    assert found.ratio(1, 2) is None
    assert seconds_at(found, 1, 2) == 4.0, "as expected before"


def test_an_unmeasured_trial_gets_no_more_workers_than_have_shown_to_pay() -> None:
    found = known({1: 8.0, 2: 4.0})
    chosen = choose_size(SCALE, found, 1, 4, LONG, {})
    assert chosen is not None
    assert chosen.size == 2
    assert choose_size(SCALE, known({1: 8.0}), 1, 4, LONG, {}) is None
    assert size(known({1: 8.0, 2: 4.0}), 4) == 4, "one that was, does"


def test_units_on_another_device_are_not_compared() -> None:
    own = OwnUnits()
    own.note("slow", 1, 8.0)
    assert own.on("fast") == {}
    own.note("fast", 1, 1.0)
    assert (own.on("slow"), own.on("fast")) == ({}, {1: 1.0})

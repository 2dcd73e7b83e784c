"""What packs gain, and what one of their trainings takes alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.sizing.pack_probe import curve_of, speedup_at, units_alone
from asyncsearch.sizing.packing import KnownPacks


def test_a_gain_is_interpolated_and_constant_beyond_the_last_one() -> None:
    curve = {4: 3.0, 8: 5.0}
    assert [speedup_at(curve, lanes) for lanes in (1, 4, 6, 8, 100)] == [1.0, 3.0, 4.0, 5.0, 5.0]


def test_without_a_gain_a_pack_takes_as_long_as_its_lanes_in_turn() -> None:
    assert [units_alone({}, lanes) for lanes in (1, 2, 17)] == [1.0, 2.0, 17.0]


@given(st.dictionaries(st.sampled_from([2, 4, 8, 16]), st.floats(0.1, 16.0), min_size=1), st.floats(0.01, 100.0))
def test_the_curve_of_measured_times_gives_these_times_again(curve: dict[int, float], alone_s: float) -> None:
    seconds = {lanes: alone_s * units_alone(curve, lanes) for lanes in {1: 1.0, **curve}}
    assert curve_of(seconds) == pytest.approx({1: 1.0, **curve})


def test_times_of_packs_alone_or_of_one_training_alone_show_no_gain() -> None:
    assert curve_of({8: 1.0, 4: 1.0}) == {}
    assert curve_of({1: 1.0}) == {}
    assert curve_of({}) == {}


def test_time_alone_follows_from_measured_times_and_else_is_a_share() -> None:
    assert KnownPacks({1: 2.0, 8: 4.0}).alone_s(4.0, 8) == pytest.approx(2.0)
    assert KnownPacks().alone_s(4.0, 8) == pytest.approx(0.5)
    assert KnownPacks({1: 2.0, 8: 4.0}, refusal="it draws from a global generator").alone_s(4.0, 8) == pytest.approx(
        0.5
    )

"""Who lags behind its share, and by how many seconds of a worker."""

from __future__ import annotations

import pytest

from asyncsearch.fair.service import REMEMBERED_S, Service


def after(seconds: float, rates: dict[str, float], held: dict[str, int]) -> Service:
    service = Service()
    service.hold(rates, held)
    service.advance(seconds)
    return service


def test_who_misses_workers_lags_and_who_has_them_instead_leads() -> None:
    assert after(10.0, {"a": 0.5, "b": 0.5}, {"a": 1}).lags == {"a": -5.0, "b": 5.0}


def test_workers_beyond_a_share_count_only_as_far_as_others_miss_them() -> None:
    assert after(10.0, {"a": 1.0, "b": 1.0}, {"a": 3}).lags == {"a": -10.0, "b": 10.0}
    assert after(10.0, {"a": 1.0}, {"a": 3}).lags == {"a": 0.0}


def test_a_study_that_can_use_nothing_is_owed_nothing_when_it_comes_back() -> None:
    service = after(10.0, {"a": 0.5, "b": 0.5}, {"a": 1})
    service.hold({"a": 1.0, "b": 0.0}, {"a": 1})
    service.hold({"a": 0.5, "b": 0.5}, {"a": 1})
    assert service.lags == {"a": -5.0, "b": 0.0}


@pytest.mark.parametrize(("remembered_s", "most_s"), [(REMEMBERED_S, 600.0), (7200.0, 7200.0)])
def test_a_lag_is_remembered_so_far_and_no_further(remembered_s: float, most_s: float) -> None:
    service = Service(remembered_s)
    service.hold({"a": 1.0, "b": 1.0}, {"a": 2})
    service.advance(100_000.0)
    assert service.lags == {"a": -most_s, "b": most_s}


def test_unusable_workers_are_missed_by_all_in_proportion_to_their_due() -> None:
    assert after(10.0, {"a": 1.0, "b": 3.0}, {"a": 2}).lags == {"a": -15.0, "b": 15.0}
    idle = after(10.0, {"a": 1.0, "b": 3.0}, {})
    assert idle.lags == {"a": 0.0, "b": 0.0}, "nobody was preferred"


def test_who_leads_far_does_not_hide_which_of_the_others_lags() -> None:
    service = Service()
    rates = {"a": 1.0, "b": 1.0, "lucky": 1.0}
    for _ in range(1_000):
        service.hold(rates, {"a": 2, "lucky": 2})
        service.advance(service._now + 30.0)
        service.hold(rates, {"b": 2, "lucky": 2})
        service.advance(service._now + 30.0)
    assert service.lags["a"] == pytest.approx(service.lags["b"])
    service.hold(rates, {"a": 2, "lucky": 2})
    service.advance(service._now + 30.0)
    assert service.lags["b"] - service.lags["a"] == pytest.approx(45.0)


def test_a_clock_that_stands_still_or_goes_back_adds_nothing() -> None:
    service = after(10.0, {"a": 0.5, "b": 0.5}, {"a": 1})
    service.advance(3.0)
    service.advance(10.0)
    assert service.lags == {"a": -5.0, "b": 5.0}

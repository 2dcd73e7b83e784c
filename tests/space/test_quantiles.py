"""Each domain's value at a share of its draws: what quasi-random searchers map the unit cube through."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.randomness import generator, step_at
from asyncsearch.space import Domain, choice, constant, lograndint, loguniform, quniform, randint, uniform

LAST = math.nextafter(1.0, 0.0)
SHARES = st.floats(0, 1, exclude_max=True)
DOMAINS: list[Domain] = [
    uniform(-1.5, 2),
    uniform(-1.7e308, 1.7e308),
    loguniform(1e-6, 1e3),
    quniform(0.1, 0.5, 0.1),
    randint(-3, 3),
    randint(-(2**63), 2**63 - 1),
    lograndint(1, 1000),
    choice("a", [1, 2], None),
    constant({"a": 1}),
]
NUMBERS = [domain for domain in DOMAINS if "low" in domain.arguments()]


@pytest.mark.parametrize("domain", DOMAINS, ids=str)
@given(SHARES)
def test_every_share_has_a_value_of_the_domain(domain: Domain, share: float) -> None:
    assert domain.accept(domain.at_quantile(share)) == domain.at_quantile(share)


@pytest.mark.parametrize("domain", NUMBERS, ids=str)
@given(SHARES, SHARES)
def test_a_larger_share_has_no_smaller_value(domain: Domain, one: float, other: float) -> None:
    small, large = sorted((one, other))
    assert domain.at_quantile(small) <= domain.at_quantile(large)


@pytest.mark.parametrize("domain", [d for d in DOMAINS if d.size is not None and d.size < 10], ids=str)
def test_equally_likely_values_have_equal_parts_of_the_shares(domain: Domain) -> None:
    assert domain.size is not None
    count = 100 * domain.size
    found = Counter(str(domain.at_quantile((i + 0.5) / count)) for i in range(count))
    assert list(found) == [str(value) for value in domain.grid(None)]
    assert set(found.values()) == {100}


@pytest.mark.parametrize("domain", NUMBERS, ids=str)
def test_both_ends_are_reached(domain: Domain) -> None:
    low, high = domain.arguments()["low"], domain.arguments()["high"]
    assert domain.at_quantile(0.0) == pytest.approx(low)
    assert domain.at_quantile(LAST) == pytest.approx(high)


@pytest.mark.parametrize("domain", [uniform(2, 5), loguniform(1e-3, 10), lograndint(1, 50)], ids=str)
def test_a_draw_is_the_value_at_an_even_share(domain: Domain) -> None:
    for number in range(50):
        share = generator(0, "share", number).random()
        assert domain.sample(generator(0, "share", number)) == domain.at_quantile(share)


@given(SHARES, st.integers(1, 2**70))
def test_a_step_is_below_the_count(share: float, count: int) -> None:
    assert 0 <= step_at(share, count) < count

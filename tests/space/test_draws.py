"""Draws: valid, even, plain, and a function of their generator."""

import json
import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.randomness import generator
from asyncsearch.space import (
    Domain,
    Space,
    choice,
    constant,
    lograndint,
    loguniform,
    quniform,
    randint,
    uniform,
)
from tests.space.tools import DOMAINS


def draws(domain: Domain, count: int = 1000) -> list[Any]:
    source = generator(0, "test.draws", 0)
    return [domain.sample(source) for _ in range(count)]


class TestDraws:
    @settings(deadline=None)
    @given(DOMAINS, st.integers(0, 100))
    def test_every_draw_is_a_value_of_its_domain(self, domain: Domain, number: int) -> None:
        value = domain.sample(generator(0, "test", number))
        assert domain.accept(value) == value
        assert type(value) in (int, float, str, bool, type(None))

    @settings(deadline=None)
    @given(DOMAINS, st.integers(0, 100))
    def test_draw_depends_on_its_generator_only(self, domain: Domain, number: int) -> None:
        assert domain.sample(generator(0, "t", number)) == domain.sample(generator(0, "t", number))

    @pytest.mark.parametrize(
        ("domain", "values"),
        [
            (randint(-2, 2), {-2, -1, 0, 1, 2}),
            (randint(7, 7), {7}),
            (lograndint(1, 4), {1, 2, 3, 4}),
            (quniform(0.1, 0.5, 0.1), {0.1, 0.2, 0.3, 0.4, 0.5}),
            (quniform(0, 1, 0.3), {0.0, 0.3, 0.6, 0.9}),
            (choice("a", 2, None), {"a", 2, None}),
            (constant(3), {3}),
        ],
    )
    def test_every_value_is_reached_bounds_included(self, domain: Domain, values: set[Any]) -> None:
        assert set(draws(domain)) == values
        assert domain.size == len(values)

    @pytest.mark.parametrize(
        ("domain", "low", "high"),
        [
            (uniform(1.0, 1.0 + 2**-52), 1.0, 1.0 + 2**-52),
            (uniform(-1.7e308, 1.7e308), -1.7e308, 1.7e308),
            (uniform(1e16, 1e16 + 2), 1e16, 1e16 + 2),
            (loguniform(5e-324, 1.7e308), 5e-324, 1.7e308),
            (loguniform(0.1, math.nextafter(0.1, 1)), 0.1, math.nextafter(0.1, 1)),
        ],
    )
    def test_rounding_never_returns_the_high_bound(self, domain: Domain, low: float, high: float) -> None:
        assert all(low <= value < high for value in draws(domain))

    @pytest.mark.parametrize(
        ("domain", "scale"),
        [
            (uniform(-3, 5), lambda value: (value + 3) / 8),
            (loguniform(1e-4, 1e-1), lambda value: math.log10(value / 1e-4) / 3),
            (randint(0, 999), lambda value: (value + 0.5) / 1000),
            (quniform(0, 9.99, 0.01), lambda value: (value * 100 + 0.5) / 1000),
            (lograndint(1, 10**6), lambda value: math.log(value / 0.5) / math.log((10**6 + 0.5) / 0.5)),
        ],
    )
    def test_draws_are_even_on_their_scale(self, domain: Domain, scale: Callable[[Any], float]) -> None:
        # lograndint's small values are few and far apart: four bins are wide enough to hold several of them.
        bins = 4
        counts = np.histogram([scale(value) for value in draws(domain, 8000)], bins=bins, range=(0, 1))[0]
        assert counts.sum() == 8000
        slack = 2.0 if domain.kind == "lograndint" else 1.0
        assert ((counts - 2000) ** 2 / 2000).sum() < 16.3 * slack  # 0.1 % point of chi-square with 3 degrees

    def test_lograndint_draws_k_about_as_often_as_one_over_k(self) -> None:
        drawn = draws(lograndint(1, 100), 20000)
        for value in (2, 4, 8):
            assert drawn.count(value) * value == pytest.approx(20000 / math.log(100.5 / 0.5), rel=0.15)

    def test_loguniform_has_its_median_in_the_geometric_middle(self) -> None:
        assert math.log10(statistics.median(draws(loguniform(1e-6, 1), 5000))) == pytest.approx(-3, abs=0.15)

    @settings(deadline=None)
    @given(st.integers(-1000, 1000), st.integers(1, 100), st.integers(2, 200), st.integers(0, 6))
    def test_quniform_values_are_the_decimals_that_people_write(
        self, low: int, step: int, steps: int, digits: int
    ) -> None:
        def written(units: int) -> float:
            return float(f"{units}e-{digits}")

        domain = quniform(written(low), written(low + step * steps), written(step))
        assert list(domain.grid(None)) == [written(low + step * index) for index in range(steps + 1)]

    def test_values_are_plain_python(self) -> None:
        space = Space(
            {
                "a": uniform(np.float32(0.5), np.int64(2)),  # type: ignore[arg-type]
                "b": randint(np.int64(1), np.uint8(2)),  # type: ignore[arg-type]
                "c": choice(np.str_("x"), np.bool_(True), np.int8(3), np.float64(0.5)),
                "d": choice((1, (2,)), {"k": (np.int64(3),)}),
                "e": np.float64(2),
            }
        )
        for number in range(40):
            params = space.sample(generator(0, "test", number))
            assert json.loads(json.dumps(params)) == params
            assert type(params["a"]) is float
            assert type(params["b"]) is int
            assert type(params["c"]) in (str, bool, int, float)
            assert type(params["e"]) is float

    def test_changing_drawn_values_does_not_change_the_space(self) -> None:
        given_values = [[1, 2]]
        space = Space({"sizes": choice(given_values), "tags": constant({"a": [1]})})
        given_values[0].append(9)
        for _ in range(2):
            params = space.sample(generator(0, "test", 0))
            assert params == {"sizes": [1, 2], "tags": {"a": [1]}}
            params["sizes"].append(3)
            params["tags"]["a"].append(3)

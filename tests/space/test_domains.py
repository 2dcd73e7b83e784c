"""Domains: their words, their grids, and what they refuse."""

import enum
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import SpaceError
from asyncsearch.space import (
    Domain,
    choice,
    constant,
    lograndint,
    loguniform,
    quniform,
    randint,
    uniform,
)
from tests.space.tools import DOMAINS


class Activation(enum.Enum):
    RELU = "relu"


class TestDomains:
    @pytest.mark.parametrize(
        "text",
        [
            "uniform(0.0, 0.5)",
            "loguniform(0.0001, 0.1)",
            "quniform(0.0, 0.5, 0.1)",
            "randint(1, 4)",
            "lograndint(16, 512)",
            "choice('relu', True, None, 1.5, [1, 2], {'a': [1]})",
            "choice([[1, 2]])",
            "constant([1, 2])",
            "uniform(0.0, 1.0).when(optimizer='sgd')",
            "randint(1, 4).when(optimizer=('sgd', 'adam'), layers=3)",
            "randint(1, 4).when(**{'model.kind': 'cnn'})",
            "randint(1, 4).when(**{'class': [1, 2]})",
        ],
    )
    def test_repr_is_the_call_that_makes_it(self, text: str) -> None:
        domain = eval(text)
        assert repr(domain) == text
        assert eval(repr(domain)) == domain
        assert hash(eval(text)) == hash(domain)

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            (uniform(0, 1), loguniform(1e-9, 1)),
            (uniform(0, 1), uniform(0, 2)),
            (randint(1, 2), lograndint(1, 2)),
            (choice(1), choice(True)),
            (choice("a", "b"), choice("b", "a")),
            (constant(0), constant(False)),
            (uniform(0, 1), uniform(0, 1).when(a=1)),
            (uniform(0, 1).when(a=1), uniform(0, 1).when(a=True)),
        ],
    )
    def test_different_domains_are_not_equal(self, first: Domain, second: Domain) -> None:
        assert first != second

    def test_arguments_have_names(self) -> None:
        assert uniform(low=0, high=1) == uniform(0, 1)
        assert quniform(low=0, high=1, step=0.5) == quniform(0, 1, 0.5)
        assert randint(high=3, low=1) == randint(1, 3)

    def test_domain_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            uniform(0, 1).low = 3  # type: ignore[misc]

    def test_choice_takes_one_list_for_its_values(self) -> None:
        assert choice([1, 2, 3]) == choice((1, 2, 3)) == choice(1, 2, 3)
        assert choice("abc").values == ("abc",)
        assert choice([1, 2], [3]).values == ([1, 2], [3])

    def test_true_is_not_one(self) -> None:
        assert choice(True, 1).size == 2
        assert not choice(1, 2).contains(True)
        assert choice(1, 2).accept(1.0) == 1

    def test_when_keeps_former_conditions(self) -> None:
        assert uniform(0, 1).when(a=1).when(b=2) == uniform(0, 1).when(a=1, b=2)
        assert uniform(0, 1).when(a=(1, 2)).when(a=(2, 3)) == uniform(0, 1).when(a=2)

    @pytest.mark.parametrize(
        ("domain", "points", "values"),
        [
            (uniform(0.1, 0.5), 5, [0.1, 0.2, 0.3, 0.4, 0.5]),
            (uniform(0, 1), 1, [0.5]),
            (loguniform(1e-4, 1e-1), 4, [1e-4, 1e-3, 1e-2, 1e-1]),
            (loguniform(1e-4, 1e-2), 1, [1e-3]),
            (quniform(0, 1, 0.25), None, [0, 0.25, 0.5, 0.75, 1]),
            (quniform(0, 1, 0.25), 3, [0, 0.5, 1]),
            (quniform(0, 1, 0.25), 99, [0, 0.25, 0.5, 0.75, 1]),
            (randint(1, 4), None, [1, 2, 3, 4]),
            (randint(0, 100), 3, [0, 50, 100]),
            (randint(0, 100), 1, [50]),
            (lograndint(1, 1000), 4, [1, 10, 100, 1000]),
            (lograndint(1, 4), 4, [1, 2, 3, 4]),
            (lograndint(1, 30), 10, [1, 2, 3, 5, 7, 10, 14, 21, 30]),
            (choice("b", "a"), None, ["b", "a"]),
        ],
    )
    def test_grid_is_even_on_the_scale_of_the_domain(
        self, domain: Domain, points: int | None, values: list[Any]
    ) -> None:
        assert list(domain.grid(points)) == values

    @settings(deadline=None)
    @given(DOMAINS, st.integers(1, 20))
    def test_every_grid_value_is_a_value_of_its_domain(self, domain: Domain, points: int) -> None:
        values = domain.grid(points)
        assert all(domain.accept(value) == value for value in values)
        assert len(values) >= 1

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: uniform(1, 0), r"uniform\(1.0, 0.0\): low must be below high; write uniform\(0.0, 1.0\)"),
            (lambda: uniform(1, 1), r"low must be below high; write constant\(1.0\)"),
            (lambda: uniform(0, math.inf), r"uniform\(high=...\): inf is not finite"),
            (lambda: uniform(math.nan, 1), r"uniform\(low=...\): nan is not finite"),
            (lambda: uniform(0, 10**400), "too large for a float"),
            (lambda: uniform("0.1", 1), r"uniform\(low=...\): '0.1' is a str: write a number"),  # type: ignore[arg-type]
            (lambda: uniform(False, 1), "False is a bool: write a number"),
            (lambda: uniform(None, 1), "None is a NoneType: write a number"),  # type: ignore[arg-type]
            (lambda: loguniform(0, 1), r"loguniform\(0.0, 1.0\): low must be above 0"),
            (lambda: loguniform(-1, 1), "low must be above 0"),
            (lambda: quniform(0, 1, 0), "step must be above 0"),
            (lambda: quniform(0, 1, -0.1), "step must be above 0"),
            (lambda: quniform(0, 1, 2), "step must not be larger than high - low"),
            (lambda: quniform(0, 1, 1e-300), r"step is finer than floats; write uniform\(0.0, 1.0\)"),
            (lambda: quniform(1, 0, 0.1), r"quniform\(1.0, 0.0, 0.1\): low must be below high"),
            (lambda: randint(3, 2), r"randint\(3, 2\): low must not be above high; write randint\(2, 3\)"),
            (lambda: randint(0.5, 2), r"randint\(low=...\): 0.5 is a float: write a whole number .*uniform"),  # type: ignore[arg-type]
            (lambda: randint(0, 2.0), r"randint\(high=...\): 2.0 is a float: write 2"),  # type: ignore[arg-type]
            (lambda: randint(0, math.inf), "inf is a float"),  # type: ignore[arg-type]
            (lambda: randint(0, 2**63), "does not fit into 64 bits"),
            (lambda: lograndint(0, 4), "low must be 1 or more"),
            (choice, "is empty"),
            (lambda: choice([]), "is empty"),
            (lambda: choice("a", "b", "a"), "'a' and 'a', the same value twice"),
            (lambda: choice(1, 1.0), "1 and 1.0, the same value twice"),
            (lambda: choice([1], (1,)), "the same value twice"),
            (lambda: choice(range(3)), r"write choice\(\*range\(0, 3\)\)"),
            (lambda: choice({1, 2}), r"write choice\(\*sorted\(values\)\)"),
            (lambda: choice(np.arange(3)), r"write choice\(\*array.tolist\(\)\)"),
            (lambda: choice(math.nan, 1), "nan is not finite"),
            (lambda: choice("\ud800", 1), "not valid Unicode"),
            (lambda: choice(2**70, 1), "does not fit into 64 bits"),
            (lambda: choice(uniform(0, 1), 1), "has a domain among its values"),
            (lambda: constant(len), "name the object by a string"),
            (lambda: constant(np.arange(3)), "is a numpy array: write a list"),
            (lambda: constant({1: 2}), "keys of a dictionary must be strings"),
            (lambda: constant(Activation.RELU), "is an enum member: write its value, 'relu'"),
            (lambda: choice(1, 2).when(), "needs a condition"),
            (lambda: choice(1, 2).when(a=()), "can never hold"),
            (lambda: choice(1, 2).when(a=1).when(a=2), "a is 1 and a is 2 exclude each other"),
            (lambda: choice(1, 2).when(a=float("nan")), r"when\(a=...\): nan"),
        ],
    )
    def test_malformed_domain_is_refused_with_what_to_write(self, make: Callable[[], Domain], words: str) -> None:
        with pytest.raises(SpaceError, match=words):
            make()

    def test_message_shows_an_object_shortened_even_if_its_repr_fails(self) -> None:
        class Mute:
            def __repr__(self) -> str:
                raise RuntimeError("no words")

        with pytest.raises(SpaceError, match="<Mute> is a Mute and is not a JSON value"):
            constant(Mute())
        with pytest.raises(SpaceError, match=r"\.\.\. is a str: write a number"):
            uniform("1" * 1000, 2)  # type: ignore[arg-type]

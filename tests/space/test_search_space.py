"""Spaces: what is drawn is valid, what is malformed is refused with words that help."""

import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import SpaceError
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.randomness import generator
from asyncsearch.space import (
    Domain,
    Space,
    choice,
    constant,
    loguniform,
    quniform,
    randint,
    uniform,
)
from tests.space.tools import DOMAINS, is_fine, rich_space


class TestSpace:
    @settings(max_examples=200, deadline=None)
    @given(st.integers(0, 2**63 - 1), st.integers(0, 10**6))
    def test_every_sample_validates(self, seed: int, number: int) -> None:
        space = rich_space()
        params = space.sample(generator(seed, "test", number))
        space.validate(params)
        assert json.loads(json.dumps(params)) == params

    @settings(deadline=None)
    @given(st.dictionaries(st.text("ab", min_size=1, max_size=3), DOMAINS, min_size=1, max_size=4), st.integers(0, 99))
    def test_sample_of_any_space_validates(self, parameters: dict[str, Domain], number: int) -> None:
        space = Space(parameters)
        params = space.sample(generator(0, "test", number))
        space.validate(params)
        assert list(params) == list(parameters)

    def test_samples_never_change_between_releases(self) -> None:
        params = rich_space().sample(generator(7, "searchers.random", 0))
        # Logarithms differ in the last digit between C libraries.
        assert params.pop("lr") == pytest.approx(0.005081498032578107, rel=1e-12)
        assert params == {
            "optimizer": "adam",
            "model": {"kind": "rnn", "layers": 1, "act": "relu"},
            "rnn": {"gate": "lstm"},
            "dropout": 0.5,
            "sizes": [16],
            "tags": ["a", {"b": None}],
        }

    def test_params_come_in_the_order_of_declaration(self) -> None:
        space = Space({"child": choice(1, 2).when(parent="x"), "group": {"b": 1, "a": 2}, "parent": choice("x")})
        params = space.sample(generator(0, "test", 0))
        assert list(params) == ["child", "group", "parent"]
        assert list(params["group"]) == ["b", "a"]

    def test_parameters_are_flat_with_dotted_names(self) -> None:
        space = Space({"a": 1, "m": {"n": {"w": randint(1, 2)}, "act": "relu"}})
        assert dict(space.parameters) == {"a": constant(1), "m.n.w": randint(1, 2), "m.act": constant("relu")}
        assert list(space.parameters) == ["a", "m.n.w", "m.act"]
        with pytest.raises(TypeError):
            space.parameters["a"] = constant(2)  # type: ignore[index]

    def test_of_takes_a_space_or_a_mapping(self) -> None:
        space = Space({"a": randint(1, 2)})
        assert Space.of(space) is space
        assert Space.of({"a": randint(1, 2)}).to_json() == space.to_json()

    def test_flat_and_nested_are_the_same(self) -> None:
        space = rich_space()
        for number in range(30):
            params = space.sample(generator(0, "test", number))
            assert space.nest(space.flatten(params)) == params

    def test_space_of_constants_has_one_configuration(self) -> None:
        assert Space({"a": None, "b": {"c": True}}).sample(generator(0, "t", 0)) == {"a": None, "b": {"c": True}}

    def test_space_with_lambdas_survives_cloudpickle(self) -> None:
        space = rich_space()
        copy = pickle.loads(dumps(space))
        assert copy.to_json() == space.to_json()
        assert copy.sample(generator(3, "t", 3)) == space.sample(generator(3, "t", 3))
        assert dict(copy.parameters) == dict(space.parameters)

    def test_description_is_json_and_lines(self) -> None:
        space = Space(
            {"kind": choice("a", "b"), "m": {"x": uniform(0, 1).when(kind=("a", "b"))}, "n": 3},
            constraints=[is_fine],
            initial=[{"kind": "a"}],
        )
        described = space.to_json()
        assert json.loads(json.dumps(described)) == described
        assert described["parameters"]["m.x"] == {
            "kind": "uniform",
            "low": 0.0,
            "high": 1.0,
            "when": {"kind": ["a", "b"]},
        }
        lines = space.describe()
        assert lines[:3] == ["kind  choice('a', 'b')", "m.x   uniform(0.0, 1.0)  where kind is 'a' or 'b'", "n     3"]
        assert lines[3].startswith("only where constraints[0] (is_fine at tools.py:")
        assert lines[4:] == ["first {'kind': 'a'}"]
        assert repr(space).startswith("Space({'kind': choice('a', 'b'), 'm': {'x': uniform(0.0, 1.0).when(")

    @pytest.mark.parametrize(
        ("parameters", "words"),
        [
            ({}, "The space is empty: write at least one parameter"),
            ([uniform(0, 1)], "A space is a mapping of names to domains"),
            (uniform(0, 1), "A space is a mapping of names to domains"),
            (None, "A space is a mapping of names to domains"),
            ({"m": {}}, r"m: \{\} is an empty group"),
            ({"a.b": 1}, r"'a.b' has a dot: write it nested, \{'a': \{'b': ...\}\}"),
            ({"m": {"a.b": 1}}, "'a.b' in 'm' has a dot"),
            ({"": 1}, "is empty: give the parameter a name"),
            ({"m": {"\ud800": 1}}, r"The name '\\ud800' in 'm' is not valid Unicode"),
            ({"  ": 1}, "is empty: give the parameter a name"),
            ({3: 1}, "The name 3 is an int: .*write '3'"),
            ({"m": {None: 1}}, "The name None in 'm' is a NoneType"),
            ({"lr": (0.1, 1)}, r"lr: .*did you mean uniform\(0.1, 1\) or choice\(0.1, 1\)\?"),
            ({"m": {"lr": (1, 8)}}, r"m.lr: .*did you mean randint\(1, 8\) or choice\(1, 8\)\?"),
            ({"lr": [1, 2, 3]}, r"lr: .*did you mean choice\(1, 2, 3\) or constant\(\[1, 2, 3\]\)\?"),
            ({"a": ("x", "y")}, r"a: .*did you mean choice\('x', 'y'\)\?"),
            ({"a": range(1, 5)}, r"a: .*did you mean randint\(1, 4\) or choice\(\*range\(1, 5\)\)\?"),
            ({"a": range(0, 5, 2)}, r"a: .*did you mean choice\(\*range\(0, 5, 2\)\)\?"),
            ({"a": {1, 2}}, r"a: .*did you mean choice\("),
            ({"a": np.arange(3)}, r"a: .*did you mean choice\(\*array.tolist\(\)\)"),
            ({"a": list(range(100))}, r"a: .*did you mean choice\(\*values\)\?"),
            ({"a": uniform}, r"a: uniform \(a function\) .*write a domain"),
            ({"a": dict}, r"a: dict \(a class\) .*look it up in the trainable"),
            ({"a": lambda: 3}, r"a: <lambda> \(a function\)"),
            ({"a": math.nan}, "a: nan is not finite"),
            ({"m": Space({"a": 1})}, "m: a Space inside a space"),
        ],
    )
    def test_malformed_space_is_refused_with_what_to_write(self, parameters: Any, words: str) -> None:
        with pytest.raises(SpaceError, match=words):
            Space(parameters)


class TestValidation:
    @pytest.mark.parametrize(
        ("params", "words"),
        [
            (3, "Params are a mapping"),
            ({"lr": 0.1}, "optimizer: it is missing"),
            ({"optimizer": "adam", "m": {"w": 1}}, "lr: it is missing"),
            ({"lr": 0.1, "optimizer": "adam", "m": {"w": 1}, "x": 1}, "x: the space has no parameter 'x' there"),
            ({"lr": 0.1, "optimiser": "adam", "m": {"w": 1}}, "did you mean 'optimizer'"),
            ({"lr": 0.1, "optimizer": "adam", "w": 1}, "did you mean 'm.w'"),
            ({"lr": 0.1, "optimizer": "adam", "m.w": 1}, r"params are nested: write \{'m': \{'w': ...\}\}"),
            ({"lr": 0.1, "optimizer": "adam", "m": 1}, "m: 1 stands for a group"),
            ({"lr": 0.1, "optimizer": "adam", 3: 1}, "3: the space has no parameter 3 there"),
            (
                {"lr": 0.2, "optimizer": "adam", "m": {"w": 1}},
                r"lr: 0.2 is outside uniform\(0.0, 0.1\): write a number",
            ),
            (
                {"lr": "0.1", "optimizer": "adam", "m": {"w": 1}},
                r"lr: '0.1' is a str: write a number. Its domain is uniform",
            ),
            ({"lr": 0.1, "optimizer": "adma", "m": {"w": 1}}, "'adma' is none of .*did you mean 'adam'"),
            ({"lr": 0.1, "optimizer": len, "m": {"w": 1}}, r"optimizer: len \(a function\) is none of"),
            ({"lr": 0.1, "optimizer": "adam", "m": {"w": 1.0}}, "m.w: 1.0 is a float: write 1"),
            ({"lr": 0.1, "optimizer": "adam", "m": {"w": True}}, "m.w: True is a bool"),
            ({"lr": 0.1, "optimizer": "adam", "m": {"w": 9}}, "m.w: 9 is outside randint"),
            (
                {"lr": 0.1, "optimizer": "adam", "m": {"w": 1}, "mom": 0.3},
                "mom: it is given, but exists only where optimizer",
            ),
            ({"lr": 0.1, "optimizer": "sgd", "m": {"w": 1}, "mom": 0.30000000000000004}, "write 0.3, the nearest one"),
            ({"lr": 0.1, "optimizer": "sgd", "m": {"w": 1}}, "mom: it is missing"),
            (
                {"lr": 0.1, "optimizer": "adam", "m": {"w": 2}},
                r"constraints\[0\] \(is_fine at tools.py:\d+\) rejects",
            ),
        ],
    )
    def test_params_that_do_not_fit_are_refused_by_name_value_and_rule(self, params: Any, words: str) -> None:
        space = Space(
            {
                "lr": uniform(0, 0.1),
                "optimizer": choice("sgd", "adam"),
                "mom": quniform(0, 0.9, 0.1).when(optimizer="sgd"),
                "m": {"w": randint(1, 3)},
            },
            constraints=[is_fine],
        )
        assert not space.contains(params)
        with pytest.raises(SpaceError, match=words):
            space.validate(params)

    def test_upper_bounds_are_legal_values(self) -> None:
        assert Space({"a": uniform(0, 1), "b": loguniform(1, 2)}).contains({"a": 1, "b": 2.0})

"""Conditions, constraints and initial points: what ties parameters to each other."""

from typing import Any

import numpy as np
import pytest

from asyncsearch.errors import SpaceError
from asyncsearch.randomness import generator
from asyncsearch.sequences import exponential
from asyncsearch.space import (
    Space,
    choice,
    constant,
    randint,
    uniform,
)
from tests.space.tools import is_impossible, rich_space


class TestConditions:
    def test_inactive_parameters_are_absent_and_so_are_their_children(self) -> None:
        space = rich_space()
        seen = set()
        for number in range(300):
            params = space.sample(generator(0, "test", number))
            kind = params["model"]["kind"]
            assert ("momentum" in params) == (params["optimizer"] == "sgd")
            assert ("nesterov" in params) == (params.get("momentum_kind") == "heavy")
            assert ("layers" in params["model"]) == (kind in ("cnn", "rnn"))
            assert ("width" in params["model"]) == (params["model"].get("layers") in (3, 4))
            assert ("rnn" in params) == (kind == "rnn")
            seen.add((params["optimizer"], kind))
        assert len(seen) == 6

    def test_constant_may_be_conditional_and_a_parent(self) -> None:
        space = Space(
            {
                "kind": choice("a", "b"),
                "schedule": constant("cosine").when(kind="a"),
                "warmup": randint(1, 3).when(schedule="cosine"),
            }
        )
        for number in range(20):
            params = space.sample(generator(0, "test", number))
            assert list(params) == (["kind", "schedule", "warmup"] if params["kind"] == "a" else ["kind"])

    def test_a_condition_may_ask_for_a_dictionary_with_domains(self) -> None:
        svm, knn, falling = {"kind": "svm", "c": uniform(0, 1)}, {"kind": "knn"}, exponential(choice(0.1, 0.2), 0.9)
        space = Space(
            {
                "model": choice(svm, knn, falling),
                "one": uniform(0, 1).when(model=svm),
                "two": uniform(0, 1).when(model=(svm, falling)),
            }
        )
        for number in range(30):
            params = space.sample(generator(0, "test", number))
            kind = params["model"].get("kind", "falling")
            assert [name for name in ("one", "two") if name in params] == {
                "svm": ["one", "two"],
                "falling": ["two"],
            }.get(kind, [])

    def test_true_does_not_meet_a_condition_for_one(self) -> None:
        space = Space({"a": choice(True, 1), "b": choice("x").when(a=1)})
        assert space.contains({"a": 1, "b": "x"})
        assert space.contains({"a": True})
        assert not space.contains({"a": True, "b": "x"})

    @pytest.mark.parametrize(
        ("parameters", "words"),
        [
            (
                {"b": choice(1, 2).when(c=1), "cc": 1},
                r"b: .*names 'c', which the space does not have; did you mean 'cc'",
            ),
            ({"b": choice(1, 2).when(zzz=1), "a": 1}, "the names are 'b', 'a'"),
            (
                {"m": {"kind": choice(1, 2), "w": uniform(0, 1).when(kind=1)}},
                "m.w: .*did you mean 'm.kind'.*written in full",
            ),
            ({"m": {"kind": choice(1, 2)}, "w": uniform(0, 1).when(m=1)}, "which is a group: .*'m.kind'"),
            ({"a": choice(1, 2).when(a=1)}, "a: conditions go in a circle, a -> a"),
            (
                {"a": choice(1, 2).when(c=1), "b": choice(1, 2).when(a=1), "c": choice(1, 2).when(b=1)},
                "conditions go in a circle, a -> c -> b -> a",
            ),
            ({"a": choice("x", "y"), "b": uniform(0, 1).when(a="z")}, "b: .*'a' can never be: 'z' is none of"),
            ({"a": randint(1, 3), "b": uniform(0, 1).when(a=4)}, "b: .*'a' can never be: 4 is outside"),
            ({"a": "x", "b": uniform(0, 1).when(a="y")}, "b: .*'a' can never be: 'y' is not the constant 'x'"),
            ({"a": choice("x", "y"), "b": uniform(0, 1).when(a=["x", "y"])}, "For any of several values write a tuple"),
            ({"a": uniform(0, 1), "b": uniform(0, 1).when(a=0.5)}, "b: .*continuous and never takes"),
            (
                {"a": choice("x", "y"), "b": choice(1, 2).when(a="x"), "c": choice(1, 2).when(b=1, a="y")},
                "c: with the conditions of 'b', .*exclude each other",
            ),
        ],
    )
    def test_condition_that_can_never_hold_is_refused(self, parameters: Any, words: str) -> None:
        with pytest.raises(SpaceError, match=words):
            Space(parameters)


class TestConstraints:
    def test_every_sample_passes_every_constraint(self) -> None:
        space = Space(
            {"a": randint(1, 9), "b": randint(1, 9)},
            constraints=[lambda params: params["a"] < params["b"], lambda params: np.bool_(params["a"] > 2)],
        )
        for number in range(100):
            params = space.sample(generator(0, "test", number))
            assert 2 < params["a"] < params["b"]

    def test_exhausted_redraws_name_the_constraint_that_rejected_most(self) -> None:
        space = Space({"a": randint(1, 9)}, constraints=[lambda params: params["a"] < 9, is_impossible])
        words = r"rejected all of 1000 candidates; constraints\[1\] \(is_impossible at .*\) rejected most, \d+\."
        with pytest.raises(SpaceError, match=words):
            space.sample(generator(0, "test", 0))

    def test_constraint_cannot_change_the_params(self) -> None:
        def spoil(params: dict[str, Any]) -> bool:
            params.clear()
            return True

        assert Space({"a": 1}, constraints=[spoil]).sample(generator(0, "t", 0)) == {"a": 1}

    @pytest.mark.parametrize(
        ("constraints", "words"),
        [
            ([3], r"constraints\[0\]: 3 is an int, it cannot be called: write a function"),
            (3, "write a list of functions"),
            ("ab", "write a list of functions"),
            (len, r"write a list, constraints=\[...\]"),
            (
                [lambda params: None],
                r"lambda at test_relations.py:\d+\) returned None .*must return True or False. Is a return",
            ),
            ([lambda params: 1], r"returned 1 \(an int\) for \{'a': 1\}: it must return True or False"),
            ([lambda params: params["b"] > 1], r"raised KeyError: 'b' .*use params.get\(name\)"),
            ([lambda params: 1 / 0 > 1], "raised ZeroDivisionError: division by zero for {'a': 1}. It must return"),
        ],
    )
    def test_broken_constraint_is_refused_when_the_space_is_made(self, constraints: Any, words: str) -> None:
        with pytest.raises(SpaceError, match=words):
            Space({"a": 1}, constraints=constraints)


class TestInitialPoints:
    def test_partial_point_is_completed_by_draws(self) -> None:
        space = Space({"a": randint(1, 99), "b": {"c": randint(1, 99), "d": 5}}, initial=[{"b": {"c": 7}}])
        completed = [space.complete(space.initial[0], generator(0, "test", number)) for number in range(20)]
        assert all(params["b"] == {"c": 7, "d": 5} for params in completed)
        assert len({params["a"] for params in completed}) > 5
        for params in completed:
            space.validate(params)

    def test_completion_obeys_conditions_and_constraints(self) -> None:
        space = Space(
            {"kind": choice("a", "b"), "x": randint(1, 9).when(kind="a"), "y": randint(1, 9)},
            constraints=[lambda params: params.get("x", 0) < params["y"]],
            initial=[{"kind": "a"}, {"kind": "b", "y": 1}],
        )
        for number in range(30):
            first = space.complete(space.initial[0], generator(0, "test", number))
            assert first["kind"] == "a"
            assert first["x"] < first["y"]
            assert space.complete(space.initial[1], generator(0, "test", number)) == {"kind": "b", "y": 1}

    def test_points_are_kept_as_plain_values(self) -> None:
        space = Space(
            {"a": uniform(0, 1), "b": choice((1, 2), (3,))}, initial=[{"a": np.float32(0.5)}, {"a": 1, "b": (3,)}]
        )
        assert space.initial == ({"a": 0.5}, {"a": 1.0, "b": [3]})
        assert type(space.initial[1]["a"]) is float

    def test_hopeless_completion_says_what_it_completes(self) -> None:
        space = Space(
            {"a": randint(1, 9), "b": randint(1, 9)}, constraints=[lambda p: p["a"] < p["b"]], initial=[{"a": 9}]
        )
        with pytest.raises(SpaceError, match=r"1000 candidates that complete \{'a': 9\}"):
            space.complete(space.initial[0], generator(0, "test", 0))

    @pytest.mark.parametrize(
        ("initial", "words"),
        [
            ({"a": 1}, r"write a list of points, initial=\[\{...\}\]"),
            (3, "write a list of points"),
            ("ab", "write a list of points"),
            ([3], r"initial\[0\]: Params are a mapping"),
            ([{"a": 1}, {"a": 9}], r"initial\[1\]: a: 9 is outside randint\(1, 3\)"),
            ([{"c": 9}], r"initial\[0\]: c: the space has no parameter"),
            (
                [{"b": 0.5}],
                r"initial\[0\]: b: it is given, but exists only where a is 2: give 'a' too, or leave it out",
            ),
            ([{"a": 1, "b": 0.5}], r"initial\[0\]: b: it is given, but exists only where a is 2: leave it out"),
            ([{"a": 3}], r"initial\[0\]: constraints\[0\] \(lambda at .*\) rejects \{'a': 3, 'n': 'x'\}"),
        ],
    )
    def test_point_that_does_not_fit_is_refused(self, initial: Any, words: str) -> None:
        with pytest.raises(SpaceError, match=words):
            Space(
                {"a": randint(1, 3), "b": uniform(0, 1).when(a=2), "n": "x"},
                constraints=[lambda params: params["a"] < 3],
                initial=initial,
            )

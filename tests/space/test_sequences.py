"""Sequences in spaces: their domains are parameters, params come out with whole sequences."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import SpaceError
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.randomness import generator
from asyncsearch.searchers import GridSearch, RandomSearch
from asyncsearch.sequences import (
    Sequence,
    chain,
    cosine,
    custom,
    cyclic,
    exponential,
    from_json,
    multistep,
    step,
    values,
    warmup,
)
from asyncsearch.space import Choice, Space, choice, constant, loguniform, randint, uniform
from asyncsearch.trial import Params


def triangle(time: float, height: float) -> float:
    return height * (1 - abs(time % 2 - 1))


def rich_space() -> Space:
    """Every place in which a sequence or a domain inside one may stand."""
    return Space(
        {
            "fixed": step(0.1, 30),
            "open": exponential(loguniform(1e-3, 1), gamma=choice(0.9, 0.95)),
            "kind": choice("sgd", "adam"),
            "momentum": choice(0.9, cyclic(0.95, uniform(0.8, 0.9), up=20)).when(kind="sgd"),
            "model": {
                "lr": choice(
                    0.1,
                    step(0.1, 30),
                    step(0.1, randint(10, 40)),
                    step(0.2, 30, gamma=choice(0.1, 0.5)),
                    warmup(choice(0, 5), choice(0.3, cosine(1.0, total=randint(50, 60)), exponential(1, 0.9))),
                ),
                "decay": choice({"a": step(1, 5), "b": [values(["x", "y"], [3])]}, {"a": 0}),
            },
            "drops": multistep(0.1, milestones=[randint(10, 60), 50, choice(70, 80)]),
            "name": values([choice("sgd", "adam"), "adam"], milestones=choice([40], [60])),
            "parts": chain([choice(0.1, 0.2), linear_or_two()], boundaries=[9]),
            "own": custom(triangle, height=choice(1.0, 2.0)),
        },
        constraints=[lambda params: isinstance(params["fixed"], Sequence) and params["fixed"].at(30) == 0.01],
    )


def linear_or_two() -> Choice:
    return choice(exponential(0.5, choice(0.5, 0.25)), 2)


SPACE = rich_space()


class TestParams:
    @settings(max_examples=150, deadline=None)
    @given(st.integers(0, 10**6))
    def test_every_sample_is_json_validates_and_flattens_and_nests_alike(self, number: int) -> None:
        params = SPACE.sample(generator(3, "test", number))
        assert json.loads(json.dumps(params)) == params
        SPACE.validate(params)
        flat = SPACE.flatten(params)
        assert SPACE.nest(flat) == params
        assert set(flat) <= set(SPACE.parameters)
        assert list(params)[:2] == ["fixed", "open"]

    def test_domains_inside_are_parameters_with_dotted_names(self) -> None:
        names = list(Space({"lr": warmup(5, multistep(loguniform(1e-3, 1), milestones=[3, randint(4, 9)]))}).parameters)
        assert names == ["lr.then.value", "lr.then.milestones.1"]
        assert "open.gamma" in SPACE.parameters
        assert "own.height" in SPACE.parameters
        assert "parts.parts.1.exponential.gamma" in SPACE.parameters
        assert [name for name in SPACE.parameters if name.startswith("model.lr")] == [
            "model.lr",
            "model.lr.step.step_size",
            "model.lr.step_2.gamma",
            "model.lr.warmup.duration",
            "model.lr.warmup.then",
            "model.lr.warmup.then.cosine.total",
        ]

    def test_each_value_comes_out_as_the_whole_sequence(self) -> None:
        space = Space({"lr": exponential(0.1, gamma=choice(0.9, 0.95))})
        assert [params["lr"] for params in grid(space)] == [exponential(0.1, gamma).to_json() for gamma in (0.9, 0.95)]

    def test_parameters_of_what_was_not_chosen_are_absent(self) -> None:
        space = Space(
            {"k": choice(0, 1), "lr": choice(0.1, step(0.2, choice(3, 4)), cosine(1, choice(5, 6))).when(k=1)}
        )
        found = [str(from_json(p["lr"])) if isinstance(p.get("lr"), dict) else p.get("lr") for p in grid(space)]
        steps = [f"step(0.2, step_size={size})" for size in (3, 4)]
        assert sorted(map(str, found)) == ["0.1", "None", "cosine(1.0, total=5)", "cosine(1.0, total=6)", *steps]

    def test_changing_params_does_not_change_the_next_ones(self) -> None:
        space = Space({"lr": choice(values([[1], [2]], [3])), "m": multistep(1, choice([3], [4]))})
        first = space.sample(generator(0, "test", 0))
        kept = json.loads(json.dumps(first))
        first["lr"]["values"][0].append(9)
        first["m"]["milestones"].append(9)
        assert space.sample(generator(0, "test", 0)) == kept

    def test_samples_of_old_spaces_do_not_depend_on_sequences(self) -> None:
        """A bare value and a sequence of it draw nothing."""
        plain, sequenced = (
            Space({"a": uniform(0, 1), "s": s, "b": uniform(0, 1)}) for s in (constant(1), step(0.1, 3))
        )
        one, two = (space.sample(generator(0, "test", 1)) for space in (plain, sequenced))
        assert (one["a"], one["b"]) == (two["a"], two["b"])


class TestGiven:
    """Sequences in params that are given: initial points, validate, conditions, constraints."""

    @pytest.mark.parametrize(
        ("given", "flat"),
        [
            ({"lr": exponential(0.1, 0.95)}, {"lr": 0.95}),
            ({"lr": exponential(0.1, 0.95).to_json()}, {"lr": 0.95}),
            ({"lr": {"gamma": 0.95}}, {"lr": 0.95}),
        ],
    )
    def test_open_sequence_is_given_whole_or_by_its_parameters(self, given: Params, flat: Params) -> None:
        space = Space({"lr": exponential(0.1, gamma=choice(0.9, 0.95)), "n": randint(1, 9)}, initial=[given])
        assert space.complete(space.initial[0], generator(0, "t", 0))["lr"] == exponential(0.1, 0.95).to_json()

    @pytest.mark.parametrize(
        "given",
        [
            warmup(5, cosine(1.0, total=55)),
            warmup(5, cosine(1.0, total=55)).to_json(),
            {"warmup": {"duration": 5, "then": cosine(1.0, total=55)}},
            {"warmup": {"duration": 5, "then": {"cosine": {"total": 55}}}},
        ],
    )
    def test_chosen_sequence_is_given_whole_or_by_its_label(self, given: Any) -> None:
        space = Space({"lr": SPACE.parameters["model.lr"]}, initial=[{"lr": given}])
        (point,) = space.initial
        assert point["lr"] == warmup(5, cosine(1.0, total=55)).to_json()
        assert space.contains(point)

    def test_partial_ones_are_completed(self) -> None:
        space = Space({"lr": SPACE.parameters["model.lr"]}, initial=[{"lr": {"warmup": {"duration": 5}}}])
        (point,) = space.initial
        assert point == {"lr": {"warmup": {"duration": 5}}}
        for number in range(20):
            found = from_json(space.complete(point, generator(0, "t", number))["lr"])
            assert (found.kind, found.arguments()["duration"]) == ("warmup", 5)

    @settings(max_examples=50, deadline=None)
    @given(st.integers(0, 10**6))
    def test_every_sample_may_be_an_initial_point(self, number: int) -> None:
        params = SPACE.sample(generator(5, "test", number))
        assert SPACE.complete(params, generator(0, "t", 0)) == params

    @pytest.mark.parametrize(
        ("params", "words"),
        [
            ({"lr": exponential(0.2, 0.9)}, "lr: value is 0.2, where the space has 0.1"),
            ({"lr": step(0.1, 3)}, r"lr: step\(0.1, step_size=3\), where the space has exponential\("),
            ({"lr": exponential(0.1, 0.8)}, r"lr.gamma: 0.8 is none of choice\(0.9, 0.95\)"),
            (
                {"lr": 0.1},
                r"lr: 0.1 is not a sequence: write what exponential\(0.1, gamma=choice\(0.9, 0.95\)\) can be",
            ),
            ({"lr": {"gama": 0.9}}, "lr: .* has no open parameter 'gama': they are 'gamma'"),
            ({"lr": {"sequence": "exp"}}, "lr: There is no sequence 'exp'"),
            ({}, "lr.gamma: it is missing"),
        ],
    )
    def test_what_the_space_does_not_have_is_refused(self, params: Params, words: str) -> None:
        space = Space({"lr": exponential(0.1, gamma=choice(0.9, 0.95))})
        assert not space.contains(params)
        with pytest.raises(SpaceError, match=words):
            space.validate(params)

    def test_what_no_option_can_be_is_refused(self) -> None:
        space = Space({"lr": choice(0.1, step(0.1, choice(3, 4)))})
        values: list[Any] = [step(0.1, 5), 0.2, {"cosine": {}}, cosine(1, 5)]
        for value in values:
            with pytest.raises(
                SpaceError, match=r"lr: .* is none of choice\(0.1, step\(0.1, step_size=choice\(3, 4\)\)\)"
            ):
                space.validate({"lr": value})

    def test_conditions_may_ask_for_sequences_and_for_parameters_inside(self) -> None:
        space = Space(
            {
                "lr": choice(0.1, step(0.1, 30)),
                "a": choice(1, 2).when(lr=step(0.1, 30)),
                "m": exponential(0.1, choice(0.5, 0.9)),
                "b": choice(1, 2).when(**{"m.gamma": 0.5}),
            }
        )
        found = [(isinstance(p["lr"], dict), p["m"]["gamma"], "a" in p, "b" in p) for p in grid(space)]
        assert len(found) == (1 + 2) * (1 + 2)
        assert all(a == is_step and b == (gamma == 0.5) for is_step, gamma, a, b in found)
        assert repr(space.parameters["a"]) == "choice(1, 2).when(lr=step(0.1, step_size=30))"

    def test_constraints_see_sequences_as_objects(self) -> None:
        space = Space(
            {"lr": choice(step(0.1, choice(3, 9)), exponential(0.1, 0.5)), "n": {"m": choice([step(1, 2)])}},
            constraints=[
                lambda params: params["lr"].at(3) < 0.1,
                lambda params: params["n"]["m"].kind == "step",
            ],
        )
        assert [params["lr"].get("step_size") for params in grid(space)] == [3, None]

    def test_values_that_make_no_sequence_together_are_not_proposed(self) -> None:
        space = Space({"lr": multistep(0.1, [choice(30, 60), choice(40, 50)])})
        found = [params["lr"]["milestones"] for params in grid(space)]
        assert sorted(found) == [[30, 40], [30, 50]]
        sampled = [RandomSearch().begin(space, 0).propose(number) for number in range(20)]
        assert all(params and params["lr"]["milestones"] in found for params in sampled)
        with pytest.raises(SpaceError, match=r"lr: multistep\(milestones=...\): \[60, 40\] is out of order"):
            space.validate({"lr": {"milestones": {"0": 60, "1": 40}}})


def grid(space: Space) -> list[Params]:
    state = GridSearch().begin(space, 0)
    return [state.propose(number) or {} for number in range(state.length() or 0)]


class TestSpace:
    def test_bare_sequences_are_constants(self) -> None:
        space = Space({"lr": step(0.1, 30), "wd": {"sequence": "step", "value": 0.1, "step_size": 30}})
        assert space.sample(generator(0, "t", 0)) == {"lr": step(0.1, 30).to_json(), "wd": step(0.1, 30).to_json()}
        assert space.has_sequences
        assert not space.is_constrained

    def test_domains_may_stand_in_the_json_form_too(self) -> None:
        space = Space({"lr": {"sequence": "exponential", "value": 0.1, "gamma": choice(0.9, 0.95)}})
        assert list(space.parameters) == ["lr.gamma"]

    def test_code_makes_the_space_again(self) -> None:
        from asyncsearch import sequences, space

        names = {**vars(space), **{k: v for k, v in vars(sequences).items() if k != "constant"}}
        described = Space({"m": {"lr": SPACE.parameters["model.lr"]}, "s": step(0.1, 3), "n": randint(1, 2)})
        again = eval(repr(described), {**names, "Space": Space})
        assert again.to_json() == described.to_json()
        assert again.describe() == described.describe()

    def test_description_names_what_a_study_must_have_in_common(self) -> None:
        def lines(gamma: float) -> list[str]:
            return Space(
                {"lr": step(0.1, choice(3, 4), gamma), "m": choice(1, step(1, choice(3, 4), gamma))}
            ).describe()

        assert lines(0.5) == [
            "lr  step(0.1, step_size=choice(3, 4), gamma=0.5)",
            "m   choice(1, step(1, step_size=choice(3, 4), gamma=0.5))",
        ]
        assert json.loads(json.dumps(SPACE.to_json())) == SPACE.to_json()

    def test_it_survives_cloudpickle(self) -> None:
        copy = pickle.loads(dumps(SPACE))
        assert copy.to_json() == SPACE.to_json()
        assert copy.sample(generator(3, "t", 3)) == SPACE.sample(generator(3, "t", 3))

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (
                lambda: {"lr": exponential(0.1, choice(0.9, -0.5))},
                r"exponential\(gamma=...\): -0.5 is negative.*comes from",
            ),
            (lambda: {"lr": exponential(0.1, uniform(-1, 0.9))}, "-1.0 is negative: write a number from 0 on"),
            (lambda: {"lr": step(0.1, choice("a", 3))}, "'a' is a str"),
            (lambda: {"lr": step(0.1, step_size=uniform(1, 9))}, "1.0 is a float: write 1"),
            (lambda: {"lr": multistep(0.1, [choice(0, 3), 9])}, "0 is the beginning"),
            (lambda: {"lr": multistep(0.1, choice([9, 3], [3, 9]))}, r"\[9, 3\] is out of order"),
            (lambda: {"lr": step(choice(0.1, step(0.1, 3)), 3)}, "is a sequence where a constant is required"),
            (lambda: {"lr": values([{"a": choice(1, 2)}], [])}, "is not a JSON value"),
            (lambda: {"lr": exponential(0.1, choice(0.9).when(k=1)), "k": 1}, r"lr.gamma: .* stands in a sequence"),
            (
                lambda: {"lr": constant(exponential(0.1, choice(0.9, 0.8)))},
                r"has no values yet, gamma is choice\(0.9, 0.8\)",
            ),
            (lambda: {"lr": choice(step(0.1, 3), step(0.1, 3))}, r"step\(0.1, step_size=3\), the same value twice"),
            (lambda: {"lr": multistep(0.1, [randint(5, 6), randint(2, 3)])}, "lr: multistep.* is out of order"),
            (lambda: {"lr": warmup(choice(3, 4), choice("a", "b"))}, "lr: warmup.*only numbers can be warmed up to"),
            (lambda: {"lr": {"sequence": "stepp"}}, "lr: There is no sequence 'stepp'"),
            (
                lambda: {"data": {"sequence": choice("long", "short")}},
                "data.sequence: a group with a text named 'sequence'",
            ),
            (lambda: {"data": choice({"sequence": "long"}, 3)}, r"choice\(...\): There is no sequence 'long'"),
        ],
    )
    def test_malformed_sequence_is_refused_where_the_space_is_written(self, make: Any, words: str) -> None:
        with pytest.raises(SpaceError, match=words):
            Space(make())

    def test_a_parameter_called_sequence_is_allowed_where_it_is_no_text(self) -> None:
        space = Space({"sequence": choice("a", "b"), "data": {"sequence": choice(64, 128)}})
        params: Mapping[str, Any] = space.sample(generator(0, "t", 0))
        assert params["data"]["sequence"] in (64, 128)
        assert not space.has_sequences

    def test_template_has_no_values_yet(self) -> None:
        template = warmup(5, exponential(0.1, gamma=choice(0.9, 0.95)))
        for use in (lambda: template.at(0), template.to_json, lambda: template.pieces(9), template.plot):
            with pytest.raises(
                SpaceError, match=r"no values yet, then.gamma is choice\(0.9, 0.95\): put it into the space"
            ):
                use()
        assert repr(template) == "warmup(5, exponential(0.1, gamma=choice(0.9, 0.95)))"
        assert template._repr_svg_() is None

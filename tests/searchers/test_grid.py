"""Grid search: every combination once, in a known order, without holding them all."""

import itertools
import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import SpaceError
from asyncsearch.searchers import GridSearch
from asyncsearch.searchers.base_searcher import SearcherState
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
from asyncsearch.trial import Params


def proposals(state: SearcherState) -> list[Params]:
    found: list[Params] = []
    while (params := state.propose(len(found))) is not None:
        found.append(params)
    assert state.length() == len(found)
    return found


def grid(space: Space | dict[str, Any], points: Any = None) -> list[Params]:
    return proposals(GridSearch(points=points).begin(Space.of(space), 0))


def brute_force(space: Space, values: dict[str, list[Any]]) -> list[Params]:
    """Every combination, what is inactive removed, each once, in the order in which it first comes."""
    found: list[Params] = []
    for combination in itertools.product(*(values[name] for name in space.order)):
        flat: dict[str, Any] = {}
        for name, value in zip(space.order, combination, strict=True):
            if space.is_active(name, flat):
                flat[name] = value
        params = space.nest(flat)
        if params not in found and space.allows(flat):
            found.append(params)
    return found


class TestOrder:
    def test_last_parameter_is_the_fastest(self) -> None:
        assert grid({"a": choice("x", "y"), "m": {"b": randint(1, 3)}, "c": 5}) == [
            {"a": a, "m": {"b": b}, "c": 5} for a in "xy" for b in (1, 2, 3)
        ]

    def test_parent_counts_as_declared_before_its_children(self) -> None:
        assert grid({"b": choice(1, 2).when(a="x"), "a": choice("x", "y")}) == [
            {"b": 1, "a": "x"},
            {"b": 2, "a": "x"},
            {"a": "y"},
        ]

    def test_any_number_can_be_asked_for_at_any_time(self) -> None:
        space = Space(
            {"a": randint(1, 30), "b": choice(1, 2).when(a=(3, 5)), "c": randint(1, 4)},
            constraints=[lambda params: params["a"] != params["c"]],
        )
        in_order = grid(space)
        state = GridSearch().begin(space, 0)
        for number in random.Random(0).sample(range(len(in_order)), len(in_order)):
            assert state.propose(number) == in_order[number]
        assert state.propose(len(in_order)) is None
        assert state.propose(10**9) is None


class TestValues:
    @pytest.mark.parametrize(
        ("domain", "points", "values"),
        [
            (randint(2, 4), None, [2, 3, 4]),
            (randint(2, 4), 2, [2, 3, 4]),
            (randint(2, 4), {"a": 2}, [2, 4]),
            (lograndint(1, 100), {"a": 3}, [1, 10, 100]),
            (quniform(0, 0.3, 0.1), None, [0.0, 0.1, 0.2, 0.3]),
            (uniform(0, 1), 3, [0.0, 0.5, 1.0]),
            (uniform(0, 1), {"a": 1}, [0.5]),
            (loguniform(1e-3, 1e-1), {"a": 3}, [1e-3, 1e-2, 1e-1]),
            (choice("x", [1, 2], None), 5, ["x", [1, 2], None]),
            (constant({"k": 1}), None, [{"k": 1}]),
        ],
    )
    def test_domain_is_enumerated_on_its_scale(self, domain: Domain, points: Any, values: list[Any]) -> None:
        assert [params["a"] for params in grid({"a": domain}, points)] == values

    def test_changing_a_proposal_does_not_change_the_next_one(self) -> None:
        state = GridSearch().begin(Space({"a": choice([1], [2])}, initial=[{"a": [2]}]), 0)
        for number in (0, 1):
            first = state.propose(number)
            assert first is not None
            first["a"].append(9)
        assert [state.propose(number) for number in (0, 1, 2)] == [{"a": [2]}, {"a": [1]}, None]


class TestConditions:
    def test_conditional_parameters_are_enumerated_once(self) -> None:
        space = {
            "kind": choice("cnn", "rnn", "linear"),
            "layers": randint(1, 2).when(kind=("cnn", "rnn")),
            "kernel": choice(3, 5).when(kind="cnn"),
            "deep": choice(True, False).when(layers=2),
            "lr": uniform(0, 1),
        }
        found = grid(space, {"lr": 2})
        assert len(found) == 2 * (2 * (1 + 2) + (1 + 2) + 1)
        assert len({str(params) for params in found}) == len(found)

    @settings(max_examples=150, deadline=None)
    @given(st.data())
    def test_grid_is_what_brute_force_finds(self, data: st.DataObject) -> None:
        names = "abcde"[: data.draw(st.integers(1, 5), "parameters")]
        parameters: dict[str, Domain] = {}
        for at, name in enumerate(names):
            domain: Domain = randint(0, data.draw(st.integers(0, 2)))
            parents = data.draw(st.lists(st.sampled_from(names[:at]), max_size=2, unique=True)) if at else []
            for parent in parents:
                size = parameters[parent].size or 1
                allowed = data.draw(st.lists(st.integers(0, size - 1), min_size=1, unique=True))
                domain = domain.when(**{parent: tuple(allowed)})
            parameters[name] = domain
        declared = data.draw(st.permutations(names))
        rejected = data.draw(st.integers(0, 4))
        try:
            space = Space(
                {name: parameters[name] for name in declared},
                constraints=[lambda params: sum(params.values()) % 5 != rejected] if rejected else [],
            )
            found = grid(space)
        except SpaceError as error:
            assert "exclude each other" in str(error) or "reject all" in str(error)  # noqa: PT017
            return
        values = {name: list(domain.grid(None)) for name, domain in space.parameters.items()}
        assert found == brute_force(space, values)

    def test_hundreds_of_conditional_parameters_are_no_problem(self) -> None:
        kinds = [f"kind{number}" for number in range(60)]
        groups = {
            kind: {f"p{number}": choice(1, 2) if number == 0 else constant(number) for number in range(8)}
            for kind in kinds
        }
        space = Space(
            {
                "kind": choice(kinds),
                **{kind: {name: p.when(kind=kind) for name, p in group.items()} for kind, group in groups.items()},
                **{f"constant{number}": number for number in range(1500)},
            }
        )
        state = GridSearch().begin(space, 0)
        assert state.length() == 120
        last = state.propose(119)
        assert last is not None
        assert (last["kind"], last["kind59"]["p0"], len(last)) == ("kind59", 2, 1502)


class TestInitialPoints:
    def test_they_come_first_and_are_not_repeated(self) -> None:
        space = Space({"a": randint(1, 2), "b": choice("x", "y")}, initial=[{"a": 2, "b": "x"}, {"a": 1, "b": "y"}])
        assert grid(space) == [{"a": 2, "b": "x"}, {"a": 1, "b": "y"}, {"a": 1, "b": "x"}, {"a": 2, "b": "y"}]

    def test_they_may_lie_off_the_grid(self) -> None:
        assert [params["a"] for params in grid(Space({"a": uniform(0, 1)}, initial=[{"a": 0.3}, {"a": 1}]), 3)] == [
            0.3,
            1.0,
            0.0,
            0.5,
        ]

    @pytest.mark.parametrize("constraints", [[], [lambda params: params["a"] != 5]])
    def test_partial_ones_are_completed_and_not_repeated(self, constraints: list[Any]) -> None:
        space = Space(
            {"a": randint(1, 6), "k": choice(0, 1), "b": randint(1, 3).when(k=1)},
            constraints=constraints,
            initial=[{"a": 3}, {"k": 1}, {"a": 4, "k": 1, "b": 2}],
        )
        found = grid(space)
        without = grid(Space(dict(space.parameters), constraints=constraints))
        assert found[0]["a"] == 3
        assert found[1]["k"] == 1
        assert found[2] == {"a": 4, "k": 1, "b": 2}
        assert sorted(map(str, found)) == sorted(map(str, without))
        assert found[3:] == [params for params in without if params not in found[:3]]

    def test_grid_of_initial_points_only_has_nothing_else(self) -> None:
        assert grid(Space({"a": choice(1, 2)}, initial=[{"a": 2}, {"a": 1}])) == [{"a": 2}, {"a": 1}]


class TestSize:
    def test_huge_grid_is_not_held_in_memory(self) -> None:
        space = Space({"a": randint(1, 3000), "b": quniform(0, 3, 0.001), "k": choice(0, 1), "c": choice(1).when(k=1)})
        tracemalloc.start()
        state = GridSearch(points={"b": 1500}).begin(space, 0)
        assert state.length() == 9_000_000
        assert state.propose(8_999_999) == {"a": 3000, "b": 3.0, "k": 1, "c": 1}
        assert state.propose(9_000_000) is None
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak_bytes < 3_000_000

    def test_length_is_unknown_where_counting_would_take_long(self) -> None:
        space = Space({"a": randint(1, 10**6)}, constraints=[lambda params: params["a"] > 10])
        state = GridSearch().begin(space, 0)
        assert state.length() is None
        assert state.propose(0) == {"a": 11}

    @pytest.mark.parametrize(
        ("space", "points", "words"),
        [
            (
                {"a": randint(1, 10**9), "b": choice(1, 2)},
                None,
                r"more than 10,000,000; .*'a' \(1,000,000,000 values of randint",
            ),
            ({"a": randint(-(2**63), 2**63 - 1)}, None, "more than 10,000,000"),
            ({"b": randint(1, 999), "a": randint(1, 99999)}, None, r"99,899,001 points.* come from 'a' .*, 'b' \("),
            ({"a": uniform(0, 1)}, 10**8, r"100,000,000 points"),
            ({"a": quniform(0, 1, 1e-9)}, None, "more than 10,000,000"),
            ({"a": choice(0, 1), "b": randint(1, 10**7).when(a=1), "c": choice(0, 1)}, None, "20,000,002 points"),
        ],
    )
    def test_too_large_a_grid_is_refused_with_its_culprits(self, space: Any, points: Any, words: str) -> None:
        with pytest.raises(SpaceError, match=words):
            GridSearch(points=points).begin(Space(space), 0)


class TestBadInput:
    @pytest.mark.parametrize(
        ("points", "words"),
        [
            (0, "0 is not a number of points: write an integer from 1 on"),
            (-3, "-3 is not a number of points"),
            (2.5, "2.5 is not a number of points"),
            (True, "True is not a number of points"),
            ("3", "'3' is not a number of points"),
            ({"a": 0}, "0 is not a number of points"),
            ({"a": None}, "None is not a number of points"),
            ({"lrr": 3}, "points names 'lrr'; did you mean 'lr'"),
            ({"kind": 3}, r"kind: choice\('a', 'b'\) has its own values: leave it out"),
            ({"n": 3, "lr": 2}, r"n: constant\(3\) has its own values"),
            (
                None,
                r"lr: loguniform\(0.0001, 0.1\) is continuous, .*write GridSearch\(points=\{'lr': 5\}\), or .*choice",
            ),
            ({"m.x": 3}, r"lr: .*is continuous"),
        ],
    )
    def test_points_that_do_not_fit_are_refused(self, points: Any, words: str) -> None:
        with pytest.raises(SpaceError, match=words):
            GridSearch(points=points).begin(
                Space({"lr": loguniform(1e-4, 1e-1), "kind": choice("a", "b"), "n": 3, "m": {"x": uniform(0, 1)}}), 0
            )

    def test_constraints_that_reject_the_whole_grid_are_refused(self) -> None:
        space = Space({"a": randint(1, 10)}, constraints=[lambda params: params["a"] > 10])
        with pytest.raises(SpaceError, match="reject all 10 points of the grid"):
            GridSearch().begin(space, 0)

    def test_description_is_the_call(self) -> None:
        assert GridSearch().describe() == "GridSearch()"
        assert GridSearch(points=3).describe() == "GridSearch(points=3)"
        assert GridSearch(points={"lr": 5}).describe() == "GridSearch(points={'lr': 5})"
        assert GridSearch(points={"lr": 5}) == GridSearch(points={"lr": 5})

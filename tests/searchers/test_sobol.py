"""Sobol search: points that fill the space evenly, each known by its number."""

import random
import sys
from typing import Any

import pytest

from asyncsearch.errors import SpaceError, UsageError
from asyncsearch.ids import TrialId
from asyncsearch.searchers import SobolSearch
from asyncsearch.searchers.base_searcher import SearcherState
from asyncsearch.sequences import exponential
from asyncsearch.space import MAX_CANDIDATES, Space, choice, lograndint, loguniform, quniform, randint, uniform

pytest.importorskip("scipy")

PINNED = [{"a": 0.9833855698816478, "b": 81}, {"a": 0.2284979938995093, "b": 32}, {"a": 0.7745038364082575, "b": 80}]


def make_space(**more: Any) -> Space:
    return Space(
        {
            "lr": loguniform(1e-4, 1e-1),
            "kind": choice("a", "b"),
            "x": randint(1, 9).when(kind="a"),
            "n": {"d": uniform(0, 1), "fixed": 5},
        },
        **more,
    )


def begin(space: Space, seed: int = 0) -> SearcherState:
    return SobolSearch().begin(space, seed)


def test_proposal_depends_on_seed_and_number_only() -> None:
    space = make_space()
    used = begin(space, 3)
    in_order = [used.propose(number) for number in range(600)]
    for number in random.Random(0).sample(range(600), 60):
        used.created(TrialId(number), {})
        used.reported(TrialId(number), 1, 0.5)
        assert used.propose(number) == in_order[number] == begin(make_space(), 3).propose(number)


def test_points_are_those_of_scipy_and_stay_so() -> None:
    state = begin(Space({"a": uniform(0, 1), "b": randint(0, 99)}), 7)
    assert [state.propose(number) for number in (0, 1, 1000)] == PINNED


def test_seeds_scramble_differently() -> None:
    assert len({str(begin(make_space(), seed).propose(0)) for seed in range(20)}) == 20


def test_every_power_of_two_is_spread_evenly_over_each_dimension() -> None:
    state = begin(Space({"a": uniform(0, 1), "b": choice(*range(8)), "c": loguniform(1e-4, 1), "d": uniform(0, 1)}), 5)
    points = [state.propose(number) or {} for number in range(64)]
    assert sorted(int(64 * point["a"]) for point in points) == list(range(64))
    assert sorted(point["b"] for point in points) == sorted(list(range(8)) * 8)
    assert sorted(int(64 * point["d"]) for point in points) == list(range(64))
    decades = [sum(10.0**low <= point["c"] < 10.0 ** (low + 1) for point in points) for low in range(-4, 0)]
    assert decades == [16, 16, 16, 16]


def test_every_proposal_fits_the_space() -> None:
    space = Space(
        {
            "lr": choice(exponential(0.1, gamma=uniform(0.9, 0.99)), 0.01),
            "width": lograndint(1, 500),
            "q": quniform(0, 1, 0.25),
        },
        constraints=[lambda params: params["width"] > 3],
    )
    state = begin(space)
    proposals = [state.propose(number) or {} for number in range(200)]
    for params in proposals:
        space.validate(params)
    assert {type(params["lr"]) for params in proposals} == {dict, float}


def test_initial_points_come_first() -> None:
    space = make_space(initial=[{"kind": "a", "x": 3}, {"lr": 0.01, "kind": "b", "n": {"d": 0.5}}])
    state = begin(space)
    first = state.propose(0) or {}
    assert (first["kind"], first["x"]) == ("a", 3)
    assert state.propose(1) == {"lr": 0.01, "kind": "b", "n": {"d": 0.5, "fixed": 5}}
    assert state.propose(2) == begin(make_space()).propose(0)


def test_rejected_points_are_left_out_and_the_others_keep_their_order() -> None:
    space = make_space(constraints=[lambda params: params["kind"] == "a"])
    free = begin(make_space())
    allowed = [params for number in range(100) if (params := free.propose(number) or {})["kind"] == "a"]
    state = begin(space)
    assert state.propose(20) == allowed[20]
    assert [state.propose(number) for number in range(len(allowed))] == allowed


def test_constraints_that_reject_everything_are_refused_at_the_beginning() -> None:
    with pytest.raises(SpaceError, match="rejected 1,000 points of the Sobol sequence in a row, from point 0 on"):
        begin(make_space(constraints=[lambda params: params["lr"] > 1]))


def test_constraints_are_asked_a_bounded_number_of_times() -> None:
    asked = []

    def first_only(params: dict[str, Any]) -> bool:
        asked.append(params)
        return len(asked) <= 30

    state = begin(make_space(constraints=[first_only]))
    before = len(asked)
    with pytest.raises(SpaceError, match="loosen them"):
        state.propose(100)
    assert len(asked) - before <= MAX_CANDIDATES + 30


def test_a_space_of_constants_has_a_point() -> None:
    assert begin(Space({"a": 1})).propose(5) == {"a": 1}


def test_there_is_no_end() -> None:
    state = begin(make_space())
    assert state.length() is None
    make_space().validate(state.propose(10**7) or {})


def test_too_many_dimensions_are_refused() -> None:
    space = Space({f"p{number}": uniform(0, 1) for number in range(21_202)})
    with pytest.raises(SpaceError, match=r"21,202 parameters .* at most 21,201 dimensions: use RandomSearch"):
        begin(space)


def test_missing_scipy_is_said_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats.qmc", None)
    with pytest.raises(UsageError, match=r"pip install 'asyncsearch\[sobol\]'"):
        begin(make_space())


def test_description_is_the_call() -> None:
    assert SobolSearch().describe() == "SobolSearch()"


def test_a_point_that_constraints_never_complete_is_refused_at_the_start() -> None:
    space = make_space(constraints=[lambda params: params["lr"] < 0.01], initial=[{"kind": "a"}, {"lr": 0.02}])
    with pytest.raises(SpaceError, match=r"rejected all of 1000 candidates that complete \{'lr': 0\.02\}"):
        begin(space)

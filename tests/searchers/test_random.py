"""Random search: each proposal is drawn on its own."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import SpaceError
from asyncsearch.ids import TrialId
from asyncsearch.searchers import RandomSearch
from asyncsearch.space import Space, choice, loguniform, randint, uniform


def make_space(**more: Any) -> Space:
    return Space(
        {
            "lr": loguniform(1e-4, 1e-1),
            "kind": choice("a", "b"),
            "x": randint(1, 9).when(kind="a"),
            "n": {"d": uniform(0, 1)},
        },
        **more,
    )


@settings(deadline=None)
@given(st.integers(0, 2**63 - 1), st.lists(st.integers(0, 500), min_size=1, max_size=20))
def test_proposal_depends_on_seed_and_number_only(seed: int, numbers: list[int]) -> None:
    space = make_space()
    used = RandomSearch().begin(space, seed)
    for number in numbers:
        used.created(TrialId(number), {})
        used.reported(TrialId(number), 1, 0.5)
        assert used.propose(number) == RandomSearch().begin(make_space(), seed).propose(number)


def test_seeds_and_numbers_give_different_proposals() -> None:
    states = [RandomSearch().begin(make_space(), seed) for seed in range(20)]
    assert len({str(state.propose(number)) for state in states for number in range(20)}) == 400


def test_initial_points_come_first() -> None:
    space = make_space(initial=[{"kind": "a", "x": 3}, {"lr": 0.01, "kind": "b", "n": {"d": 0.5}}])
    state = RandomSearch().begin(space, 0)
    first = state.propose(0)
    assert (first["kind"], first["x"]) == ("a", 3)
    assert state.propose(1) == {"lr": 0.01, "kind": "b", "n": {"d": 0.5}}
    assert state.propose(2) == RandomSearch().begin(make_space(), 0).propose(2)


def test_there_is_no_end() -> None:
    state = RandomSearch().begin(Space({"a": choice(1, 2)}), 0)
    assert state.length() is None
    assert state.propose(10**9) in ({"a": 1}, {"a": 2})


def test_a_point_that_constraints_never_complete_is_refused_at_the_start() -> None:
    space = make_space(constraints=[lambda params: params["kind"] == "b"], initial=[{"lr": 0.01}])
    RandomSearch().begin(space, 0)
    space = make_space(constraints=[lambda params: params["lr"] < 0.01], initial=[{"kind": "a"}, {"lr": 0.02}])
    with pytest.raises(SpaceError, match=r"rejected all of 1000 candidates that complete \{'lr': 0\.02\}"):
        RandomSearch().begin(space, 0)


def test_description_is_the_call() -> None:
    assert RandomSearch().describe() == "RandomSearch()"
    assert RandomSearch() == RandomSearch()

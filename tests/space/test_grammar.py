"""Laws of every space that can be written: nested groups, choices of dictionaries, conditions, each kind of domain."""

from __future__ import annotations

import json
from typing import Any

import cloudpickle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import SpaceError
from asyncsearch.randomness import generator
from asyncsearch.searchers import GridSearch, OptunaSearch, RandomSearch, SobolSearch
from asyncsearch.space import Space, choice, lognormal, loguniform, normal, quniform, randint, uniform
from tests.examples import examples

LEAVES = st.sampled_from(
    [
        uniform(-1, 1),
        loguniform(1e-3, 1),
        quniform(0, 1, 0.25),
        normal(0, 1),
        normal(5, 2, step=0.5),
        lognormal(-1, 1),
        lognormal(1, 1, step=0.1),
        randint(1, 4),
        randint(16, 128, step=16),
        choice("a", "b", None, weights=[1, 2, 3]),
        choice([1, 2], [3]),
        "fixed",
        7,
    ]
)


def _option(number: int, inside: Any) -> Any:
    return inside if isinstance(inside, str) else {"kind": f"k{number}", **inside}


def _choices(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    options = st.lists(inside.filter(lambda one: isinstance(one, dict)), min_size=1, max_size=3)
    return options.map(lambda found: choice(*(_option(at, one) for at, one in enumerate(found)), "none"))


NAMES = st.sampled_from(["lr", "x", "depth", "y"])
VALUES = st.recursive(
    LEAVES,
    lambda inside: (
        st.dictionaries(NAMES, inside, min_size=1, max_size=3)
        | _choices(st.dictionaries(NAMES, inside, min_size=1, max_size=2))
    ),
    max_leaves=8,
)
SPACES = st.dictionaries(NAMES, VALUES, min_size=1, max_size=3)


@settings(max_examples=examples(60), deadline=None)
@given(written=SPACES, number=st.integers(0, 1000))
def test_a_draw_of_any_space_is_taken_apart_and_put_together_again(written: dict[str, Any], number: int) -> None:
    space = Space(written)
    params = space.sample(generator(3, "grammar", number))
    assert json.loads(json.dumps(params)) == params
    assert space.plain(params) == params
    flat = space.flatten(params)
    assert space.nest(flat) == params
    assert set(flat) <= set(space.parameters)
    assert all(space.is_active(name, flat) == (name in flat) for name in space.parameters)
    assert cloudpickle.loads(cloudpickle.dumps(space)).plain(params) == params
    json.dumps(space.to_json())


@settings(max_examples=examples(30), deadline=None)
@given(written=SPACES, seed=st.integers(0, 100))
def test_each_searcher_proposes_what_the_space_has(written: dict[str, Any], seed: int) -> None:
    space = Space(written)
    for searcher in (RandomSearch(), SobolSearch(), GridSearch(points=2)):
        state = searcher.begin(space, seed)
        for number in range(min(4, state.length() or 4)):
            params = state.propose(number)
            assert params is not None
            assert space.contains(params), (searcher, params)


@settings(max_examples=examples(8), deadline=None)
@given(written=SPACES, seed=st.integers(0, 100))
def test_a_sampler_of_optuna_knows_each_domain_or_refuses_by_name(written: dict[str, Any], seed: int) -> None:
    space = Space(written)
    weighted = [name for name, domain in space.parameters.items() if getattr(domain, "weights", None)]
    if weighted:
        with pytest.raises(SpaceError, match=f"{weighted[0]}: a sampler of Optuna draws choices evenly"):
            OptunaSearch("tpe").begin(space, seed)
        return
    state = OptunaSearch("tpe").begin(space, seed)
    for number in range(3):
        params = state.propose(number)
        assert params is not None
        assert space.contains(params)
        state.created(number, params)  # type: ignore[arg-type]
        state.completed(number, 1, float(number))  # type: ignore[arg-type]


def test_dictionaries_that_nobody_could_tell_apart_are_refused() -> None:
    with pytest.raises(SpaceError, match=r"model: .* may have the same values.*give each a constant"):
        Space({"model": choice({"C": uniform(0, 1)}, {"C": uniform(0, 2)})})


def test_weights_decide_how_often_a_value_comes() -> None:
    domain = choice("a", "b", "c", weights=[1, 6, 3])
    assert "".join(domain.at_quantile(share) for share in (0.0, 0.099, 0.101, 0.699, 0.701, 0.999)) == "aabbcc"
    refused: dict[str, Any] = {"has 1 weights for 3": [1], "must be above 0": [1, 0, 1], "weights=": ["x", 1, 1]}
    for words, wrong in refused.items():
        with pytest.raises(SpaceError, match=words):
            choice("a", "b", "c", weights=wrong)


@pytest.mark.parametrize("domain", [normal(3, 2), lognormal(-2, 0.5)], ids=["normal", "lognormal"])
def test_a_quantile_and_its_value_belong_together(domain: Any) -> None:
    import math

    for share in (1e-9, 0.1, 0.5, 0.9, 1 - 1e-9):
        assert domain.quantile_of(domain.at_quantile(share)) == pytest.approx(share, rel=1e-6)
    middle = domain.at_quantile(0.5)
    assert middle == pytest.approx(3.0 if domain.kind == "normal" else math.exp(-2))

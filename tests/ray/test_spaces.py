"""The domains of Tune, by the ends that Ray documents, and the configurations that a ``param_space`` comes to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asyncsearch.errors import SpaceError
from asyncsearch.other_libraries.domains import MeantDomain
from asyncsearch.ray.space import foreign_spaces
from asyncsearch.ray.space import spaces as tune
from asyncsearch.ray.space.configurations import ParamSpace
from asyncsearch.ray.space.search_algorithms import OTHERS


def drawn(domain: Any, count: int = 3000) -> list[Any]:
    source = np.random.default_rng(0)
    return [domain.draw(source) for _ in range(count)]


# fmt: off
ENDS = {
    "randint": (tune.randint(2, 5), {2, 3, 4}),
    "randint of one argument": (tune.randint(3), {0, 1, 2}),
    "lograndint": (tune.lograndint(1, 4), {1, 2, 3}),
    "qrandint": (tune.qrandint(2, 9, 3), {3, 6, 9}),
    "qrandint of step 1": (tune.qrandint(2, 5, 1), {2, 3, 4}),
    "qlograndint": (tune.qlograndint(2, 9, 2), {2, 4, 6, 8}),
    "quniform": (tune.quniform(0.25, 1.0, 0.25), {0.25, 0.5, 0.75, 1.0}),
    "qloguniform": (tune.qloguniform(1, 4, 1), {1.0, 2.0, 3.0, 4.0}),
    "choice": (tune.choice([None, True, "a"]), {None, True, "a"}),
}
# fmt: on


@pytest.mark.parametrize("name", ENDS)
def test_a_domain_has_exactly_the_values_that_ray_documents(name: str) -> None:
    domain, values = ENDS[name]
    assert set(drawn(domain)) == values


@pytest.mark.parametrize("name", ["randint", "lograndint", "qrandint", "qlograndint", "quniform"])
def test_a_searcher_that_learns_gets_the_same_values(name: str) -> None:
    domain, values = ENDS[name]
    counterpart = domain.counterpart()
    assert counterpart is not None
    assert {counterpart.at_quantile(share) for share in np.linspace(0, 1, 500, endpoint=False)} == values


def test_numbers_without_steps_stay_between_their_ends() -> None:
    assert all(1e-4 <= value <= 1e-1 for value in drawn(tune.loguniform(1e-4, 1e-1)))
    below = sum(value < 10**-2.5 for value in drawn(tune.loguniform(1e-4, 1e-1)))
    assert 0.45 < below / 3000 < 0.55
    assert all(-1 <= value <= 2 for value in drawn(tune.uniform(-1, 2)))


def all_configs(space: Any, num_samples: int = 1, seed: int = 0, **options: Any) -> list[Any]:
    params = ParamSpace(space, num_samples, **options)
    length = params.length()
    assert length is not None
    assert params.draw(length, seed) is None
    found = [params.draw(number, seed) for number in range(length)]
    return [params.config(one) for one in found if one is not None]


def test_each_point_of_a_grid_comes_num_samples_times() -> None:
    space = {"a": tune.grid_search([1, 2]), "b": {"c": tune.grid_search(["x", "y", "z"])}, "d": tune.uniform(0, 1)}
    found = all_configs(space, 2)
    assert [(one["a"], one["b"]["c"]) for one in found[:3]] == [(1, "x"), (2, "x"), (1, "y")]
    assert sorted((one["a"], one["b"]["c"]) for one in found) == sorted(
        [(a, c) for a in (1, 2) for c in "xyz" for _ in range(2)]
    )
    assert len({one["d"] for one in found}) == 12
    kept = all_configs(space, 2, is_grid_constant=True)
    assert len({one["d"] for one in kept}) == 2


def test_a_function_reads_the_values_that_were_drawn_before() -> None:
    space = {
        "late": tune.sample_from(lambda config: config["early"] + 1),
        "early": tune.sample_from(lambda spec: spec.config.width * 2),
        "width": tune.randint(1, 100),
        "pair": tune.sample_from(lambda _: (1, [2.5, "a"])),
    }
    for one in all_configs(space, 5):
        assert one["early"] == 2 * one["width"] == one["late"] - 1
        assert one["pair"] == (1, [2.5, "a"])


def test_functions_that_read_each_other_are_named() -> None:
    space = {"a": tune.sample_from(lambda c: c["b"]), "b": tune.sample_from(lambda c: c["a"])}
    with pytest.raises(SpaceError, match=r"a, b"):
        all_configs(space)


def test_choices_are_the_objects_of_the_program() -> None:
    layers, tuple_of = [64, 32], (3, 3)
    space = {"k": tune.choice([layers, tuple_of, np.tanh, None, 1, True, 1.0]), "constant": layers}
    found = all_configs(space, 60)
    assert {type(one["k"]) for one in found} == {list, tuple, type(np.tanh), type(None), int, bool, float}
    assert all(one["k"] == [64, 32] for one in found if isinstance(one["k"], list))
    assert all(one["constant"] is not layers for one in found), "a trial may change its own"


def test_domains_in_a_choice_are_drawn_too() -> None:
    space = {"m": tune.choice([{"kind": "a", "depth": tune.randint(1, 9)}, {"kind": "b"}])}
    found = [one["m"] for one in all_configs(space, 30)]
    assert {one["kind"] for one in found} == {"a", "b"}
    assert len({one["depth"] for one in found if one["kind"] == "a"}) > 2


def test_the_same_seed_gives_the_same_configurations() -> None:
    space = {"a": tune.uniform(0, 1), "b": tune.sample_from(lambda _: float(np.random.uniform()))}  # noqa: NPY002
    assert all_configs(space, 4) == all_configs(space, 4)
    assert all_configs(space, 4) != all_configs(space, 4, seed=1)


def test_points_to_evaluate_come_first() -> None:
    space = {"a": tune.uniform(0, 1), "m": {"b": tune.grid_search([1, 2])}}
    found = all_configs(space, 2, presets=({"a": 0.25},))
    assert [one["a"] for one in found[:2]] == [0.25, 0.25]
    assert [one["m"]["b"] for one in found] == [1, 2, 1, 2]


def test_a_space_of_another_library_is_drawn_as_its_own() -> None:
    hp = pytest.importorskip("hyperopt").hp
    given = {
        "a": hp.loguniform("a", 0, 1),
        "m": hp.choice("m", [{"kind": "x", "depth": hp.randint("depth", 3)}, "y"]),
        "steps": 100,
    }
    algorithm = OTHERS["HyperOptSearch"](given, points_to_evaluate=[{"a": 2.0, "m": 1}])
    space = algorithm.space_of(None)
    assert algorithm.points_to_evaluate == [{"a": 2.0, "m": "y"}], "there it is the number of a choice"
    found = all_configs(space, 40)
    assert all(1 <= one["a"] <= np.e and one["steps"] == 100 for one in found)
    assert {one["m"]["depth"] for one in found if one["m"] != "y"} == {0, 1, 2}
    constant = hp.lognormal("b", 0, 1)
    assert algorithm.space_of({"b": constant})["b"] is constant, "in the tuner's own space it is none of its domains"
    with pytest.raises(SpaceError, match="lognormal"):
        OTHERS["HyperOptSearch"]({"b": constant}).space_of(None)


def test_a_space_of_configspace_is_drawn_as_its_own() -> None:
    library = pytest.importorskip("ConfigSpace")
    space = library.ConfigurationSpace(seed=1)
    space.add([library.Float("lr", (1e-4, 1e-1), log=True), library.Integer("n", (1, 3)), library.Constant("q", 3)])
    found = all_configs(OTHERS["TuneBOHB"](space).space_of(None), 40)
    assert {one["n"] for one in found} == {1, 2, 3}
    assert all(1e-4 <= one["lr"] <= 1e-1 and one["q"] == 3 for one in found)


def test_a_constant_of_another_library_is_its_value() -> None:
    assert foreign_spaces._domain(MeantDomain("constant", ("adam",))) == "adam"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tune.randint(3, 3), "no value"),
        (lambda: tune.loguniform(0, 1), "above 0"),
        (lambda: tune.uniform(0, float("inf")), "finite"),
        (lambda: tune.choice([]), "no value"),
        (lambda: all_configs({"a": tune.sample_from(lambda _: object())}), "no journal can hold"),
    ],
    ids=["empty", "log of zero", "infinite", "no choice", "object"],
)
def test_a_space_that_cannot_be_drawn_says_why(make: Any, words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        make()

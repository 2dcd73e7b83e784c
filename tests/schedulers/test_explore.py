"""With which values a trial goes on that took over the weights of another one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.errors import SpaceError
from asyncsearch.randomness import generator
from asyncsearch.schedulers.explore import Explorer, continued, current, explored, moves, perturbed_domains
from asyncsearch.sequences import exponential, from_json, multistep, values
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
from asyncsearch.space.numbers import Uniform

FACTORS = (0.8, 1.2)


@pytest.mark.parametrize(
    ("domain", "value", "expected"),
    [
        (uniform(0, 1), 0.5, [0.4, 0.6]),
        (uniform(0, 1), 0.9, [0.72, 1.0]),
        (uniform(0, 1), 1.0, [0.8]),
        (uniform(0, 1), 0.0, []),
        (uniform(-1, 1), -0.5, [-0.4, -0.6]),
        (loguniform(1e-4, 1e-1), 0.01, [0.008, 0.012]),
        (loguniform(1e-4, 1e-1), 1e-4, [0.00012]),
        (randint(1, 100), 50, [40, 60]),
        (randint(1, 9), 2, [1, 3]),
        (randint(1, 9), 1, [2]),
        (randint(-9, 9), -2, [-1, -3]),
        (randint(-9, 9), 0, []),
        (lograndint(1, 1000), 1000, [800]),
        (quniform(0, 1, 0.25), 0.5, [0.25, 0.75]),
        (quniform(0, 1, 0.1), 0.5, [0.4, 0.6]),
        (quniform(0.1, 0.5, 0.1), 0.1, [0.2]),
        (quniform(0, 1, 0.3), 0.9, [0.6]),
        (choice(16, 64, 32), 32, [16, 64]),
        (choice(16, 64, 32), 64, [32]),
        (choice(16, 64, 32), 16, [32]),
        (choice("sgd", "adam"), "sgd", []),
        (choice(0, 1, True), 1, []),
        (choice(0.9, None), 0.9, []),
    ],
)
def test_values_move_as_their_domain_lets_them(domain: Domain, value: Any, expected: list[Any]) -> None:
    assert moves(domain, value, FACTORS) == expected


def test_factors_that_lead_to_one_value_count_once() -> None:
    assert moves(randint(1, 9), 2, (1.1, 1.2, 0.9)) == [3, 1]


@given(
    low=st.integers(-50, 50),
    width=st.integers(1, 50),
    share=st.floats(0, 1),
    factors=st.lists(st.floats(0.01, 100).filter(lambda f: f != 1), min_size=1, max_size=3),
    number=st.integers(0, 1000),
)
def test_whatever_is_explored_is_in_the_domain_and_a_move_is_a_change(
    low: int, width: int, share: float, factors: list[float], number: int
) -> None:
    high = low + width
    ladder = quniform(low, high, width / 4)
    domains: list[tuple[Domain, Any]] = [
        (randint(low, high), low + round(share * width)),
        (Uniform(low, high), low + share * width),
        (ladder, ladder.grid(None)[round(share * (ladder.size - 1))]),
        (choice(*range(low, high + 1)), low + round(share * width)),
    ]
    for domain, value in domains:
        for moved in moves(domain, value, factors):
            assert domain.accept(moved) == moved != value
        found = explored(domain, value, factors, 0.5, generator(0, "test", number))
        assert domain.accept(found) == found
        assert type(found) is type(domain.accept(value))


def test_a_value_that_cannot_move_is_drawn_anew() -> None:
    source = generator(0, "test", 0)
    drawn = {explored(choice("a", "b", "c"), "a", FACTORS, 0.0, source) for _ in range(50)}
    assert drawn == {"a", "b", "c"}


def test_the_share_that_is_drawn_anew_is_the_one_that_was_asked_for() -> None:
    source = generator(0, "test", 0)
    found = [explored(uniform(0, 1), 0.5, FACTORS, 0.25, source) for _ in range(1000)]
    assert 200 < sum(value not in (0.4, 0.6) for value in found) < 300
    assert 300 < sum(value == 0.4 for value in found) < 450


def test_a_schedule_keeps_values_up_to_the_resource_and_drops_later_ones() -> None:
    once = continued(0.1, 20, 0.12)
    assert from_json(once).pieces(100)[1].start == 20
    assert once == values([0.1, 0.12], milestones=[20]).to_json()
    assert list(once) == list(values([0.1, 0.12], milestones=[20]).to_json())
    assert (current(once, 19), current(once, 20)) == (0.1, 0.12)
    twice = continued(once, 40, 0.144)
    assert (twice["values"], twice["milestones"]) == ([0.1, 0.12, 0.144], [20, 40])
    assert continued(twice, 30, 0.1) == {"sequence": "values", "values": [0.1, 0.12, 0.1], "milestones": [20, 30]}
    assert continued(twice, 20, 0.2) == {"sequence": "values", "values": [0.1, 0.2], "milestones": [20]}


def test_a_value_that_stays_makes_no_milestone() -> None:
    assert continued(0.1, 20, 0.1) == 0.1
    assert continued(continued(0.1, 20, 0.12), 20, 0.1) == 0.1
    assert continued("adam", 20, "adam") == "adam"
    assert continued({"a": [1]}, 20, {"a": [2]})["values"] == [{"a": [1]}, {"a": [2]}]


RICH = Space(
    {
        "lr": loguniform(1e-4, 1e-1),
        "optimizer": choice("sgd", "adam"),
        "momentum": uniform(0, 0.99).when(optimizer="sgd"),
        "decay": exponential(0.1, gamma=choice(0.9, 0.95)),
        "warm": choice(multistep(0.1, milestones=choice([4], [6])), 0.1),
        "plans": choice(multistep(0.1, milestones=[4]), 0.1),
        "fixed": multistep(0.1, milestones=[4]),
        "units": constant([8, 8]),
        "model": {"width": randint(8, 64), "dropout": quniform(0, 0.5, 0.1)},
    }
)


def test_all_that_can_be_perturbed_is_by_default() -> None:
    assert list(perturbed_domains(RICH, None)) == ["lr", "momentum", "model.width", "model.dropout"]
    assert list(perturbed_domains(RICH, ["model.dropout", "lr"])) == ["model.dropout", "lr"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "lrr",
            r"perturb='lrr': the space has no such parameter, did you mean 'lr'\?; perturb some of 'lr', 'momentum'",
        ),
        ("width", r"did you mean 'model.width'\?"),
        ("model", "it is a group"),
        ("optimizer", "whether 'momentum' exists depends on it"),
        ("decay", "it is a sequence"),
        ("decay.gamma", "it shapes a sequence"),
        ("warm", "some of its values are sequences"),
        ("plans", "some of its values are sequences"),
        ("fixed", "it is a sequence"),
        ("units", "it is a constant"),
    ],
)
def test_what_cannot_be_perturbed_is_said_with_the_reason(name: str, words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        perturbed_domains(RICH, [name])


def test_a_space_in_which_nothing_can_be_perturbed_is_refused() -> None:
    with pytest.raises(SpaceError, match=r"No parameter of the space can be perturbed \(x: it is a constant\)"):
        perturbed_domains(Space({"x": 1}), None)
    with pytest.raises(SpaceError, match="use another scheduler"):
        perturbed_domains(Space({"x": 1}), ["x"])


def explore(space: Space, params: dict[str, Any], number: int = 0, resample: float = 0.0) -> tuple[dict[str, Any], str]:
    explorer = Explorer(space, perturbed_domains(space, None), FACTORS, resample)
    return explorer.explore(params, 20, generator(3, "test", number))


def test_what_is_not_perturbed_or_not_there_stays_as_the_donor_has_it() -> None:
    donor = RICH.sample(generator(0, "test", 1)) | {"optimizer": "adam"}
    donor.pop("momentum", None)
    found, changes = explore(RICH, donor)
    same = set(donor) - {"lr", "model"}
    assert {name: found[name] for name in same} == {name: donor[name] for name in same}
    assert "momentum" not in found
    assert current(found["lr"], 20) != donor["lr"] == current(found["lr"], 19)
    assert changes.startswith("lr 0.")
    assert "model.width" in changes


def test_constraints_hold_for_what_is_explored() -> None:
    space = Space({"a": randint(1, 9), "b": randint(1, 9)}, constraints=[lambda p: p["a"] + p["b"] == 10])
    for number in range(20):
        found, _ = explore(space, {"a": 4, "b": 6}, number)
        assert current(found["a"], 20) + current(found["b"], 20) == 10
        found, _ = explore(space, found, number)
        assert current(found["a"], 40) + current(found["b"], 40) == 10


def test_where_constraints_reject_every_change_the_values_stay() -> None:
    space = Space({"a": randint(1, 9)}, constraints=[lambda p: p["a"] == 4])
    assert explore(space, {"a": 4}) == ({"a": 4}, "keeps its values")


def test_what_is_explored_shares_nothing_with_the_donor() -> None:
    donor = {"x": 0.5, "list": [1, 2]}
    space = Space({"x": uniform(0, 1), "list": constant([1, 2])})
    found, changes = explore(space, donor)
    found["list"].append(3)
    assert donor == {"x": 0.5, "list": [1, 2]}
    assert changes in ("x 0.5 -> 0.4", "x 0.5 -> 0.6")

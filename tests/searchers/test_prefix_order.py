"""Grids of sequences: trials with the longest common beginning have neighbouring ids."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.ids import NodeKey
from asyncsearch.plan.keys import path
from asyncsearch.searchers import GridSearch
from asyncsearch.searchers.grid import depth_first
from asyncsearch.sequences import Sequence, multistep, values
from asyncsearch.space import Space, choice, randint
from asyncsearch.trial import Params
from tests.sequences.strategies import HORIZON, SEQUENCES, numbers

ROOT = NodeKey("root")


def proposals(space: Space) -> list[Params]:
    state = GridSearch().begin(space, 0)
    found: list[Params] = []
    while (params := state.propose(len(found))) is not None:
        found.append(params)
    assert state.length() == len(found)
    return found


def groups(trials: list[Params], length: int) -> list[list[Any]]:
    """Return the runs of neighbours that train the same up to ``length``, each as its keys."""
    keys = [tuple(path(ROOT, params, length)) for params in trials]
    return [list(run) for _, run in groupby(keys)]


def unique(options: list[Any]) -> list[Any]:
    """Return the options, each once as values of a choice."""
    seen: dict[str, Any] = {}
    for option in options:
        seen.setdefault(repr(option.to_json() if isinstance(option, Sequence) else float(option)), option)
    return list(seen.values())


AXES = st.lists(st.one_of(SEQUENCES, numbers), min_size=1, max_size=5).map(unique)


@settings(max_examples=60, deadline=None)
@given(AXES, AXES, st.integers(1, 3))
def test_what_trains_the_same_up_to_any_time_stands_together(first: list[Any], second: list[Any], count: int) -> None:
    trials = proposals(Space({"wd": randint(1, count), "lr": choice(first), "m": choice(second)}))
    assert len(trials) == len(first) * len(second) * count
    assert len({str(params) for params in trials}) == len(trials)
    for length in range(1, HORIZON):
        runs = groups(trials, length)
        assert len(runs) == len({run[0] for run in runs}), length


def test_later_branches_come_first_else_the_order_of_axes_stays() -> None:
    space = Space(
        {"lr": choice(multistep(1, [3]), multistep(1, [9]), 1, multistep(1, [9], 0.5), 2), "n": randint(1, 2)}
    )
    shown = [(p["n"], p["lr"]["milestones"][0] if isinstance(p["lr"], dict) else p["lr"]) for p in proposals(space)]
    assert shown == [*((1, lr) for lr in (1, 9, 9, 3)), *((2, lr) for lr in (1, 9, 9, 3)), (1, 2), (2, 2)]


def test_grids_without_sequences_stay_in_the_order_of_their_axes() -> None:
    assert [tuple(p.values()) for p in proposals(Space({"a": randint(1, 2), "b": choice("x", "y")}))] == [
        (1, "x"),
        (1, "y"),
        (2, "x"),
        (2, "y"),
    ]


def test_larger_grids_stay_in_the_order_of_their_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space({"lr": choice(1, multistep(1, [3]), multistep(1, [9])), "n": randint(1, 2)})
    walked = proposals(space)
    monkeypatch.setattr("asyncsearch.searchers.grid.MAX_WALKED", 5)
    unwalked = proposals(space)
    assert walked != unwalked
    assert sorted(map(str, walked)) == sorted(map(str, unwalked))
    assert [params["n"] for params in unwalked] == [1, 2] * 3


def test_initial_points_come_first_and_are_not_repeated() -> None:
    lr = choice(1, multistep(1, choice([3], [9])), values([1, 2], [5]))
    space = Space(
        {"lr": lr, "n": randint(1, 3)},
        constraints=[lambda params: params["n"] != 2],
        initial=[{"lr": multistep(1, [9]), "n": 3}, {"lr": {"multistep": {"milestones": [3]}}, "n": 1}],
    )
    trials = proposals(space)
    assert [params["lr"]["milestones"] for params in trials[:2]] == [[9], [3]]
    assert len({str(params) for params in trials}) == len(trials) == 8


def test_walk_asks_for_no_more_of_an_endless_sequence_than_is_shared() -> None:
    space = Space({"lr": choice(*({"sequence": "step", "value": n, "step_size": 1} for n in range(1, 400)))})
    asked = depth_first(range(399), lambda index: {"lr": space.parameters["lr"].grid(None)[index]})
    assert asked == list(range(399))

"""Random collections in ``trial.epochs(state={...})``: what training has put into them is there after restoring."""

from __future__ import annotations

import tempfile
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.errors import UsageError
from asyncsearch.trainers.state.saved_state import SavedState


class Pair(NamedTuple):
    """As the states of an optimizer that makes a new one in each step."""

    count: Any
    rest: Any


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.floats(allow_nan=False)
ARRAYS = st.integers(-9, 9).map(lambda value: np.full(2, value))
TREES = st.recursive(
    LEAVES | ARRAYS | st.sets(st.integers(), max_size=2) | st.frozensets(st.integers(), max_size=2),
    lambda part: (
        st.lists(part, max_size=3)
        | st.lists(part, max_size=3).map(deque)
        | st.lists(part, max_size=3).map(tuple)
        | st.builds(Pair, part, part)
        | st.dictionaries(st.text(max_size=2), part, max_size=3)
    ),
    max_leaves=12,
)


def built_anew(value: Any, other: Any) -> Any:
    """Return the same objects as a function makes them before its loop, with another plain value in each place."""
    if isinstance(value, np.ndarray):
        return np.zeros_like(value)
    if isinstance(value, Pair):
        return Pair(*(built_anew(part, other) for part in value))
    if isinstance(value, list | deque | tuple):
        return type(value)(built_anew(part, other) for part in value)
    if isinstance(value, dict):
        return {key: built_anew(part, other) for key, part in value.items()}
    return set() if isinstance(value, set) else other


def shown(value: Any) -> Any:
    """Return a value with the types in it, as what can be compared."""
    if isinstance(value, np.ndarray):
        return "array", value.tolist()
    if isinstance(value, list | deque | tuple):
        return type(value), [shown(part) for part in value]
    if isinstance(value, dict):
        return {key: shown(part) for key, part in value.items()}
    return type(value), value


def restored(old: Any, new: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        SavedState({"it": old}).save(Path(folder) / "checkpoint")
        SavedState({"it": new}).load(Path(folder) / "checkpoint")
    return new


@given(tree=TREES, other=LEAVES)
def test_each_value_and_its_type_are_there_after_restoring(tree: Any, other: Any) -> None:
    state = {"tree": tree}
    assert shown(restored(state, built_anew(state, other))) == shown(state)


def test_objects_in_a_tuple_stay_the_same_beside_values_that_are_put_back() -> None:
    weights = np.zeros(2)
    new = restored({"made": Pair(3, np.ones(2))}, {"made": Pair(0, weights)})
    assert new["made"].count == 3
    assert new["made"].rest is weights
    assert weights.tolist() == [1, 1]


def test_a_value_in_a_tuple_that_nothing_holds_must_be_the_saved_one() -> None:
    for same in ("net", float("nan"), frozenset("ab")):
        assert restored((same, np.ones(2)), (same, np.zeros(2)))[1].tolist() == [1, 1]
    with pytest.raises(UsageError, match=r"does not fit state\['it'\]\[0\]: it is 0 now, 3 was saved"):
        restored((3, np.ones(2)), (0, np.zeros(2)))

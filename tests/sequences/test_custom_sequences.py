"""Sequences of the user's own."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pytest

from asyncsearch.errors import SpaceError
from asyncsearch.ids import NodeKey
from asyncsearch.plan.keys import path
from asyncsearch.sequences import (
    chain,
    custom,
    custom_functions,
    custom_sequences,
    from_json,
    present,
    register,
    sequence,
    warmup,
)
from asyncsearch.space import Space, choice


def saw(time: float, height: float = 1.0, *, name_of_teeth: str = "x") -> float:
    return height * (1 - time % 1)


def tooth(time: float) -> float:
    return time


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    functions: dict[str, Any] = {}
    monkeypatch.setattr(custom_sequences._known, "present", functions)
    return functions


def test_function_gets_the_time_since_its_beginning() -> None:
    assert [custom(tooth).at(time) for time in (0, 1, 1.5)] == [0, 1, 1.5]
    assert chain([9, custom(tooth)], [4]).at(4.5) == 0.5
    assert warmup(2, custom(saw, height=4)).at(1) == 2.0


def test_it_is_one_piece_with_its_phase() -> None:
    assert [piece.start for piece in custom(saw).pieces(100)] == [0]
    early, late = (chain([9, custom(tooth)], [at]).to_json() for at in (4, 5))
    assert path(NodeKey("r"), {"lr": early}, 9)[1].node != path(NodeKey("r"), {"lr": late}, 9)[1].node
    texts = {custom(saw, **given).pieces(1)[0].formula.text for given in ({}, {"height": 2}, {"height": 2.0})}
    assert len(texts) == 3


def test_code_is_the_call_that_makes_it() -> None:
    for made in (custom(saw, height=2), custom(saw, name="other", height=2), custom(tooth)):
        assert eval(repr(made)) == made
    assert repr(custom(saw, name="other", height=2)) == "custom(saw, name='other', height=2)"


def test_decorated_function_makes_sequences() -> None:
    @sequence
    def bump(time: float, height: float) -> float:
        return height if time < 1 else 0.0

    assert bump(height=3).at(0.5) == 3
    described = bump(height=3).to_json()
    assert described.pop("code")
    assert described == {"sequence": "custom", "name": "bump", "parameters": {"height": 3}}
    with pytest.raises(SpaceError, match="cannot be called as function"):
        bump(size=3)


def test_json_finds_the_registered_function() -> None:
    described = custom(saw, height=4).to_json()
    with pytest.raises(SpaceError, match=r"no function 'saw' here: asyncsearch.sequences.register"):
        present({"lr": described}, 0)
    register({"saw": saw})
    assert present({"lr": described}, 0.25) == {"lr": 3.0}


def test_space_makes_its_functions_known_and_hands_them_out() -> None:
    space = Space(
        {
            "lr": custom(saw, height=choice(1.0, 2.0)),
            "b": choice(0.1, warmup(3, custom(tooth, name="t"), start=choice(0, 1))),
            "c": choice([{"x": custom(tooth)}]),
        }
    )
    assert custom_functions(space) == {"saw": saw, "t": tooth, "tooth": tooth}
    params = space.nest({"lr.height": 2.0, "b": 0.1, "c": {"x": custom(tooth).to_json()}})
    assert present(params, 0.5) == {"lr": 1.0, "b": 0.1, "c": {"x": 0.5}}


def test_unpickled_space_makes_its_functions_known(known: dict[str, Any]) -> None:
    data = cloudpickle.dumps(Space({"lr": choice(custom(saw), custom(tooth))}))
    known.clear()
    cloudpickle.loads(data)
    assert set(known) == {"saw", "tooth"}


def test_two_functions_of_one_name_in_a_space_are_refused() -> None:
    with pytest.raises(SpaceError, match="Two different functions of time are called 'f'"):
        Space({"a": custom(lambda time: 1, name="f"), "b": choice(custom(lambda time: 2, name="f"))})
    Space({"a": custom(saw, name="f"), "b": custom(saw, name="f", height=3)})


def test_two_functions_of_one_name_from_two_places_are_refused() -> None:
    register({"saw": saw})
    with pytest.raises(
        SpaceError,
        match=r"called 'saw' \(.*test_custom_sequences.saw and .*test_custom_sequences.tooth\): .*another name",
    ):
        register({"saw": tooth})


def test_function_that_is_defined_again_takes_the_place_of_the_former(known: dict[str, Any]) -> None:
    """A notebook's cell that was run again."""

    def make(value: float) -> Callable[[float], float]:
        return lambda time: value

    register({"f": make(1)})
    register({"f": make(2)})
    assert known["f"](0) == 2


def test_copy_of_a_function_is_the_same_function() -> None:
    assert custom_sequences.is_same(saw, cloudpickle.loads(cloudpickle.dumps(saw)))
    captured = [lambda time, k=k: k * time for k in (1, 2)]
    assert not custom_sequences.is_same(*captured)


@pytest.mark.parametrize("value", [math.nan, math.inf, [1], {"a": 1}, object(), 2**70, 1j])
def test_result_that_is_no_finite_scalar_is_refused(value: Any) -> None:
    with pytest.raises(SpaceError, match=r"The function 'f' returned .* at time 0"):
        custom(lambda time: value, name="f")


def test_function_that_raises_is_named() -> None:
    with pytest.raises(SpaceError, match=r"The function 'f' raised ZeroDivisionError: .* at 0"):
        custom(lambda time: 1 / time, name="f")


@pytest.mark.parametrize("value", [1, 1.5, "sgd", None, True])
def test_result_may_be_any_scalar(value: Any) -> None:
    assert custom(lambda time: value, name="f").at(3) == value
    assert type(custom(lambda time: np.float32(1.5), name="f").at(3)) is float


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: custom(3), r"custom\(3\) is given an int: write a function of time"),  # type: ignore[arg-type]
        (lambda: custom(lambda time: 1), "without a name"),
        (lambda: custom(saw, size=3), "cannot be called as function"),
        (lambda: custom(saw, height=saw), "is not a JSON value"),
        (lambda: custom(saw, height=custom(saw)), "is a sequence where a constant is required"),
    ],
)
def test_what_is_no_function_of_time_is_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        make()


def test_json_needs_no_function_to_be_read_and_written() -> None:
    described = {"sequence": "custom", "name": "unknown", "parameters": {"a": [1]}}
    assert from_json(described).to_json() == described
    assert len(path(NodeKey("r"), {"lr": described}, 9)) == 1
    warm = {"sequence": "warmup", "duration": 3, "then": described, "start": 0.0}
    assert from_json(warm).to_json() == warm
    with pytest.raises(SpaceError, match="no function 'unknown' here"):
        from_json(warm).at(0)


def test_sequences_pull_in_no_framework() -> None:
    heavy = "{'torch', 'pyspark', 'grpc', 'pandas'}"
    code = f"import sys, asyncsearch; asyncsearch.sequences.step(1, 3); print(*{heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []

"""Malformed sequences are refused where they are written, with the value, the rule and what to write."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from asyncsearch.errors import SpaceError
from asyncsearch.sequences import (
    chain,
    constant,
    cosine,
    cosine_restarts,
    cyclic,
    exponential,
    from_json,
    linear,
    multistep,
    polynomial,
    present,
    step,
    values,
    warmup,
)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: multistep(0.1, [135, 90]), r"\[135, 90\] is out of order: write them ascending, \[90, 135\]"),
        (lambda: multistep(0.1, [90, 90]), r"\[90, 90\] has 90 twice"),
        (lambda: multistep(0.1, [-3]), r"multistep\(milestones=...\): -3 is negative: write units of training from 1"),
        (lambda: multistep(0.1, [0]), "0 is the beginning"),
        (lambda: multistep(0.1, [90.0]), r"90.0 is a float: write 90"),  # type: ignore[list-item]
        (lambda: multistep(0.1, [90.5]), r"90.5 is a float: write a whole number"),  # type: ignore[list-item]
        (lambda: multistep(0.1, [True]), "True is a bool"),
        (lambda: multistep(0.1, ["90"]), "'90' is a str"),  # type: ignore[list-item]
        (lambda: multistep(0.1, 90), "90 is an int: write a list of whole numbers"),  # type: ignore[arg-type]
        (lambda: multistep("0.1", [90]), r"multistep\(value=...\): '0.1' is a str: write a number"),  # type: ignore[arg-type]
        (lambda: multistep(True, [90]), "True is a bool: write a number"),
        (lambda: multistep(0.1, [90], -0.1), r"multistep\(gamma=...\): -0.1 is negative: write a number from 0 on"),
        (lambda: multistep(math.inf, [9]), "inf is not finite"),
        (lambda: multistep(0.1, [9], math.nan), "nan is not finite"),
        (lambda: multistep(constant(0.1), [90]), r"constant\(0.1\) is a sequence where a constant is required"),  # type: ignore[arg-type]
        (lambda: multistep({"sequence": "step"}, [90]), "is a sequence where a constant is required"),  # type: ignore[arg-type]
        (lambda: exponential(warmup(5, 0.1), 0.9), r"warmup\(5, 0.1\) is a sequence where a constant is required"),  # type: ignore[arg-type]
        (lambda: values([0.1, step(0.1, 3)], [5]), r"is a sequence where a constant is required: chain\("),
        (lambda: values([0.1, {"lr": step(0.1, 3).to_json()}], [5]), "is a sequence where a constant is required"),
        (lambda: values([0.1], [5]), "1 values and 1 milestones: write one value more than milestones"),
        (lambda: values(0.1, [5]), "0.1 is a float: write a list of values"),  # type: ignore[arg-type]
        (lambda: values("ab", [5]), "'ab' is a str: write a list of values"),
        (lambda: values([math.nan], []), "nan is not finite"),
        (lambda: values([object()], []), "is not a JSON value"),
        (lambda: constant(step(0.1, 3)), r"constant\(value=...\): step\(0.1, step_size=3\) is a sequence"),
        (lambda: step(0.1, 0), "0 is less than one unit: write a whole number from 1 on"),
        (lambda: linear(0.1, total=-5), "-5 is less than one unit"),
        (lambda: linear(0.1, total=2.5), "2.5 is a float"),  # type: ignore[arg-type]
        (lambda: polynomial(0.1, 5, power=0), "0 is not above 0: write a positive number"),
        (lambda: cosine(0.1, "long"), "'long' is a str"),  # type: ignore[arg-type]
        (lambda: cosine_restarts(0.1, 5, 0), r"cosine_restarts\(T_mult=...\): 0 is less than one unit"),
        (lambda: cosine_restarts(0.1, 5, 1.5), "1.5 is a float"),  # type: ignore[arg-type]
        (lambda: cyclic(0, 1, up=0), r"cyclic\(up=...\): 0 is less than one unit"),
        (lambda: cyclic(0, 1, up=3, mode="saw"), "'saw' is unknown: write one of 'triangular'"),  # type: ignore[arg-type]
        (lambda: cyclic(0, 1, up=3, gamma=0), "0 is not above 0"),
        (lambda: warmup(-1, 0.1), "-1 is negative: write a whole number from 0 on"),
        (lambda: warmup(5, "adam"), r"'adam'\) begins with 'adam', a str: only numbers can be warmed up to"),
        (lambda: warmup(5, values(["a", "b"], [9])), "only numbers can be warmed up to"),
        (lambda: chain([0.1, 0.2], [5, 6]), "2 parts and 2 boundaries: write one part more"),
        (lambda: chain([0.1, 0.2], [0]), "0 is the beginning"),
        (lambda: chain(step(0.1, 3), [5]), "write a list of sequences"),  # type: ignore[arg-type]
        (lambda: linear(10**400, 5), "does not fit|too large"),
    ],
)
def test_malformed_sequence_is_refused(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        make()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"sequence": "cosin", "value": 1}, "There is no sequence 'cosin'; the kinds are chain, constant, cosine"),
        ({"sequence": "step", "value": 1, "size": 3}, "step has no argument 'size': it has value, step_size, gamma"),
        ({"sequence": "step", "value": 1}, "lacks 'step_size': step has value, step_size, gamma"),
        ({"sequence": "multistep", "value": 1, "milestones": [9, 3]}, "out of order"),
        ({"sequence": "warmup", "duration": 5, "then": {"sequence": "stpe"}}, "no sequence 'stpe'"),
        ({"sequence": 3}, "is not a sequence"),
        (0.1, "0.1 is not a sequence"),
    ],
)
def test_malformed_json_is_refused(value: Any, words: str) -> None:
    with pytest.raises(SpaceError, match=words):
        from_json(value)
    if isinstance(value, dict) and value["sequence"] != 3:
        with pytest.raises(SpaceError, match=words):
            present({"lr": value}, 0)


@pytest.mark.parametrize(
    ("sequence", "last"), [(step(1.0, 1, 10), 308), (exponential(1.0, 10), 308), (multistep(1e300, [5], 1e9), 4)]
)
def test_piece_that_is_not_finite_is_refused_where_training_reaches_it(sequence: Any, last: int) -> None:
    assert sequence.pieces(last + 1)
    sequence.at(last)
    with pytest.raises(SpaceError, match=r"not finite at|too large for a number"):
        sequence.at(last + 1)
    with pytest.raises(SpaceError, match=r"not finite at|too large for a number"):
        sequence.pieces(last + 2)


@pytest.mark.parametrize("time", [-1, -0.5, math.inf, math.nan])
def test_time_that_is_none_is_refused(time: float) -> None:
    with pytest.raises(SpaceError, match="has no value at time"):
        step(0.1, 3).at(time)


def test_numbers_of_numpy_are_plain_afterwards() -> None:
    gamma: Any = np.float32(0.5)
    time: Any = np.int64(3)
    sequence = multistep(np.float64(0.1), np.array([3, 5]), gamma)
    assert sequence == multistep(0.1, [3, 5], 0.5)
    assert type(sequence.at(time)) is float


def test_json_may_leave_out_what_has_a_default() -> None:
    assert from_json({"sequence": "step", "value": 0.1, "step_size": 3}) == step(0.1, 3)

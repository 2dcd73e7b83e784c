"""Each kind of sequence: its values, against formulas written anew and against torch's schedulers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from asyncsearch.sequences import (
    Sequence,
    chain,
    constant,
    cosine,
    cosine_restarts,
    cyclic,
    exponential,
    linear,
    multistep,
    polynomial,
    step,
    values,
    warmup,
)
from asyncsearch.sequences.cycles import MAX_PIECES


def first(sequence: Sequence, count: int) -> list[Any]:
    return [sequence.at(time) for time in range(count)]


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        (constant("sgd"), ["sgd"] * 4),
        (values([1, 2.5, "x"], milestones=[1, 3]), [1, 2.5, 2.5, "x"]),
        (values([[1, 2], None, True], milestones=[1, 2]), [[1, 2], None, True, True]),
        (multistep(0.1, milestones=[1, 3]), [0.1, 0.01, 0.01, 0.001]),
        (step(0.1, 2), [0.1, 0.1, 0.01, 0.01, 0.001]),
        (exponential(0.5, 0.5), [0.5, 0.25, 0.125]),
        (linear(0.4, total=4), [0.4, 0.3, 0.2, 0.1, 0.0, 0.0]),
        (linear(0.1, total=2, end=0.3), [0.1, 0.2, 0.3, 0.3]),
        (polynomial(1, total=2, power=2), [1.0, 0.25, 0.0, 0.0]),
        (cosine(1, total=2), [1.0, 0.5, 0.0, 0.0]),
        (cosine_restarts(1, T_0=2), [1.0, 0.5, 1.0, 0.5]),
        (cosine_restarts(1, T_0=1, T_mult=2, eta_min=0.5), [1.0, 1.0, 0.75, 1.0]),
        (cyclic(0, 1, up=2), [0.0, 0.5, 1.0, 0.5, 0.0, 0.5]),
        (cyclic(0, 1, up=1, down=4), [0.0, 1.0, 0.75, 0.5, 0.25, 0.0, 1.0]),
        (cyclic(0.95, 0.85, up=1), [0.95, 0.85, 0.95]),
        (cyclic(0, 1, up=1, mode="triangular2"), [0.0, 1.0, 0.0, 0.5, 0.0, 0.25]),
        (cyclic(0, 1, up=1, mode="exp_range", gamma=0.5), [0.0, 0.5, 0.0, 0.125]),
        (warmup(2, 0.1), [0.0, 0.05, 0.1, 0.1]),
        (warmup(2, exponential(0.1, 0.5), start=0.05), [0.05, 0.075, 0.1, 0.05]),
        (warmup(0, 0.1), [0.1, 0.1]),
        (chain([1, exponential(0.5, 0.5)], boundaries=[2]), [1, 1, 0.5, 0.25]),
        (chain([linear(1, 2), cosine(1, 2), "x"], boundaries=[1, 2]), [1.0, 1.0, "x"]),
    ],
)
def test_values_at_the_beginnings_of_units(sequence: Sequence, expected: list[Any]) -> None:
    found = first(sequence, len(expected))
    assert found == pytest.approx(expected, abs=1e-16) if sequence.kind != "values" else found == expected
    assert [type(value) for value in found] == [type(value) for value in expected]


@pytest.mark.parametrize(
    ("sequence", "time", "value"),
    [
        (multistep(0.1, [3]), 2.999999, 0.1),
        (multistep(0.1, [3]), 3.0, 0.01),
        (exponential(0.5, 0.5), 1.9, 0.25),
        (linear(1, 4), 0.5, 0.875),
        (warmup(4, 0.1), 1.5, 0.0375),
        (cosine(1, 2), 0.5, (1 + math.cos(math.pi / 4)) / 2),
        (cyclic(0, 1, up=2), 2.5, 0.75),
        (cyclic(0, 1, up=1, mode="exp_range", gamma=0.5), 0.5, 0.5 * 0.5**0.5),
    ],
)
def test_values_inside_a_unit(sequence: Sequence, time: float, value: float) -> None:
    assert sequence.at(time) == pytest.approx(value, rel=1e-15)


def test_products_are_exact_decimals_and_ints_stay_ints() -> None:
    assert first(multistep(0.1, [1, 2, 3]), 4) == [0.1, 0.01, 0.001, 0.0001]
    assert 0.1 * 0.1 != 0.01
    sizes = first(multistep(128, [1, 2], gamma=2), 3)
    assert sizes == [128, 256, 512]
    assert all(isinstance(size, int) for size in sizes)
    halved = first(multistep(2, [1, 2], gamma=0.5), 3)
    assert list(map(type, halved)) == [int, int, float]


def test_endless_sequences_are_right_behind_their_own_pieces_too() -> None:
    far = 3 * MAX_PIECES
    assert step(1.0, 2, 0.5).at(2 * far + 1) == 0.5**far
    assert cyclic(0, 1, up=2).at(4 * far + 3) == 0.5
    assert cosine_restarts(1, T_0=2).at(2 * far + 1) == pytest.approx(0.5)
    for sequence in (step(1.0, 2, 0.5), cyclic(0, 1, up=2), cosine_restarts(1, T_0=2), cosine_restarts(1, 2, 2)):
        assert len(sequence.pieces(2**62)) <= MAX_PIECES + 1


def test_sequence_does_not_depend_on_when_it_is_asked() -> None:
    asked_backwards, asked_once = (warmup(3, cosine_restarts(0.1, 4, 2)) for _ in range(2))
    backwards = [asked_backwards.at(time) for time in reversed(range(40))]
    assert backwards[::-1] == first(asked_once, 40)


TORCH: list[tuple[Sequence, float, Callable[[Any, Any], Any]]] = [
    (multistep(0.1, [3, 7], 0.5), 0.1, lambda lr, o: lr.MultiStepLR(o, [3, 7], 0.5)),
    (step(0.1, 4, 0.3), 0.1, lambda lr, o: lr.StepLR(o, 4, 0.3)),
    (exponential(0.1, 0.9), 0.1, lambda lr, o: lr.ExponentialLR(o, 0.9)),
    (linear(0.1, 8, 0.02), 0.1, lambda lr, o: lr.LinearLR(o, 1.0, 0.2, 8)),
    (polynomial(0.1, 8, 2), 0.1, lambda lr, o: lr.PolynomialLR(o, 8, 2)),
    (cosine_restarts(0.1, 5, 2, 0.01), 0.1, lambda lr, o: lr.CosineAnnealingWarmRestarts(o, 5, 2, 0.01)),
    *(
        (
            cyclic(0.01, 0.1, up=4, down=6, mode=mode, gamma=0.9),
            0.01,
            lambda lr, o, mode=mode: lr.CyclicLR(
                o, 0.01, 0.1, 4, 6, mode=mode, gamma=0.9 if mode == "exp_range" else 1.0, cycle_momentum=False
            ),
        )
        for mode in ("triangular", "triangular2", "exp_range")
    ),
]


@pytest.mark.parametrize(("sequence", "lr", "scheduler"), TORCH, ids=lambda value: getattr(value, "kind", None))
def test_each_is_what_torch_calls_by_that_name(
    sequence: Sequence, lr: float, scheduler: Callable[[Any, Any], Any]
) -> None:
    torch = pytest.importorskip("torch")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stepped = scheduler(torch.optim.lr_scheduler, optimizer)
        for time in range(30):
            assert sequence.at(time) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9, abs=1e-15), time
            optimizer.step()
            stepped.step()

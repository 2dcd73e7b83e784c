"""Each member of a pack equals its own training, for every optimizer and every kind of layer."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from asyncsearch.packing import Member, pack
from tests.packing.alone import clone, largest, step_alone
from tests.packing.models import CLASSES, FEATURES, MODELS, OPTIMIZERS, WHOLE, batch, member
from tests.shares import names

nn: Any = torch.nn

BATCHES = [batch(number) for number in range(40)]


@pytest.mark.parametrize("optimizer", names(tuple(OPTIMIZERS), ["adam"]))
@pytest.mark.parametrize("kind", WHOLE)
def test_each_member_equals_its_own_training_after_200_steps(kind: str, optimizer: str) -> None:
    assert trained(kind, optimizer, steps=200, count=2) < 1e-9


@pytest.mark.parametrize("optimizer", names(tuple(OPTIMIZERS), ["adam"]))
def test_members_of_own_batch_sizes_that_come_and_go_equal_training_alone(
    optimizer: str,
) -> None:
    sizes = (7, 3, 5)
    members = [member("unmixed", optimizer, number, batch_size=size) for number, size in enumerate(sizes)]
    alone = [clone(one) for one in members]
    packed = pack(members[:2])
    for step in range(240):
        if step == 40:
            packed.join(members[2])
        if step in (80, 120):  # a smaller batch leads, and the others stay or come back
            packed.leave(members[0]) if step == 80 else packed.join(members[0])
        packed.step(BATCHES[step % len(BATCHES)])
        for one in packed.members:
            place = members.index(one)
            x, y = BATCHES[step % len(BATCHES)]
            step_alone(alone[place], (x[: sizes[place]], y[: sizes[place]]))
    assert [one.taken for one in members] == [200, 240, 200]
    packed.free()
    assert largest(list(zip(members, alone, strict=True))) < 1e-9


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", MODELS)
def test_each_layer_and_each_optimizer_equal_their_own_training(kind: str, optimizer: str) -> None:
    assert trained(kind, optimizer, steps=8) < 1e-12


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", MODELS)
def test_one_step_in_single_precision_differs_by_rounding_only(kind: str, optimizer: str) -> None:
    assert trained(kind, optimizer, steps=1, dtype=torch.float32) < 1e-6


def perturbed(model: Any, given: Any) -> Any:
    """The loss of slightly other weights, as sharpness-aware and meta-learning losses compute it."""
    x, y = given
    others = {name: weight * 1.001 for name, weight in model.named_parameters()}
    kept = {name: buffer.clone() for name, buffer in model.named_buffers()}
    found = torch.func.functional_call(model, {**others, **kept}, (x,))
    return nn.functional.cross_entropy(found, y) + nn.functional.cross_entropy(model(x), y)


def test_a_loss_that_calls_the_model_with_other_weights_gets_its_result() -> None:
    members = []
    for number in range(3):
        torch.manual_seed(number)
        model = nn.Sequential(nn.Linear(FEATURES, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, CLASSES)).double()
        members.append(Member(model, torch.optim.SGD(model.parameters(), 0.1), perturbed))
    alone = [clone(one) for one in members]
    packed = pack(members)
    for given in BATCHES[:8]:
        assert packed.step(given).tolist() == pytest.approx([step_alone(one, given) for one in alone], abs=1e-9)
    packed.free()
    assert largest(list(zip(members, alone, strict=True))) < 1e-12


def trained(kind: str, optimizer: str, steps: int, dtype: Any = torch.float64, count: int = 3) -> float:
    """Train members together and alone, and return the largest difference between their states."""
    members = [member(kind, optimizer, number, dtype) for number in range(count)]
    alone = [clone(one) for one in members]
    packed = pack(members)
    numbers = ", ".join(map(str, range(count)))
    assert packed.describe() == [f"Members {numbers} train as one computation."]
    for step in range(steps):
        x, y = BATCHES[step % len(BATCHES)]
        shared = x.to(dtype), y
        losses = packed.step(shared)
        expected = [step_alone(one, shared) for one in alone]
        assert losses.tolist() == pytest.approx(expected, abs=1e-9 if dtype == torch.float64 else 1e-6)
    packed.free()
    return largest(list(zip(members, alone, strict=True)))

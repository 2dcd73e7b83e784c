"""Members in mixed precision equal their own training, each with the scale of its own gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asyncsearch.errors import UsageError
from asyncsearch.packing import Member, pack, probe, why_not
from asyncsearch.packing.member import GradientScales
from tests.packing.alone import clone, difference, largest, state_of, step_alone
from tests.packing.models import CLASSES, FEATURES, batch, member

nn: Any = torch.nn
TOLERANCES = {"float16": 2e-3, "bfloat16": 3e-2}
"""After 6 steps, of weights about 1: a few roundings of 2 ** -11 and of 2 ** -8."""


def scaler(scale: float = 2.0**10, **options: Any) -> Any:
    return torch.amp.GradScaler("cpu", init_scale=scale, **options)


def half(kind: str, optimizer: str, number: int, precision: str = "float16", **more: Any) -> Member:
    scaling = {"scaler": scaler()} if precision == "float16" else {}
    return member(kind, optimizer, number, torch.float32, precision=precision, **scaling | more)


def single(step: int, count: int = 7) -> Any:
    return batch(step, count, torch.float32)


def gap(members: list[Member], batches: list[Any]) -> float:
    """Train members together and alone, and return the largest difference between their losses and states."""
    alone, found = [clone(one) for one in members], 0.0
    packed = pack(members)
    assert len(packed.describe()) == 1
    for one in batches:
        losses, expected = packed.step(one), [step_alone(each, one) for each in alone]
        found = max(found, *(abs(a - b) for a, b in zip(losses.tolist(), expected, strict=True)))
    packed.free()
    return max(found, largest(list(zip(members, alone, strict=True))))


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("kind", ["linear", "conv", "batch_norm", "dropout", "layer_norm", "written", "known"])
def test_each_layer_equals_its_own_training_under_autocast(kind: str, optimizer: str, precision: str) -> None:
    members = [half(kind, optimizer, number, precision) for number in range(3)]
    assert gap(members, [single(step) for step in range(6)]) < TOLERANCES[precision]


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("kind", ["linear", "written", "layer_norm"])
def test_the_loss_of_a_pack_is_computed_in_half_precision(kind: str, precision: str) -> None:
    members = [half(kind, "sgd", number, precision, generator=None) for number in range(2)]
    for one in members:
        one.model.eval()
    x, y = single(0)
    wide = 16 * x, y
    exact = [one.loss(one.model, wide).item() for one in members]
    expected = [step_alone(clone(one), wide) for one in members]
    losses = pack(members).step(wide).tolist()
    rounding = [abs(a - b) for a, b in zip(exact, expected, strict=True)]
    assert all(abs(a - b) < max(1e-6, one / 10) for a, b, one in zip(losses, expected, rounding, strict=True))
    assert max(rounding) > 1e-5


class Layers(nn.Module):  # type: ignore[misc]
    """Layers that ``vmap`` computes, among them norms whose weights have another dtype than their input."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.one, self.norm, self.two = nn.Linear(FEATURES, 4), norm, nn.Linear(4, CLASSES)

    def forward(self, x: Any) -> Any:
        return self.two(nn.functional.prelu(self.norm(self.one(x)), torch.tensor(0.2)))


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(4), nn.LayerNorm(4), nn.GroupNorm(1, 4)])
def test_norms_in_a_written_forward_are_packed_under_autocast(norm: Any) -> None:
    members = []
    for number in range(2):
        torch.manual_seed(number)
        model = Layers(norm)
        nn.init.normal_(model.norm.weight)
        made = Member(model, torch.optim.SGD(model.parameters(), 0.05), precision="float16", scaler=scaler())
        members.append(clone(made))
    assert why_not(members, single(0)) is None
    assert gap(members, [single(step) for step in range(4)]) < TOLERANCES["float16"]


def in_half(model: Any, inputs: Any) -> Any:
    with torch.autocast("cpu", dtype=torch.float16):
        return nn.functional.cross_entropy(model(inputs[0]), inputs[1])


def squares(model: Any, inputs: Any) -> Any:
    """Return a loss that has half precision itself."""
    return (model(inputs[0]) - 1.0).square().mean()


@pytest.mark.parametrize(("loss", "options"), [(in_half, {"precision": None}), (squares, {})])
def test_losses_may_enter_autocast_and_may_be_halves(loss: Any, options: dict[str, Any]) -> None:
    members = [half("written", "sgd", number, **{"loss": loss} | options) for number in range(2)]
    assert gap(members, [single(step) for step in range(4)]) < TOLERANCES["float16"]


def means(model: Any, inputs: Any) -> Any:
    return nn.functional.cross_entropy(model(inputs[0]), inputs[1], reduction="none")


def mean(model: Any, inputs: Any) -> Any:
    return means(model, inputs).mean()


@pytest.mark.parametrize("more", [{}, {"loss": mean, "sample_losses": means}])
def test_padded_batches_are_packed_under_autocast(more: dict[str, Any]) -> None:
    members = [half("dropout", "adamw", number, **more) for number in range(2)]
    alone, sizes = [clone(one) for one in members], (4, 7)
    packed = pack(members)
    for step in range(4):
        batches = [single(step, size) for size in sizes]
        packed.step_each(batches)
        for one, its in zip(alone, batches, strict=True):
            step_alone(one, its)
    packed.free()
    assert largest(list(zip(members, alone, strict=True))) < TOLERANCES["float16"]


@given(
    overflows=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30),
    scale=st.sampled_from([1.0, 65536.0, 2.0**127, 2.0**-149, 12345.5]),
    growth=st.sampled_from([2.0, 1.7, 1e10]),
    backoff=st.sampled_from([0.5, 0.3]),
    interval=st.integers(1, 4),
)
def test_scales_change_by_the_rule_of_torch(
    overflows: list[tuple[bool, bool]], scale: float, growth: float, backoff: float, interval: int
) -> None:
    options = {"growth_factor": growth, "backoff_factor": backoff, "growth_interval": interval}
    expected, given_to = ([scaler(scale, **options), scaler()] for _ in range(2))
    scales = GradientScales(given_to)
    weights = [torch.zeros(2, requires_grad=True) for _ in expected]
    optimizers = [torch.optim.SGD([weight], 1.0) for weight in weights]
    for flags in overflows:
        grads = torch.tensor([[1.5, float("inf") if flag else -3.0] for flag in flags])
        for one, weight, optimizer, grad in zip(expected, weights, optimizers, grads, strict=True):
            one.scale(torch.ones(()))
            weight.grad = grad.clone()
            one.unscale_(optimizer)
            grad.copy_(weight.grad)
            one.step(optimizer)
            one.update()
        own = torch.tensor([[1.5, float("inf") if flag else -3.0] for flag in flags])
        found = scales.unscale(own)
        assert found.tolist() == list(flags)
        assert torch.equal(own.nan_to_num(), grads.nan_to_num())
        scales.update(found)
    for row in range(2):
        scales.write(row)
    assert [one.state_dict() for one in given_to] == [one.state_dict() for one in expected]


def spoiled(step: int) -> Any:
    """Return a batch with a number that makes the gradient infinite."""
    x, y = batch(step)
    return x.index_fill(0, torch.tensor([0]), float("inf")), y


@pytest.mark.parametrize("first", [0, 2], ids=["before its first step", "after some"])
@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("optimizer", ["sgd", "nesterov", "adam", "adamw", "rmsprop", "adagrad"])
def test_a_member_that_overflows_alone_skips_its_step_and_halves_its_scale(
    optimizer: str, clip: float | None, first: int
) -> None:
    """In double precision, which autocast leaves as it is: so the rule shows to the last digits."""
    members = [
        member("linear", optimizer, number, scaler=scaler(8.0, growth_interval=3), clip_grad_norm=clip)
        for number in range(3)
    ]
    alone = [clone(one) for one in members]
    packed = pack(members)
    for step in range(6):
        batches = [spoiled(step) if number == 1 and first <= step < first + 2 else batch(step) for number in range(3)]
        before = packed.member_state(1)
        packed.step_each(batches)
        after = packed.member_state(1)
        if batches[1] is not batches[0] and step in (first, first + 1):
            assert difference(before["optimizer"], after["optimizer"]) == 0
            assert difference(before["model"], after["model"]) == 0
            assert after["scaler"]["scale"] == before["scaler"]["scale"] / 2
        for one, its in zip(alone, batches, strict=True):
            step_alone(one, its)
        assert [packed.member_state(n)["scaler"] for n in range(3)] == [one.scaler.state_dict() for one in alone]
    packed.free()
    assert [one.scaler.get_scale() for one in members] == [32.0, 2.0 if first else 4.0, 32.0]
    assert largest(list(zip(members, alone, strict=True))) < 1e-12


def test_scales_go_with_the_members_that_leave_join_and_are_loaded() -> None:
    members = [
        member("linear", "adam", number, scaler=scaler(8.0 * (1 + number), growth_interval=2)) for number in range(3)
    ]
    kept, kept_alone = {}, members[0]
    alone = [clone(one) for one in members]
    packed = pack(members[:2])
    for step in range(6):
        if step == 1:
            packed.join(members[2])
        if step == 2:
            kept, kept_alone = packed.member_state(0), clone(alone[0])
        if step == 3:
            packed.leave(members[1])
        if step == 4:
            packed.load_member_state(0, kept)
            alone[0] = kept_alone
        if step == 5:
            packed.join(members[1])
        shared = spoiled(step) if step == 1 else batch(step)
        packed.step(shared)
        for number, one in enumerate(alone):
            if members[number] in packed.members:
                step_alone(one, shared)
    packed.free()
    for one, other in zip(members, alone, strict=True):
        assert difference({**state_of(one), "taken": 0}, {**state_of(other), "taken": 0}) < 1e-12


def test_members_of_different_precision_train_beside_each_other() -> None:
    members = [half("linear", "sgd", 0), half("linear", "sgd", 1, "bfloat16"), half("linear", "sgd", 2, scaler=None)]
    alone = [clone(one) for one in members]
    words = why_not(members)
    assert words is not None
    assert "precision is float16 in one and bfloat16 in the other" in words
    assert why_not([members[0], members[2]]) == "members 0 and 1 differ: only one of them has a gradient scaler"
    packed = pack(members)
    packed.step(single(0))
    for one in alone:
        step_alone(one, single(0))
    assert largest(list(zip(members, alone, strict=True))) == 0


class OwnRule(torch.amp.GradScaler):  # type: ignore[misc]
    pass


def test_what_of_mixed_precision_cannot_be_packed_is_refused_by_name() -> None:
    other = why_not([half("linear", "sgd", 0, scaler=OwnRule("cpu")), half("linear", "sgd", 1)])
    assert other is not None
    assert "OwnRule, whose rule is its own: use torch.amp.GradScaler" in other
    halves = why_not([member("linear", "sgd", number, torch.float16, scaler=scaler()) for number in range(2)])
    assert halves is not None
    assert "'0.weight' is float16, whose gradient torch does not unscale" in halves
    one = scaler()
    with pytest.raises(UsageError, match="two members have the same scaler"):
        pack([half("linear", "sgd", number, scaler=one) for number in range(2)])
    with pytest.raises(UsageError, match="precision='half' of a member is unknown"):
        member("linear", "sgd", 0, precision="half")


def test_trying_members_makes_a_step_although_first_scales_are_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    members = [half("linear", "sgd", number, scaler=scaler(2.0**40)) for number in range(2)]
    before = [clone(one) for one in members]
    seen: list[Any] = []

    def spy(expected: Any, found: Any, least: float) -> str | None:
        seen.append(found)
        return first_difference(expected, found, least)

    first_difference = probe._first_difference
    monkeypatch.setattr(probe, "_first_difference", spy)
    assert why_not(members, single(0)) is None
    assert bool((seen[0] != seen[1]).all()), "the second loss shows the update"
    assert largest(list(zip(members, before, strict=True))) == 0

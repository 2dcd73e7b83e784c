"""What differs from member to member, and what happens when members come, go and diverge."""

from __future__ import annotations

import contextlib
import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from asyncsearch.errors import UsageError
from asyncsearch.packing import Member, Pack, free, load, pack
from tests.packing.alone import clone, difference, largest, state_of, step_alone
from tests.packing.models import FEATURES, batch, linear, member

nn: Any = torch.nn
CLOSE = 1e-12


def packed_and_alone(members: list[Member], steps: int = 6, batches: Callable[[int], Any] = batch) -> float:
    """Train members both ways on shared batches, and return the largest difference."""
    alone = [clone(one) for one in members]
    packed = pack(members)
    assert len(packed.describe()) == 1
    for step in range(steps):
        packed.step(batches(step))
        for one in alone:
            step_alone(one, batches(step))
    packed.free()
    return largest(list(zip(members, alone, strict=True)))


def edited(change: Callable[[Any], None], kind: str = "linear", optimizer: str = "sgd") -> list[Member]:
    """Return two members whose models were changed before their optimizers were made."""
    members = [member(kind, optimizer, number) for number in (0, 1)]
    for one in members:
        change(one.model)
        settings = {k: v for k, v in one.optimizer.param_groups[0].items() if k in ("lr", "momentum", "weight_decay")}
        one.optimizer = type(one.optimizer)(one.model.parameters(), **settings)
    return members


def test_no_gradient_is_divided_by_the_number_of_members() -> None:
    """The mean over members instead of their sum makes each step 1/K as long."""
    members = [member(number=0), clone(member(number=0)), clone(member(number=0))]
    before = copy.deepcopy(members[0].model.state_dict())
    lone = clone(members[0])
    with pack(members) as packed:
        packed.step(batch(0))
    step_alone(lone, batch(0))
    step = {name: value - before[name] for name, value in lone.model.state_dict().items()}
    for one in members:
        found = {name: value - before[name] for name, value in one.model.state_dict().items()}
        assert difference(found, step) < CLOSE


def test_members_may_have_batches_of_their_own() -> None:
    members = [member("known", "adam", number) for number in range(3)]
    alone = [clone(one) for one in members]
    with pack(members) as packed:
        for step in range(4):
            batches = [batch(10 * step + number) for number in range(3)]
            losses = packed.step_each(batches)
            expected = [step_alone(one, given) for one, given in zip(alone, batches, strict=True)]
            assert losses.tolist() == pytest.approx(expected)
    assert largest(list(zip(members, alone, strict=True))) < CLOSE


@pytest.mark.parametrize("kind", ["dropout", "layer_norm", "attention", "embedding"])
@pytest.mark.parametrize("is_shared", [True, False])
def test_smaller_batches_are_padded_and_the_padding_does_not_count(kind: str, is_shared: bool) -> None:
    sizes = (2, 7, 5)
    members = [member(kind, "sgd", number, batch_size=size) for number, size in enumerate(sizes)]
    alone = [clone(one) for one in members]
    with pack(members) as packed:
        for step in range(4):
            given = [batch(step)] * 3 if is_shared else [batch(10 * step + number) for number in range(3)]
            packed.step(given[0]) if is_shared else packed.step_each(given)
            for one, (x, y), size in zip(alone, given, sizes, strict=True):
                step_alone(one, (x[:size], y[:size]))
    assert largest(list(zip(members, alone, strict=True))) < CLOSE


def test_sample_losses_allow_padding_where_the_loss_is_ones_own() -> None:
    def loss(model: Any, given: Any) -> Any:
        return sample_losses(model, given).mean()

    def sample_losses(model: Any, given: Any) -> Any:
        return (model(given["x"]).sum(1) - given["x"][:, 0]) ** 2

    members = [
        member(number=number, loss=loss, sample_losses=sample_losses, batch_size=3 + number) for number in range(3)
    ]
    alone = [clone(one) for one in members]
    with pack(members) as packed:
        packed.step({"x": batch(0)[0]})
    for one in alone:
        step_alone(one, {"x": batch(0)[0][: one.batch_size]})
    assert largest(list(zip(members, alone, strict=True))) < CLOSE


def test_classes_that_cross_entropy_ignores_are_ignored() -> None:
    def some_ignored(step: int) -> Any:
        x, y = batch(step)
        return x, torch.where(torch.arange(len(y)) % 3 == step % 3, -100, y)

    assert packed_and_alone([member(number=number) for number in range(2)], batches=some_ignored) < CLOSE


def test_probabilities_may_be_the_targets() -> None:
    def soft(step: int) -> Any:
        return batch(step)[0], batch(step + 1)[0][:, :3].softmax(1)

    assert packed_and_alone([member(number=number) for number in range(2)], batches=soft) < CLOSE


def test_each_member_is_clipped_by_its_own_norm() -> None:
    members = [member(number=number, clip_grad_norm=clip) for number, clip in enumerate((0.05, None, 0.3))]
    assert packed_and_alone(members) < CLOSE


def test_a_norm_that_overflows_changes_only_a_member_that_is_clipped() -> None:
    def steep(model: Any, given: Any) -> Any:
        return 1e30 * nn.functional.cross_entropy(model(given[0]), given[1])

    members = [
        member("linear", "nesterov", number, torch.float32, clip_grad_norm=clip, loss=steep)
        for number, clip in enumerate((None, 1.0))
    ]
    alone = [clone(one) for one in members]
    with pack(members) as packed:
        packed.step(batch(0, dtype=torch.float32))
    for one in alone:
        step_alone(one, batch(0, dtype=torch.float32))
    for one, other in zip(members, alone, strict=True):
        for mine, theirs in zip(one.model.parameters(), other.model.parameters(), strict=True):
            assert mine.isfinite().all()
            assert torch.allclose(mine, theirs, rtol=1e-5)


def test_learning_rates_that_change_between_steps_are_followed() -> None:
    members = [member(optimizer="adam", number=number) for number in range(3)]
    alone = [clone(one) for one in members]
    with pack(members) as packed:
        for step in range(6):
            for number, one in enumerate([*members, *alone]):
                one.optimizer.param_groups[0]["lr"] = 0.01 * (1 + step) * (1 + number % 3)
                one.optimizer.param_groups[0]["betas"] = (0.9 - 0.01 * step, 0.99)
            packed.step(batch(step))
            for one in alone:
                step_alone(one, batch(step))
    assert largest(list(zip(members, alone, strict=True))) < CLOSE


def test_momentum_may_begin_and_end() -> None:
    members = [member(number=number) for number in range(3)]
    alone = [clone(one) for one in members]
    with pack(members) as packed:
        for step in range(8):
            for one in (*members, *alone):
                one.optimizer.param_groups[0]["momentum"] = (0.0, 0.0, 0.9, 0.9, 0.0, 0.0, 0.5, 0.5)[step]
            packed.step(batch(step))
            for one in alone:
                step_alone(one, batch(step))
    assert largest(list(zip(members, alone, strict=True))) < CLOSE


def test_a_scheduler_of_torch_may_be_attached() -> None:
    members = [member(number=number) for number in range(2)]
    alone = [clone(one) for one in members]
    schedules = [torch.optim.lr_scheduler.ExponentialLR(one.optimizer, 0.5) for one in (*members, *alone)]
    with warnings.catch_warnings(), pack(members) as packed:
        warnings.simplefilter("error")  # torch warns of a scheduler that steps before its optimizer
        for step in range(4):
            packed.step(batch(step))
            for one in alone:
                step_alone(one, batch(step))
            for schedule in schedules:
                schedule.step()
    weights = [state_of(one)["model"] for one in (*members, *alone)]
    assert difference(weights[:2], weights[2:]) < CLOSE


def test_the_p_of_dropout_may_change_between_steps() -> None:
    members = [member("dropout", number=number) for number in range(2)]
    alone = [clone(one) for one in members]
    with pack(members) as packed:
        for step, rate in enumerate((0.1, 0.0, 1.0, 0.5)):
            for one in (*members, *alone):
                one.model[2].p = rate
            packed.step(batch(step))
            for one in alone:
                step_alone(one, batch(step))
    assert largest(list(zip(members, alone, strict=True))) < CLOSE


@pytest.mark.parametrize("kind", ["known", "written"])
def test_members_leave_and_join_with_their_state(kind: str) -> None:
    members = [member(kind, "adam", number) for number in (0, 1, 2, 1)]
    members[3].generator = torch.Generator().manual_seed(5)
    alone = [clone(one) for one in members]
    packed = pack(members[:3])
    present = [0, 1, 2]
    for step in range(8):
        if step == 2:
            assert packed.leave(1) is members[1]
            present.remove(1)
        if step == 4:
            packed.join(members[3], members[1])
            present += [3, 1]
        packed.step(batch(step))
        for number in present:
            step_alone(alone[number], batch(step))
        assert packed.members == [members[number] for number in present]
    packed.free()
    assert largest(list(zip(members, alone, strict=True))) < CLOSE


def test_a_member_that_leaves_between_steps_keeps_its_generators_place() -> None:
    members = [member("dropout", number=number) for number in range(3)]
    alone = [clone(one) for one in members]
    packed = pack(members)
    packed.step(batch(0))
    left = packed.leave(members[2])
    step_alone(alone[2], batch(0))
    step_alone(left, batch(1))
    step_alone(alone[2], batch(1))
    assert difference(state_of(left), state_of(alone[2])) < CLOSE


def test_members_leave_when_their_steps_are_done() -> None:
    members = [member(number=number, steps=steps) for number, steps in enumerate((1, 3, 2))]
    alone = [clone(one) for one in members]
    packed = pack(members)
    counts: list[int] = []
    while packed.members:
        counts.append(len(packed.step(batch(len(counts)))))
    assert counts == [3, 2, 1]
    assert packed.left == [members[0], members[2], members[1]]
    for one in alone:
        for step in range(one.steps or 0):
            step_alone(one, batch(step))
    assert largest(list(zip(members, alone, strict=True))) < CLOSE


@pytest.mark.parametrize("kind", ["known", "mixed"])
def test_a_member_that_becomes_nan_harms_no_other(kind: str) -> None:
    members = [member(kind, "sgd", number) for number in range(3)]
    alone = [clone(one) for one in members]
    packed = pack(members)
    for step in range(5):
        if step == 1:
            members[1].optimizer.param_groups[0]["lr"] = math.inf
        packed.step(batch(step))
        for one in (alone[0], alone[2]):
            step_alone(one, batch(step))
    assert packed.diverged() == [members[1]]
    packed.free()
    assert not any(bool(value.isfinite().all()) for value in members[1].model.parameters())
    assert largest([(members[0], alone[0]), (members[2], alone[2])]) < CLOSE


def test_frozen_parameters_stay_as_they_are() -> None:
    def freeze(model: Any) -> None:
        model[0].weight.requires_grad_(False)

    members = edited(freeze)
    before = members[1].model[0].weight.clone()
    assert packed_and_alone(members) < CLOSE
    assert torch.equal(members[1].model[0].weight, before)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw", "adagrad"])
def test_parameters_that_the_loss_does_not_use_are_not_updated(optimizer: str) -> None:
    def add(model: Any) -> None:
        model[0].register_parameter("unused", nn.Parameter(torch.ones(3, dtype=torch.float64)))

    members = edited(add, "linear", optimizer)
    assert packed_and_alone(members) < CLOSE
    assert bool((members[0].model[0].unused == 1).all())


class Changing(nn.Module):  # type: ignore[misc]
    """Uses its second layer in some steps only."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(FEATURES, 3), nn.Linear(FEATURES, 3)

    def forward(self, x: Any) -> Any:
        return self.one(x) + (self.two(x) if len(x) % 2 else 0)


def test_parameters_that_are_used_in_some_steps_only_count_those() -> None:
    members = [member(number=number) for number in range(2)]
    for number, one in enumerate(members):
        torch.manual_seed(number)
        one.model = Changing().double()
        one.optimizer = torch.optim.Adam(one.model.parameters(), 0.1, weight_decay=0.1)
    assert packed_and_alone(members, batches=lambda step: batch(step, count=4 + step % 2)) < CLOSE


class Tied(nn.Module):  # type: ignore[misc]
    """Uses one weight in two places, and a buffer under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, FEATURES)
        self.two.weight = self.one.weight
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.average: Any
        self.register_buffer("average", torch.zeros(FEATURES, dtype=torch.float64), persistent=False)

    def forward(self, x: Any) -> Any:
        self.count += 1
        self.average = 0.9 * self.average + 0.1 * x.mean(0).detach() @ self.one.weight.detach()
        return self.two(torch.tanh(self.one(x))) - self.average


def test_tied_weights_and_buffers_that_forward_replaces_are_kept() -> None:
    members = [member(number=number) for number in range(2)]
    for number, one in enumerate(members):
        torch.manual_seed(number)
        one.model = Tied().double()
        one.optimizer = torch.optim.SGD(one.model.parameters(), 0.1, momentum=0.5)
    assert packed_and_alone(members) < CLOSE
    assert int(members[0].model.count) == 6
    assert float(members[0].model.average.abs().sum()) > 0


def test_parametrized_weights_are_trained() -> None:
    def parametrize(model: Any) -> None:
        torch.nn.utils.parametrizations.weight_norm(model[0])

    assert packed_and_alone(edited(parametrize)) < CLOSE


def test_groups_of_parameters_have_their_own_settings() -> None:
    members = [member(number=number) for number in range(2)]
    for number, one in enumerate(members):
        first, last = one.model[0].parameters(), one.model[2].parameters()
        groups = [{"params": last, "lr": 0.1, "weight_decay": 0.1 * number}, {"params": first, "momentum": 0.9}]
        one.optimizer = torch.optim.SGD(groups, 0.01 * (1 + number))
    assert packed_and_alone(members) < CLOSE


@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": True}, {"maximize": True}], ids=str)
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad])
def test_every_implementation_of_an_optimizer_is_that_of_the_pack(kind: Any, options: dict[str, Any]) -> None:
    members = [member(number=number) for number in range(2)]
    for one in members:
        one.optimizer = kind(one.model.parameters(), lr=0.01, weight_decay=0.1, **options)
    assert packed_and_alone(members) < CLOSE


def test_layers_in_evaluation_mode_stay_in_it() -> None:
    def evaluate(model: Any) -> None:
        model[0].eval()

    members = edited(evaluate, "known")
    assert packed_and_alone(members) < CLOSE
    assert int(members[0].model[0][2].num_batches_tracked) == 0


def test_a_loss_of_ones_own_may_read_the_parameters() -> None:
    def loss(model: Any, given: Any) -> Any:
        x, y = given
        return nn.functional.mse_loss(model(x)[:, 0], y.to(x.dtype)) + 0.1 * sum(
            p.square().sum() for p in model.parameters()
        )

    assert packed_and_alone([member("known", number=number, loss=loss) for number in range(2)]) < CLOSE


@pytest.mark.parametrize("kind", ["known", "mixed"])
def test_the_state_of_a_member_can_be_taken_and_given(kind: str) -> None:
    members = [member(kind, "rmsprop", number) for number in range(3)]
    packed = pack(members)
    packed.step(batch(0))
    state, drawn = packed.member_state(1), state_of(members[1])["drawn"]
    alone = clone(packed.members[1])
    assert difference(state["model"], alone.model.state_dict()) == 0
    packed.step(batch(1))
    packed.load_member_state(1, state)
    members[1].generator.set_state(drawn)  # type: ignore[union-attr]
    packed.step(batch(2))
    step_alone(alone, batch(2))
    packed.sync()
    assert difference(state_of(members[1])["model"], state_of(alone)["model"]) < CLOSE
    assert difference(members[1].optimizer.state_dict(), alone.optimizer.state_dict()) < CLOSE


def test_the_same_pack_gives_the_same_bits() -> None:
    def train() -> list[Any]:
        members = [member("known", "adam", number, torch.float32) for number in range(3)]
        with pack(members) as packed:
            for step in range(5):
                packed.step(batch(step, dtype=torch.float32))
        return [state_of(one) for one in members]

    assert difference(train(), train()) == 0


def test_a_pack_shares_no_storage_with_the_models_of_its_members() -> None:
    members = [member("known", number=number) for number in range(2)]
    before = copy.deepcopy(members[0].model.state_dict())
    packed = pack(members)
    packed.step(batch(0))
    assert difference(members[0].model.state_dict(), before) == 0
    packed.sync()
    after = copy.deepcopy(members[0].model.state_dict())
    packed.step(batch(1))
    assert difference(members[0].model.state_dict(), after) == 0


def test_load_copies_and_free_lets_go_and_both_may_be_repeated() -> None:
    model = linear()
    loaded = load(model, "cpu")
    with torch.no_grad():
        loaded[0].weight.zero_()
    assert bool(model[0].weight.any())
    for _ in range(2):
        free(loaded)
    assert {parameter.device.type for parameter in loaded.parameters()} == {"meta"}
    packed = pack([member(number=0), member(number=1)])
    for _ in range(2):
        free(packed)
    with pytest.raises(UsageError, match="is freed: make a new one"):
        packed.step(batch(0))


def test_unlike_members_share_the_input_and_the_pack_tells_why() -> None:
    class Recurrent(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inside, self.outside = nn.LSTM(FEATURES, 4, batch_first=True), nn.Linear(4, 3)

        def forward(self, x: Any) -> Any:
            return self.outside(self.inside(x[:, None])[0][:, -1])

    recurrent = Recurrent().double()
    members = [
        member("linear", number=0),
        Member(recurrent, torch.optim.SGD(recurrent.parameters(), 0.1)),
        member("layer_norm", number=1),
        member("linear", number=2),
        member("linear", "adam", 1),
    ]
    alone = [clone(one) for one in members]
    packed = pack(members)
    lines = packed.describe()
    assert lines[0] == "Members 0, 3 train as one computation."
    assert "Member 1 trains by itself and shares only the input: layer 'inside' (LSTM)" in lines[1]
    assert "the models have different layers" in lines[2]
    assert "one is trained by SGD and the other by Adam" in lines[3]
    for step in range(4):
        losses = packed.step(batch(step))
        assert losses.tolist() == pytest.approx([step_alone(one, batch(step)) for one in alone])
    packed.join(clone(members[2]))
    packed.step(batch(4))
    for one in alone:
        step_alone(one, batch(4))
    assert any("train as one" in line and " 2, 5 " in line for line in packed.describe())
    packed.free()
    assert largest(list(zip(members, alone, strict=True))) < CLOSE


class Stream:
    """Stands in for a stream of a device."""

    def __init__(self, device: Any = None) -> None:
        self.waited: list[Any] = []

    def wait_stream(self, other: Any) -> None:
        self.waited.append(other)


@pytest.fixture
def current(monkeypatch: pytest.MonkeyPatch) -> Stream:
    """Return the stream that is the current one, on what seems to be a CUDA device."""
    stream = Stream()
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    monkeypatch.setattr(Pack, "_device", lambda self: torch.device("cuda"))
    monkeypatch.setattr(Pack, "_moved", lambda self, given: given)
    return stream


def test_a_group_has_one_stream_from_step_to_step(current: Stream) -> None:
    """What a stream frees is kept for it: with new ones, each step would take new memory."""
    packed = Pack([member(number=0), member("known", number=1), member(number=2)])
    for number in range(3):
        packed.step(batch(number))
    assert len(set(current.waited)) == 2
    packed.leave(0)
    packed.step(batch(3))
    assert len(packed._groups._streams) == 2
    assert len(set(current.waited)) == 3, "the rest of a group is another one"


def test_after_an_error_in_one_group_the_current_stream_waits_for_all(current: Stream) -> None:
    packed = Pack([member(number=0), member("known", number=1)])
    with pytest.raises(ValueError, match="unpack"):
        packed.step((batch(0)[0],))
    assert set(current.waited) == set(packed._groups._streams.values())


def test_an_empty_pack_and_what_is_not_in_it_are_refused() -> None:
    packed = Pack([member(number=0), member(number=1)])
    with pytest.raises(UsageError, match="is in this pack already"):
        packed.join(packed.members[0])
    with pytest.raises(UsageError, match="There is no member 2"):
        packed.leave(2)
    with pytest.raises(UsageError, match="never joined, or has left"):
        packed.member_state(member())
    with pytest.raises(UsageError, match="one batch for each of the 2 members; it was given 3"):
        packed.step_each([batch(0)] * 3)
    packed.leave(1)
    packed.leave(0)
    with pytest.raises(UsageError, match="has no member"):
        packed.step(batch(0))

"""Passes that are recorded as graphs: the numbers of training as it is written, and no graph where it would be wrong.

The graphs are those of tests/packing/recorded_operations.py, since there is no GPU here. They repeat what a CUDA graph
repeats, and see as little of what changes; streams and memory of a device are not tested.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from asyncsearch.packing import Member, Pack, graphed_passes, pack, torch_units
from asyncsearch.packing.member import cross_entropy
from asyncsearch.packing.torch_units import PackedTrainers
from tests.packing.alone import clone, difference, largest, state_of, step_alone
from tests.packing.models import SAMPLES, batch, linear, member
from tests.packing.recorded_operations import RecordedOperations
from tests.packing.test_torch_units import Blobs, begin_unit, end_unit, saved, trainer, unit_alone, values

nn: Any = torch.nn
CLOSE = 1e-12
WARM = 3


class Counted(nn.Module):  # type: ignore[misc]
    """Counts how many times Python runs its forward."""

    calls = 0

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        Counted.calls += 1
        return self.inner(x)


def sgd(model: Any, **more: Any) -> Member:
    """Return a member with a model of the test's own."""
    model = model.double()
    return Member(model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), **more)


def trained(one: Member, steps: int = 12, before: Callable[[int, Member], None] | None = None, **more: Any) -> Pack:
    """Train a member by graphs and a copy as torch does it, and require equal states after each step."""
    alone, packed = clone(one), Pack([one], RecordedOperations())
    for step in range(steps):
        if before is not None:
            before(step, one)
            before(step, alone)
        now = batch(step, **more)
        expected = step_alone(alone, now)
        assert float(packed.step(now)[0]) == pytest.approx(expected, abs=CLOSE, nan_ok=True)
        assert difference(state_of(one), state_of(alone)) < CLOSE
    return packed


def recorder(packed: Pack) -> RecordedOperations:
    found = packed._groups._recorder
    assert isinstance(found, RecordedOperations)
    return found


@pytest.mark.parametrize("kind", ["linear", "conv", "batch_norm", "embedding", "layer_norm", "attention"])
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adagrad"])
def test_members_that_train_by_graphs_end_as_alone(kind: str, optimizer: str) -> None:
    wide = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))
    members = [member(kind, optimizer, 0), member("known", optimizer, 1), sgd(wide, clip_grad_norm=0.1)]
    alone = [clone(one) for one in members]
    packed = Pack(members, RecordedOperations())
    for step in range(20):
        packed.step(batch(step))
        for one in alone:
            step_alone(one, batch(step))
    packed.sync()
    assert largest(list(zip(members, alone, strict=True))) < CLOSE
    sentences = packed.describe()
    assert ["Its passes are a graph." in one for one in sentences] == [True, False, True]
    assert "Its passes are no graph: it draws random numbers." in sentences[1], "it has dropout"
    assert recorder(packed).recorded == 2


def test_python_runs_only_where_passes_are_recorded_and_compared() -> None:
    one = sgd(Counted(linear()))
    packed = Pack([one], RecordedOperations())
    Counted.calls = 0
    for step in range(WARM + 20):
        packed.step(batch(step))
    compared = 5  # the replays 1, 2, 4, 8 and 16 of 20
    assert Counted.calls == WARM + 1 + compared
    assert recorder(packed).replays == 20


def test_batches_of_other_shapes_have_graphs_of_their_own_and_more_than_four_none() -> None:
    one, sizes = sgd(linear()), (SAMPLES, 5, 4, 3, 2)
    alone, packed = clone(one), Pack([one], RecordedOperations())
    for step in range(30):
        now = batch(step, sizes[step % len(sizes)])
        step_alone(alone, now)
        packed.step(now)
    assert difference(state_of(one), state_of(alone)) < CLOSE
    assert recorder(packed).recorded == 4


def test_a_state_that_is_loaded_and_gradients_that_are_removed_leave_a_graph_right() -> None:
    other = member(number=2).model.state_dict()

    def change(step: int, one: Member) -> None:
        if step == 6:
            one.model.load_state_dict(other)
        if step == 8:
            one.optimizer.zero_grad()

    assert recorder(trained(sgd(linear()), before=change)).recorded == 1


def test_weights_at_other_addresses_are_recorded_anew_and_at_last_no_more() -> None:
    def move(step: int, one: Member) -> None:
        if step % 5 == 4:
            for parameter in one.model.parameters():
                parameter.data = parameter.data.clone()

    packed = trained(sgd(linear()), 60, move)
    assert recorder(packed).recorded == 8
    assert "Its passes are no graph: its tensors move too often." in packed.describe()[0]


def test_shapes_are_recorded_anew_after_weights_have_moved() -> None:
    one, sizes = sgd(linear()), (SAMPLES, 5, 4, 3)
    alone, packed = clone(one), Pack([one], RecordedOperations())
    for step in range(40):
        if step == 20:
            for parameter in one.model.parameters():
                parameter.data = parameter.data.clone()
        now = batch(step, sizes[step % len(sizes)])
        step_alone(alone, now)
        packed.step(now)
    assert difference(state_of(one), state_of(alone)) < CLOSE
    assert recorder(packed).recorded == 8


def test_a_layer_in_another_mode_and_a_frozen_weight_are_no_part_of_the_graph() -> None:
    def change(step: int, one: Member) -> None:
        one.model[1].train(step < 6)
        one.model[0].weight.requires_grad_(step < 14)

    model = nn.Sequential(nn.Linear(6, 5, bias=False), nn.BatchNorm1d(5), nn.Linear(5, 3))
    assert recorder(trained(sgd(model), 20, change)).recorded >= 2


def test_a_member_that_diverges_goes_on_by_its_graph() -> None:
    one = sgd(linear())
    one.optimizer.param_groups[0]["lr"] = 1e200
    assert "Its passes are a graph." in trained(one).describe()[0]


def draws_by_python(model: Any, now: Any) -> Any:
    return cross_entropy(model, now) * (1.0 + random.random())


def reads_a_value(model: Any, now: Any) -> Any:
    loss = cross_entropy(model, now)
    return loss * 2 if loss.item() > 0 else loss


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (lambda: member("dropout"), "it draws random numbers"),
        (lambda: sgd(linear(), loss=draws_by_python), "it draws random numbers"),
        (lambda: sgd(linear(), loss=reads_a_value), r"it cannot be recorded \(RuntimeError: operation not permitted"),
        (lambda: sgd(linear(), precision="bfloat16"), "its precision is mixed"),
        (lambda: member(dtype=torch.bfloat16), "its weights are neither in float32 nor in float64"),
    ],
)
def test_a_pass_that_a_graph_would_change_is_not_recorded(one: Callable[[], Member], words: str) -> None:
    random.seed(0)
    found = one()
    packed = Pack([found], RecordedOperations())
    dtype = next(found.model.parameters()).dtype
    for step in range(8):
        packed.step(batch(step, dtype=dtype))
    with pytest.raises(AssertionError, match=words):
        assert packed.describe() == []
    assert recorder(packed).replays == 0


def test_a_loss_that_cannot_be_recorded_trains_as_alone() -> None:
    trained(sgd(linear(), loss=reads_a_value))


Loss = Callable[[Any, Any, float], Any]


def scaled(model: Any, now: Any, factor: float) -> Any:
    """Return a loss whose value changes with a number of Python."""
    return cross_entropy(model, now) * factor


def pulled(model: Any, now: Any, factor: float) -> Any:
    """Return one whose gradients alone do."""
    size = sum(parameter.square().sum() for parameter in model.parameters())
    return cross_entropy(model, now) + factor * (size - size.detach())


def averaged(model: Any, now: Any, factor: float) -> Any:
    """Return one with which a buffer alone does."""
    model[1].momentum = 0.1 / factor
    return cross_entropy(model, now)


class Zeroing(torch.optim.SGD):  # type: ignore[misc]
    """Keeps the gradients, and sets them to zero."""

    def zero_grad(self, set_to_none: bool = False) -> None:
        super().zero_grad(set_to_none)


@pytest.mark.parametrize("kind", [torch.optim.SGD, Zeroing])
@pytest.mark.parametrize("loss", [scaled, pulled, averaged])
def test_a_loss_that_reads_what_changes_is_found_by_the_comparison_and_leaves_nothing(loss: Loss, kind: Any) -> None:
    now = {"factor": 1.0}
    model = nn.Sequential(nn.Linear(6, 5, bias=False), nn.BatchNorm1d(5), nn.Linear(5, 3))
    one = sgd(model, loss=lambda model, its: loss(model, its, now["factor"]))
    one.optimizer = kind(model.parameters(), 0.05)

    def change(step: int, _: Member) -> None:
        now["factor"] = 1.0 + max(0, step - WARM)

    packed = trained(one, WARM + 4, change)
    assert "no graph: a replay and the pass as it is written do not agree" in packed.describe()[0]


def test_numbers_in_a_batch_are_part_of_what_was_recorded() -> None:
    one = sgd(linear(), loss=lambda model, its: cross_entropy(model, its[:2]) * its[2])
    alone, packed = clone(one), Pack([one], RecordedOperations())
    for step in range(20):
        now = (*batch(step), 1.0 + step % 2)
        step_alone(alone, now)
        packed.step(now)
    assert difference(state_of(one), state_of(alone)) < CLOSE
    assert recorder(packed).recorded == 2


def test_batches_and_losses_of_earlier_steps_stay_as_they_were() -> None:
    packed, given = Pack([sgd(linear())], RecordedOperations()), [batch(step) for step in range(9)]
    losses = [packed.step(now) for now in given]
    assert len({float(loss) for loss in losses}) == 9
    assert all(torch.equal(now[0], batch(step)[0]) for step, now in enumerate(given))


def test_a_weight_that_the_optimizer_does_not_know_prevents_no_graph() -> None:
    model = linear().double()
    one = Member(model, torch.optim.SGD(model[2].parameters(), 0.05))
    assert "Its passes are a graph." in trained(one).describe()[0]


class Graphed(Blobs):
    cuda_graphs = True

    def model(self, hp: Mapping[str, Any]) -> Any:
        width = int(hp["width"])
        return nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 2)).double()


class Usual(Graphed):
    cuda_graphs = False


class OwnLoss(Graphed):
    def loss(self, model: Any, batch: Any) -> Any:
        x, y = batch
        return nn.functional.cross_entropy(model(x), y) * self.hp["lr"]


class Counting(OwnLoss):
    def loss(self, model: Any, batch: Any) -> Any:
        return super().loss(model, batch) * (1 + self.steps)


def falling(resource: float) -> Mapping[str, Any]:
    return {"lr": 0.1 / (1 + resource)}


@pytest.mark.parametrize(
    ("kind", "inside", "is_replayed"),
    [
        (Graphed, None, True),
        (Graphed, falling, True),  # the optimizer is no part of the graph
        (OwnLoss, None, True),
        (OwnLoss, falling, False),
        (Counting, None, False),
        (Usual, None, False),
    ],
)
def test_trainers_that_are_unlike_train_by_graphs_where_their_losses_allow_it(
    kind: type[Any], inside: Any, is_replayed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = RecordedOperations()
    monkeypatch.setattr(torch_units, "CudaGraphs", lambda: recorder)
    found = [[trainer(kind, {"lr": 0.1, "width": width}, inside=inside) for width in (3, 4)] for _ in range(2)]
    together = PackedTrainers(found[0][:1])
    together.join(found[0][1])
    for _ in range(3):
        for one in found[0]:
            begin_unit(one)
        together.train()
        metrics = [[end_unit(one) for one in found[0]], [unit_alone(one) for one in found[1]]]
        assert difference(*([values(one) for one in each] for each in metrics)) < CLOSE
    files = [[saved(one, tmp_path / "state") for one in trainers] for trainers in found]
    assert difference(*files) < CLOSE
    assert (recorder.replays > 0) == is_replayed


class FailingCapture:
    """What torch does where a device ends a capture with an error, as far as it is known without one."""

    def __init__(self) -> None:
        self.default_generators, self.current = [mock.Mock()], mock.Mock(device_index=0)
        self.capture = mock.Mock()
        self.captured = 0

    def CUDAGraph(self) -> Any:
        return mock.Mock()

    def Stream(self, device: Any) -> Any:
        return self.capture

    def current_stream(self, device: Any = None) -> Any:
        return self.current

    def set_stream(self, stream: Any) -> None:
        self.current = stream

    @contextlib.contextmanager
    def graph(self, graph: Any, stream: Any, capture_error_mode: str) -> Iterator[None]:
        self.captured += 1
        self.current = stream
        yield
        raise RuntimeError("operation failed due to a previous error during capture")


def test_a_capture_that_fails_leaves_stream_and_generator_as_they_were_and_is_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda = FailingCapture()
    monkeypatch.setattr(torch, "cuda", cuda)
    monkeypatch.setattr(graphed_passes, "_failed", [])
    before, (generator,) = cuda.current, cuda.default_generators
    for words in ("previous error during capture", "another recording of this process has failed"):
        with pytest.raises(RuntimeError, match=words):
            graphed_passes.CudaGraphs().record(lambda: 1, "cuda:0")
    assert cuda.current is before
    generator.graphsafe_set_state.assert_called_once_with(generator.clone_state())
    assert cuda.captured == len(graphed_passes._failed) == 1


def test_on_the_cpu_no_cuda_graph_is_recorded() -> None:
    packed = pack([sgd(linear())], cuda_graphs=True)
    assert packed.describe()[0].endswith("Its passes are no graph: it is not on cuda.")
    assert "graph" not in pack([sgd(linear())]).describe()[0]

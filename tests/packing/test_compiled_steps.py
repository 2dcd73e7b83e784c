"""Steps of a stack as one graph: each equals the step that is not compiled, whoever computes the graph."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from asyncsearch.packing import Pack, pack, stack_stepper, step_compiler
from asyncsearch.packing.stack_stepper import StackStepper
from asyncsearch.packing.step_compiler import StepCompiler
from tests.packing.alone import clone, largest, step_alone
from tests.packing.models import MODELS, OPTIMIZERS, batch, member

ALWAYS = 1e12


class GraphAsItIs:
    """Stands in for the process that compiles: the graph itself is what it makes."""

    def __init__(self, graph: Any, _shapes: Any, _scratch: Any) -> None:
        self.graph = graph

    def is_over(self) -> bool:
        return True

    def library(self) -> Any:
        return self.graph

    def cost_s(self) -> float:
        return 0.0

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_compiler, "CompileProcess", GraphAsItIs)
    monkeypatch.setattr(step_compiler, "loaded", lambda graph: lambda flat: graph(*flat))
    monkeypatch.setattr(stack_stepper, "is_faster", lambda times: True)


def stepped(packed: Pack, compiler: StepCompiler | None = None) -> StackStepper:
    """Let the only stack of a pack be compiled."""
    (stack,) = packed.stacks()
    stack.stepper = StackStepper(stack, compiler or StepCompiler())
    return stack.stepper


def compiled(packed: Pack, first: Any, compiler: StepCompiler | None = None) -> StackStepper:
    """Make steps until those that follow are computed by the graph."""
    stepper = stepped(packed, compiler)
    for _ in range(3):
        packed.step(first)
    for _ in range(3):
        stepper.unit_over(ALWAYS)
    packed.step(first)
    return stepper


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", MODELS)
def test_each_layer_and_each_optimizer_have_the_same_steps_as_a_graph(kind: str, optimizer: str) -> None:
    members = [member(kind, optimizer, number) for number in range(3)]
    alone = [clone(one) for one in members]
    packed = pack(members)
    stepper = compiled(packed, batch(0))
    packed.step(batch(1))
    packed.step(batch(2))
    assert stepper.compiled_steps == 2
    packed.free()
    for one in alone:
        for number in (0, 0, 0, 0, 1, 2):
            step_alone(one, batch(number))
    assert largest(list(zip(members, alone, strict=True))) < 1e-12


def test_members_that_leave_and_join_are_computed_by_the_same_graph() -> None:
    members = [member("dropout", "adam", number) for number in range(4)]
    alone = [clone(one) for one in members]
    packed, compiler = pack(members), StepCompiler()
    stepper = stepped(packed, compiler)
    for number in range(3):
        packed.step(batch(number))
    stepper.unit_over(ALWAYS)
    stepper.unit_over(ALWAYS)
    for number in range(3, 9):
        if number == 5:
            packed.leave(1)
        if number == 7:
            packed.join(members[1])
        stepper.unit_over(ALWAYS)
        packed.step(batch(number))  # the first step of a unit is computed both ways
        packed.step(batch(number))
    packed.free()
    for one in alone:
        for number in (0, 1, 2, *sorted([*range(3, 9)] * 2)):
            if one is not alone[1] or number not in (5, 6):
                step_alone(one, batch(number))
    assert stepper.compiled_steps == 4  # after a leave or join one step is plain, which the check of a unit needs, too
    assert len(compiler._made) == 1
    assert largest(list(zip(members, alone, strict=True))) < 1e-12


def test_a_member_that_becomes_nan_harms_no_other_one() -> None:
    members = [member("linear", "sgd", number) for number in range(3)]
    alone = [clone(one) for one in members]
    packed = pack(members)
    stepper = compiled(packed, batch(0))
    with torch.no_grad():
        next(members[1].model.parameters()).fill_(float("nan"))
    packed.reload(1)
    for number in (1, 2, 3):
        packed.step(batch(number))
    assert packed.diverged() == [members[1]]
    assert stepper.compiled_steps >= 2
    packed.free()
    for one in (alone[0], alone[2]):
        for number in (0, 0, 0, 0, 1, 2, 3):
            step_alone(one, batch(number))
    assert largest([(members[0], alone[0]), (members[2], alone[2])]) < 1e-12


def test_clipped_gradients_and_batches_of_another_size_are_right() -> None:
    members = [member("linear", "sgd", number) for number in range(3)]
    for number, one in enumerate(members):
        one.clip_grad_norm = 0.01 * (1 + number)
    alone = [clone(one) for one in members]
    packed = pack(members)
    stepper = compiled(packed, batch(0))
    x, y = batch(1)
    for part in ((x, y), (x[:3], y[:3]), (x, y)):
        packed.step(part)
    assert stepper.compiled_steps == 2  # the smaller batch is not the graph's
    packed.free()
    for one in alone:
        for part in (*[batch(0)] * 4, (x, y), (x[:3], y[:3]), (x, y)):
            step_alone(one, part)
    assert largest(list(zip(members, alone, strict=True))) < 1e-12


def test_a_changed_learning_rate_and_dropout_rate_are_seen_by_the_next_step() -> None:
    members = [member("dropout", "sgd", number) for number in range(3)]
    alone = [clone(one) for one in members]
    packed = pack(members)
    stepper = compiled(packed, batch(0))
    for one in alone:
        for _ in range(4):
            step_alone(one, batch(0))
    for one in (*members, *alone):
        one.optimizer.param_groups[0]["lr"] *= 0.5
        for module in one.model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p *= 0.5
    packed.step(batch(1))
    for one in alone:
        step_alone(one, batch(1))
    assert stepper.compiled_steps == 1
    packed.free()
    assert largest(list(zip(members, alone, strict=True))) < 1e-12


def test_another_pack_of_the_process_takes_over_what_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_stepper, "pays", lambda times, steps_left: True)  # which is faster depends on the machine
    compiler = StepCompiler()
    steppers = []
    for _ in range(2):
        packed = pack([member("linear", "adam", number) for number in range(3)])
        steppers.append(stepped(packed, compiler))
        for number in range(3):
            packed.step(batch(number))
        for _ in range(3):
            steppers[-1].unit_over(ALWAYS)
        for number in range(3):
            packed.step(batch(number))
    assert [one.compiled_steps for one in steppers] == [2, 2]
    assert len(compiler._made) == 1


def test_nothing_is_compiled_where_few_steps_are_left() -> None:
    packed, compiler = pack([member("linear", "sgd", number) for number in range(3)]), StepCompiler()
    stepper = stepped(packed, compiler)
    for number in range(3):
        packed.step(batch(number))
    stepper.unit_over(10)
    stepper.unit_over(10)
    assert compiler._made == {}


class WrongGraph(GraphAsItIs):
    """Compiles to something else."""

    def library(self) -> Any:
        return lambda *flat: [one + 1e-3 if one.is_floating_point() else one for one in self.graph(*flat)]


def test_a_step_that_is_compiled_wrongly_is_never_used(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(step_compiler, "CompileProcess", WrongGraph)
    members = [member("linear", "sgd", number) for number in range(3)]
    alone = [clone(one) for one in members]
    packed = pack(members)
    stepper = compiled(packed, batch(0))
    packed.step(batch(1))
    packed.free()
    for one in alone:
        for number in (0, 0, 0, 0, 1):
            step_alone(one, batch(number))
    assert stepper.compiled_steps == 0
    assert largest(list(zip(members, alone, strict=True))) < 1e-12
    assert capfd.readouterr().err.count("is not compiled, and trains as before: a compiled step and a plain one") == 1


def test_a_model_that_cannot_be_traced_trains_on_and_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("no graph holds this")

    monkeypatch.setattr(stack_stepper, "traced", refuse)
    compiler = StepCompiler()
    for _ in range(2):
        members = [member("dropout", "sgd", number) for number in range(2)]
        alone = [clone(one) for one in members]
        packed = pack(members)
        stepper = compiled(packed, batch(0), compiler)
        packed.free()
        for one in alone:
            for _ in range(4):
                step_alone(one, batch(0))
        assert stepper.compiled_steps == 0
        assert largest(list(zip(members, alone, strict=True))) < 1e-12
    assert capfd.readouterr().err.count("trains as before: RuntimeError: no graph holds this") == 1


class NoCompiler(GraphAsItIs):
    """Fails."""

    def library(self) -> None:
        return None

    def words(self) -> str:
        return "there is no C++ compiler"


def test_without_a_compiler_the_steps_go_on_and_it_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(step_compiler, "CompileProcess", NoCompiler)
    compiler = StepCompiler()
    for _ in range(2):
        packed = pack([member("linear", "sgd", number) for number in range(2)])
        stepper = stepped(packed, compiler)
        for number in range(4):
            packed.step(batch(number))
            stepper.unit_over(ALWAYS)
        assert stepper.compiled_steps == 0
    assert capfd.readouterr().err.count("there is no C++ compiler") == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_compiled_step_is_within_rounding_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(stack_stepper, "is_faster", lambda times: True)
    members = [member("linear", "sgd", number) for number in range(2)]
    alone = [clone(one) for one in members]
    packed, compiler = pack(members), StepCompiler()
    (stack,) = packed.stacks()
    stepper = stack.stepper = StackStepper(stack, compiler, tmp_path)
    for number in range(3):
        packed.step(batch(number))
    stepper.unit_over(ALWAYS)
    stepper.unit_over(ALWAYS)
    (found,) = compiler._made.values()
    assert found.process is not None
    found.process.wait()
    for number in range(3, 10):
        stepper.unit_over(ALWAYS) if number == 3 else None
        packed.step(batch(number))
    assert (found.words, stepper.compiled_steps) == ("", 6)
    assert list(tmp_path.iterdir()) == []
    packed.free()
    for one in alone:
        for number in range(10):
            step_alone(one, batch(number))
    assert largest(list(zip(members, alone, strict=True))) < 1e-9


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_compilation_that_nobody_waits_for_ends_with_its_processes_and_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    packed, compiler = pack([member("linear", "sgd", number) for number in range(2)]), StepCompiler()
    (stack,) = packed.stacks()
    stepper = stack.stepper = StackStepper(stack, compiler, tmp_path)
    for number in range(3):
        packed.step(batch(number))
    stepper.unit_over(ALWAYS)
    stepper.unit_over(ALWAYS)
    (found,) = compiler._made.values()
    assert found.process is not None
    process = found.process
    compiler.close()
    assert process.is_over()
    assert list(tmp_path.iterdir()) == []

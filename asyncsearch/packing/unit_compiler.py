"""When the stacks of trainers that train together may be compiled, and how many of their steps are left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import Any

from asyncsearch.events import PackCompiled
from asyncsearch.packing.loss_reads import has_default_loss
from asyncsearch.packing.member_stack import MemberStack
from asyncsearch.packing.packs import Pack
from asyncsearch.packing.stack_stepper import StackStepper
from asyncsearch.packing.step_compiler import compiler_of_process


class UnitCompiler:
    """Looks after the steppers of one pack of trainers, between its units."""

    def __init__(self) -> None:
        self._before = 0

    def begin(self, pack: Pack, trainers: Sequence[Any]) -> None:
        """Give each stack a stepper before a unit, where steps may be compiled."""
        may_compile = _may_compile(trainers)
        for stack in pack.stacks():
            if not may_compile:
                stack.stepper = None
            elif stack.stepper is None:
                scratch = trainers[0].trial.outlook.scratch
                stack.stepper = StackStepper(stack, compiler_of_process(), scratch)
        self._before = _compiled_steps(pack)

    def unit_over(self, pack: Pack, units: Sequence[Any]) -> None:
        """Decide about each stack after a unit.

        Args:
            pack: that of the trainers.
            units: of each trainer, as ``PackedUnit``.
        """
        for stack in pack.stacks():
            if stack.stepper is not None:
                own = [unit for unit in units if unit.member in stack.members]
                stack.stepper.unit_over(_steps_left(stack, own))

    def used(self, pack: Pack) -> PackCompiled | None:
        """Return the compiled step that the last unit has used; None: it has used none."""
        if _compiled_steps(pack) <= self._before:
            return None
        found = (stack.stepper.used() for stack in pack.stacks() if stack.stepper is not None)
        return next((one for one in found if one is not None), None)


def _compiled_steps(pack: Pack) -> int:
    return sum(stack.stepper.compiled_steps for stack in pack.stacks() if stack.stepper is not None)


def _may_compile(trainers: Sequence[Any]) -> bool:
    first = trainers[0]
    # What is compiled has the values of the first step in it: a loss may read a hyper-parameter that changes.
    reads_nothing = all(has_default_loss(one) or not one.trial.has_sequences for one in trainers)
    is_allowed = all(_units_to_come(one) is not None for one in trainers)
    is_plain = first._device.type == "cpu" and all(one.precision is None for one in trainers)
    return bool(first.compile_packs and is_allowed and is_plain and reads_nothing and has_compiler())


def _units_to_come(trainer: Any) -> int | None:
    outlook = getattr(trainer.trial, "outlook", None)  # a trial outside a search has none
    found: int | None = None if outlook is None else outlook.units_to_come
    return found


def has_compiler() -> bool:
    """Return whether torch finds a C++ compiler on this machine."""
    return any(shutil.which(name) for name in (os.environ.get("CXX"), "g++", "clang++") if name)


def _steps_left(stack: MemberStack, units: Sequence[Any]) -> float:
    """Return how many steps of this stack are left in this process, at least."""
    if not units:
        return 0.0
    # The unit that is just over is counted as left until it is reported.
    own = max(0, max(unit.trainer.trial.outlook.units_left for unit in units) - 1)
    to_come = (_units_to_come(units[0].trainer) or 0) / len(stack.members)
    steps_a_unit = max(-(-unit.size // unit.batch_size) for unit in units)
    return float((own + to_come) * steps_a_unit)

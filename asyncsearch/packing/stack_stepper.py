"""The steps of one stack: as they are written, and compiled once that pays.

Pseudocode::

    each step:          compiled if there is one for its shape, else eager, timed
    first compiled of a unit:  computed both ways and compared; where they differ it is used no more
    between two units:  there is one for the shape of most steps?      nothing
                        another pack of this process has compiled it:  it is taken over
                        compiling it pays (``compile_rule``):          begin, in another process
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asyncsearch.events import PackCompiled
from asyncsearch.packing.compiled_step import CompiledStep, columns_for, put, shape_of, tensors_of
from asyncsearch.packing.dropout_masks import DROPOUTS, MaskRequest
from asyncsearch.packing.rounding import is_close
from asyncsearch.packing.step_compiler import Compilation, StepCompiler
from asyncsearch.packing.step_graph import StepShape, StepTensors, traced
from asyncsearch.trainers.compile_rule import CompileTimes, is_faster, pays

_TRIES = 3
_TRACE_S = 0.5
"""What finding out takes whether a graph was compiled before."""


@dataclass
class EagerSteps:
    """Steps of one shape that were not compiled."""

    count: int
    fastest_s: float
    batch: Any
    """The last one."""


class StackStepper:
    """Computes the steps of one stack."""

    def __init__(self, stack: Any, compiler: StepCompiler, scratch: Path | None = None) -> None:
        """Begin with steps that are not compiled.

        Args:
            stack: a ``MemberStack`` on the CPU.
            compiler: that of this process.
            scratch: where the folder of a compilation is made; None: where temporary folders are.
        """
        self._stack, self._compiler, self._scratch = stack, compiler, scratch
        self._layers = [name for name, one in stack._model._template.named_modules() if type(one) in DROPOUTS]
        self._masks: list[MaskRequest] = []
        self._members: list[Any] = []
        self._settled: list[Any] = []
        """The members at the end of the last unit."""
        self._seen: dict[StepShape, EagerSteps] = {}
        self._found: Compilation | None = None
        self._known: tuple[Any, Any, Any] | None = None
        self._is_checked = False
        self._cannot = False
        self.compiled_steps = 0
        """Steps that were made by compiled code."""

    def step(self, batch: Any, is_shared: bool, sizes: Sequence[int] | None) -> Any:
        """Make a step of all members, and return their losses, (K,)."""
        if sizes is not None:
            return self._stack.train(batch, is_shared, sizes)
        numbers, limits = self._stack._rows._numbers(), self._stack._limits()
        shape = self._shape(batch, is_shared, numbers, limits)
        compiled = self._compiled()
        if shape is None or compiled is None or not compiled.fits(shape, len(self._stack.members)):
            return self._eager(batch, is_shared, shape)
        if not self._is_checked:
            return self._check(compiled, batch, shape)
        self.compiled_steps += 1
        tensors = self._tensors(batch, shape, compiled.lanes)
        return put(self._stack, shape, compiled.run(tensors.flat()), numbers)

    def unit_over(self, steps_left: float) -> None:
        """Decide between two units; ``steps_left``: after them, at least."""
        self._is_checked = False
        self._compiler.poll()
        self._cannot = self._cannot or (self._found is not None and bool(self._found.words))
        # While packs are timed, and members come and go, the next unit has another number of lanes.
        is_settled, self._settled = self._settled == self._stack.members, self._stack.members
        if self._cannot or not self._seen or self._is_expected() or not is_settled:
            return
        shape, seen = max(self._seen.items(), key=lambda item: item[1].count)
        likely = self._compiler.likely(shape, len(self._stack.members))
        if likely is not None:
            times = CompileTimes(seen.fastest_s, likely.compiled_s, _TRACE_S)
        elif self._compiler.can_begin:
            times = CompileTimes(seen.fastest_s)
        else:
            return
        if pays(times, steps_left):
            self._begin(shape, seen.batch, likely)

    def used(self) -> PackCompiled | None:
        """Return the compiled step that is used; None: there is none."""
        found = self._found
        if found is None or found.words or found.compiled_s is None:
            return None
        return PackCompiled(found.lanes, found.eager_s or found.compiled_s, found.compiled_s, found.cost_s or 0.0)

    def _is_expected(self) -> bool:
        """Return whether what was found is still to come, or is of use for the members that there are now."""
        found = self._found
        if found is None or found.words:
            return False
        members = len(self._stack.members)
        return found.step is None or members <= found.lanes <= 2 * members

    def _compiled(self) -> CompiledStep | None:
        return self._found.step if self._found is not None and not self._found.words else None

    def _begin(self, shape: StepShape, batch: Any, likely: Compilation | None) -> None:
        """Trace the step, and take over what was compiled, or begin to compile."""
        generators = [one for one in self._stack._model.masks.generators if one is not None]
        before = [one.get_state() for one in generators]
        try:
            lanes = len(self._stack.members) if likely is None else likely.lanes
            tensors = self._tensors(batch, shape, lanes)
            graph = traced(self._stack, shape, tensors, self._stack._rows._numbers())
        except Exception as error:
            self._cannot = True
            self._compiler.say(f"{type(error).__name__}: {error}")
            return
        finally:
            for one, state in zip(generators, before, strict=True):
                one.set_state(state)
        key = graph.code, tuple((one.shape, one.dtype) for one in tensors.flat())
        if self._compiler.find(key) is None and self._compiler.can_begin:
            self._compiler.begin(key, graph, shape, tensors, self._scratch)
        self._found = self._compiler.find(key)

    def _shape(self, batch: Any, is_shared: bool, numbers: Any, limits: Any) -> StepShape | None:
        masks = self._stack._model.masks
        drawn = {request.name for request in self._masks}
        template = self._stack._model._template
        if any(
            (name in drawn) != (template.get_submodule(name).training and masks.is_drawn(name)) for name in self._layers
        ):
            return None
        return shape_of(self._stack, batch, is_shared, numbers, limits, self._masks)

    def _tensors(self, batch: Any, shape: StepShape, lanes: int) -> StepTensors:
        return tensors_of(self._stack, batch, shape, self._columns(lanes), lanes)

    def _columns(self, lanes: int) -> Any:
        """Return the columns of the next step: those of the last one, unless what they are made of has changed."""
        rows, limits = self._stack._rows, self._stack._limits()
        numbers = rows._numbers()
        key = lanes, rows.steps.tobytes(), None if limits is None else limits.tobytes()
        if self._known is None or self._known[0] is not numbers or self._known[1] != key:
            self._known = numbers, key, columns_for(rows, numbers, limits, lanes)
        return self._known[2]

    def _eager(self, batch: Any, is_shared: bool, shape: StepShape | None) -> Any:
        masks, asked = self._stack._model.masks, list[MaskRequest]()
        draw = masks.source

        def source(request: MaskRequest, device: Any) -> Any:
            asked.append(request)
            return draw(request, device)

        masks.source = source
        began = time.perf_counter()
        try:
            losses = self._stack.train(batch, is_shared, None)
        finally:
            masks.source = draw
        spent = time.perf_counter() - began
        if self._members != self._stack.members:  # what was timed was a step of others
            self._members, self._seen = self._stack.members, {}
        if shape is not None and self._masks == asked:
            seen = self._seen.setdefault(shape, EagerSteps(0, spent, batch))
            seen.count, seen.fastest_s, seen.batch = seen.count + 1, min(seen.fastest_s, spent), batch
        self._masks = asked
        return losses

    def _check(self, compiled: CompiledStep, batch: Any, shape: StepShape) -> Any:
        """Compute a step both ways, and go on as the eager one says; if they agree, later steps are compiled."""
        found, masks = self._found, self._stack._model.masks
        assert found is not None
        tensors = self._tensors(batch, shape, compiled.lanes)
        flat, count = tensors.flat(), len(self._stack.members)
        results, found.compiled_s = _timed(compiled, flat, found.compiled_s)
        given, draw = iter(_own(shape, tensors, count)), masks.source
        masks.source = lambda request, device: next(given)
        began = time.perf_counter()
        try:
            losses = self._stack.train(batch, shape.is_shared, None)
        finally:
            masks.source = draw
        known = self._seen.get(shape)
        found.eager_s = min(time.perf_counter() - began, float("inf") if known is None else known.fastest_s)
        self._is_checked = True
        if not self._agrees(shape, results, losses):
            found.words = "a compiled step and a plain one do not agree"
            self._compiler.say(found.words)
        elif not is_faster(CompileTimes(found.eager_s, found.compiled_s)):
            found.words = "a compiled step is not faster"
        return losses

    def _agrees(self, shape: StepShape, results: Sequence[Any], losses: Any) -> bool:
        stack, count = self._stack, len(self._stack.members)
        states = [stack._rows.state[name] for name in shape.state]
        buffers = [stack._fixed[name] for name in stack._buffer_names]
        expected = [stack._rows.weights, *states, *buffers, losses]
        return all(is_close(one[:count], other) for one, other in zip(results, expected, strict=True))


def _timed(compiled: CompiledStep, flat: list[Any], known_s: float | None) -> tuple[Sequence[Any], float]:
    results: Sequence[Any] = ()
    fastest_s = float("inf") if known_s is None else known_s
    for _ in range(_TRIES if known_s is None else 1):
        began = time.perf_counter()
        results = compiled.run(flat)
        fastest_s = min(fastest_s, time.perf_counter() - began)
    return results, fastest_s


def _own(shape: StepShape, tensors: StepTensors, count: int) -> list[Any]:
    """Return the masks of the members, without those of lanes that nobody uses."""
    lanes = len(tensors.weights)
    return [
        mask[:, : mask.shape[1] // lanes * count] if one.is_channels else mask[:count]
        for one, mask in zip(shape.masks, tensors.masks, strict=True)
    ]

"""The weights of K members and the state of their optimizers as matrices with one row for each member.

All parameters that are trained lie in one matrix, so that an update costs the same few operations however many
parameters and members there are, and so that members are taken out and put in by choosing rows.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from asyncsearch.packing.member import Flags, GradientScales
from asyncsearch.packing.stack.update_rules import (
    RULES,
    BlockStep,
    MemberNumbers,
    OptionValues,
    UpdateRule,
    numbers_of,
    settings,
)

_MOST_COLUMNS = 256
"""Columns that are kept; those of Adam change at each step."""


@dataclass(frozen=True)
class TrainedParameter:
    """The places of a parameter that the optimizer updates: in the model, in the optimizer and in the matrix."""

    name: str
    group: int
    place: int
    """Its number among the parameters of its group."""
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Block:
    """Neighbouring parameters that are updated by one call: same group, same steps, same names in the state."""

    group: int
    first: int
    start: int
    stop: int


def trained_parameters(model: Any, optimizer: Any) -> list[TrainedParameter]:
    """Return the parameters of the model that the optimizer may change, in the optimizer's order."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    found: list[TrainedParameter] = []
    at = 0
    for number, group in enumerate(optimizer.param_groups):
        for place, parameter in enumerate(group["params"]):
            if parameter.requires_grad:
                end = at + parameter.numel()
                found.append(TrainedParameter(names[id(parameter)], number, place, tuple(parameter.shape), at, end))
                at = end
    return found


class OptimizerRows:
    """Weights (K, P), state (K, P) for each of its names, and steps (K, number of parameters)."""

    keeps_grads = False
    """Whether somebody may want the gradients of the last step."""
    _grads: tuple[Any, tuple[bool, ...]] | None = None
    _used: tuple[bool, ...]
    _blocks: list[Block]
    _found: list[list[tuple[Any, ...]]]
    _options: list[MemberNumbers]
    _columns: dict[bytes, Any]
    steps: OptionValues
    present: dict[str, Flags]
    """By the names in the state: whether it has a value for each member and parameter."""

    def __init__(self, optimizer: Any, parameters: list[TrainedParameter]) -> None:
        """Take the weights and the state of one member; they are copied."""
        self.parameters = parameters
        self.optimizers = [optimizer]
        self.rule: UpdateRule = RULES[type(optimizer)]
        group = optimizer.param_groups[0]
        self.names = self.rule.names({name: group[name] for name in self.rule.common})
        tensors = [self._tensor(optimizer, parameter).detach().reshape(-1) for parameter in parameters]
        self.weights = torch.cat(tensors)[None].clone()
        self.state: dict[str, Any] = {}
        self._forget()
        self.take_all()

    # Between members and rows

    def take(self, row: int, optimizer: Any) -> None:
        """Copy the weights and the state of a member into its row."""
        own = OptimizerRows(optimizer, self.parameters)
        self.weights[row], self.steps[row] = own.weights[0], own.steps[0]
        for name in self.names:
            self.present[name][row] = own.present[name][0]
            if name in self.state or name in own.state:
                self._tensor_of(name)[row] = own._tensor_of(name)[0]
        self._forget()

    def take_all(self) -> None:
        """Copy the weights and the states of all members into their rows, as ``take`` does for one."""
        kept = self._found, self._options, self._columns
        tensors = [[self._tensor(optimizer, p) for p in self.parameters] for optimizer in self.optimizers]
        self._fill(self.weights, [tensor.detach() for row in tensors for tensor in row])
        states = [
            [optimizer.state.get(one, _NO_STATE) for one in row]
            for optimizer, row in zip(self.optimizers, tensors, strict=True)
        ]
        self.present = {}
        for name in self.names:
            found = [state.get(name) for row in states for state in row]
            flags = np.array([one is not None for one in found]).reshape(len(states), -1)
            self.present[name] = flags
            if name in self.state or flags.any():
                zeros = [
                    None if flag else torch.zeros(p.shape, dtype=self.weights.dtype, device=self.weights.device)
                    for row in flags
                    for flag, p in zip(row, self.parameters, strict=True)
                ]
                parts = [zero if one is None else one.detach() for one, zero in zip(found, zeros, strict=True)]
                self._fill(self._tensor_of(name), parts)
        if self.rule.counts_steps:
            self.steps = np.array([[float(state.get("step", 0.0)) for state in row] for row in states])
        else:
            self.steps = self.present[self.names[0]].astype(np.float64)
        self._forget()
        self._found, self._options, self._columns = kept

    def _fill(self, matrix: Any, parts: Sequence[Any]) -> None:
        """Put the parts of all rows into a matrix; its views stay views of it."""
        matrix.copy_(torch.cat([part.reshape(-1) for part in parts]).view_as(matrix))

    def write(self, row: int) -> None:
        """Copy the row of a member into its own parameters and its own optimizer."""
        optimizer = self.optimizers[row]
        for number, parameter in enumerate(self.parameters):
            tensor = self._tensor(optimizer, parameter)
            columns = slice(parameter.start, parameter.stop)
            with torch.no_grad():
                tensor.copy_(self.weights[row, columns].view(parameter.shape))
            names = [name for name in self.names if self.present[name][row, number]]
            if not names:
                continue
            state = optimizer.state[tensor]
            if self.rule.counts_steps:
                is_fused = optimizer.param_groups[parameter.group].get("fused")
                _put(state, "step", _step_tensor(self.steps[row, number], tensor.device if is_fused else None))
            for name in names:
                _put(state, name, self.state[name][row, columns].view(parameter.shape), like=tensor)

    def write_grads(self, row: int) -> None:
        """Give the parameters of a member the gradients of its last step, as its optimizer got them."""
        if self._grads is None:
            return
        matrix, used = self._grads
        for parameter, is_used in zip(self.parameters, used, strict=True):
            tensor = self._tensor(self.optimizers[row], parameter)
            grad = matrix[row, parameter.start : parameter.stop].view(parameter.shape)
            tensor.grad = grad.clone() if is_used else None

    def keep(self, rows: Sequence[int]) -> None:
        """Drop all other rows."""
        chosen = torch.tensor(rows, dtype=torch.long, device=self.weights.device)
        self.weights, self._grads = self.weights[chosen], None
        self.state = {name: tensor[chosen] for name, tensor in self.state.items()}
        self.steps = self.steps[list(rows)]
        self.present = {name: flags[list(rows)] for name, flags in self.present.items()}
        self.optimizers = [self.optimizers[row] for row in rows]
        self._forget()

    def append(self, others: Sequence[OptimizerRows]) -> None:
        """Add the rows of others after these."""
        every = [self, *others]
        for name in {name for rows in every for name in rows.state}:
            self.state[name] = torch.cat([rows._tensor_of(name) for rows in every])
        self.weights, self._grads = torch.cat([rows.weights for rows in every]), None
        self.steps = np.concatenate([rows.steps for rows in every])
        self.present = {name: np.concatenate([rows.present[name] for rows in every]) for name in self.names}
        self.optimizers = [optimizer for rows in every for optimizer in rows.optimizers]
        self._forget()

    def views(self) -> dict[str, Any]:
        """Return each parameter as a leaf (K, *shape) that shares the storage of the weights."""
        count = len(self.weights)
        return {
            p.name: self.weights[:, p.start : p.stop].view(count, *p.shape).detach().requires_grad_()
            for p in self.parameters
        }

    # Updates

    def update(self, grads: Sequence[Any], limits: OptionValues | None, scales: GradientScales | None = None) -> None:
        """Make one step of every member.

        Args:
            grads: (K, *shape) for each parameter; None where the loss does not depend on it: then no
                optimizer updates it.
            limits: the largest norm of each member's gradient; None if it is not clipped.
            scales: the divisors of the gradients; a member whose gradient is not finite skips this step.
        """
        used = tuple(grad is not None for grad in grads)
        matrix = self._matrix(grads, used)
        skipped = None if scales is None else scales.unscale(matrix)
        if limits is not None:
            self._clip(matrix, limits)
        # A copy, since an update may overwrite the gradients.
        self._grads = (matrix.clone(), used) if self.keeps_grads else None
        if self._used != used:
            self._used, self._blocks = used, self._split(used)
        numbers = self._numbers()
        with self._unchanged(skipped):
            for block in self._blocks:
                self._update(block, matrix[:, block.start : block.stop], numbers[block.group])
            self._advance(np.array(used), numbers)
        if scales is not None and skipped is not None:
            scales.update(skipped)
        for optimizer in self.optimizers:
            optimizer._opt_called = True  # else a learning rate scheduler warns

    def _update(self, block: Block, grads: Any, numbers: MemberNumbers) -> None:
        columns = slice(block.start, block.stop)
        names = [name for name in self.names if numbers.some("momentum") or name not in self.rule.later]
        state = {name: self._tensor_of(name)[:, columns] for name in names}
        steps = self.steps[:, block.first]
        self.rule.update(BlockStep(self.weights[:, columns], grads, numbers, steps, state, self._column))

    @contextlib.contextmanager
    def _unchanged(self, skipped: Flags | None) -> Iterator[None]:
        """Let the rows of some members be afterwards as they were: an update computes all rows."""
        rows = np.empty(0, dtype=np.int64) if skipped is None else np.flatnonzero(skipped)
        if not len(rows):
            yield
            return
        chosen = torch.from_numpy(rows).to(self.weights.device)
        weights, steps = self.weights[chosen], self.steps[rows]
        state = {name: tensor[chosen] for name, tensor in self.state.items()}
        present = {name: flags[rows] for name, flags in self.present.items()}
        yield
        self.weights[chosen], self.steps[rows] = weights, steps
        for name, tensor in self.state.items():
            tensor[chosen] = state.get(name, 0.0)  # zero if this step has begun it: it is as without the step
        for name, flags in present.items():
            self.present[name][rows] = flags

    def _advance(self, used: npt.NDArray[np.bool_], numbers: list[MemberNumbers]) -> None:
        for name in (name for name in self.names if not self.present[name].all()):
            if name not in self.rule.later:
                self.present[name] |= used
                continue
            has_momentum = np.stack([numbers[p.group]["momentum"] != 0 for p in self.parameters], axis=1)
            self.present[name] |= used & has_momentum
        self.steps = self.steps + used if self.rule.counts_steps else self.present[self.names[0]].astype(np.float64)

    def _matrix(self, grads: Sequence[Any], used: tuple[bool, ...]) -> Any:
        count = len(self.weights)
        if all(used):
            return torch.cat([grad.reshape(count, -1) for grad in grads], 1)
        parts = [
            self.weights.new_zeros(count, p.stop - p.start) if grad is None else grad.reshape(count, -1)
            for grad, p in zip(grads, self.parameters, strict=True)
        ]
        return torch.cat(parts, 1)

    def _clip(self, matrix: Any, limits: OptionValues) -> None:
        """Clip as ``torch.nn.utils.clip_grad_norm_`` does, each row by its own norm."""
        norms, most = torch.linalg.vector_norm(matrix, dim=1, keepdim=True), self._column(limits)
        factors = (most / (norms + 1e-6)).clamp_(max=1.0)
        # Infinite by infinite is no number: a norm may overflow where no gradient does.
        matrix.mul_(torch.where(most.isinf(), 1.0, factors))

    def _split(self, used: tuple[bool, ...]) -> list[Block]:
        def sort(number: int) -> tuple[Any, ...]:
            flags = [flags[:, number].tobytes() for flags in self.present.values()]
            return used[number], self.parameters[number].group, self.steps[:, number].tobytes(), *flags

        blocks = []
        for key, numbers in itertools.groupby(range(len(used)), key=sort):
            if key[0]:
                places = list(numbers)
                start, stop = self.parameters[places[0]].start, self.parameters[places[-1]].stop
                blocks.append(Block(key[1], places[0], start, stop))
        return blocks

    def _numbers(self) -> list[MemberNumbers]:
        """Return for each group the options of each member now: schedules change them between steps."""
        found = [[settings(optimizer, group) for group in optimizer.param_groups] for optimizer in self.optimizers]
        if found != self._found:
            self._found = found
            kind = self.optimizers[0]
            groups = [np.array([numbers_of(kind, one) for one in rows]) for rows in zip(*found, strict=True)]
            self._options = [
                MemberNumbers({name: group[:, at] for at, name in enumerate(self.rule.options)}) for group in groups
            ]
        return self._options

    def _column(self, numbers: OptionValues) -> Any:
        key = numbers.tobytes()
        known = self._columns.get(key)
        if known is None:
            if len(self._columns) >= _MOST_COLUMNS:
                self._columns.clear()
            wide = torch.tensor(numbers, dtype=self.weights.dtype, device=self.weights.device).unsqueeze(1)
            known = self._columns[key] = wide
        return known

    def _tensor_of(self, name: str) -> Any:
        if name not in self.state:
            self.state[name] = torch.zeros_like(self.weights)
        return self.state[name]

    @staticmethod
    def _tensor(optimizer: Any, parameter: TrainedParameter) -> Any:
        return optimizer.param_groups[parameter.group]["params"][parameter.place]

    def _forget(self) -> None:
        """Compute anew all that depends on the rows."""
        self._used, self._blocks = (), []
        self._found, self._options = [], []
        self._columns = {}


def _put(state: dict[str, Any], name: str, value: Any, like: Any = None) -> None:
    """Put a value into the state of an optimizer; a tensor that is there stays, as others may hold it."""
    known = state.get(name)
    if isinstance(known, torch.Tensor) and known.shape == value.shape and known.dtype == value.dtype:
        known.copy_(value)
    elif like is None:
        state[name] = value
    else:
        state[name] = torch.empty_like(like, requires_grad=False).copy_(value)


_NO_STATE: dict[str, Any] = {}


def _step_tensor(steps: float, device: Any) -> Any:
    """Return the number of steps as torch's optimizers hold it: on the CPU, or on the device of a fused one."""
    is_double = device is None and torch.get_default_dtype() == torch.float64
    return torch.tensor(float(steps), dtype=torch.float64 if is_double else torch.float32, device=device or "cpu")

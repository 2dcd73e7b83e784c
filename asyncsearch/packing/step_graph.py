"""One step of a stack as a graph of tensor operations: what is compiled.

    tensors of the step = weights | state of the optimizers | fixed values | batch | columns of numbers | masks
    graph(*tensors)     = new weights | new state | new buffers | losses

The graph changes none of its inputs. What is no tensor, such as which members have momentum, is fixed in it: see
``StepShape``, which is compared before each use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree

from asyncsearch.packing.dropout_masks import MaskRequest
from asyncsearch.packing.step_columns import update_with
from asyncsearch.packing.update_rules import MemberNumbers, OptionValues


@dataclass(frozen=True)
class StepShape:
    """What a graph is made for, besides the number of members: a step that differs in it is not the graph's."""

    is_shared: bool
    batch: tuple[tuple[torch.Size, Any], ...]
    """Shape of one member's part and dtype of each tensor."""
    structure: Any
    """Of the batch."""
    numbers: tuple[tuple[frozenset[str], frozenset[str]], ...]
    """For each parameter group, the options that some members have, and those that all have."""
    blocks: tuple[Any, ...]
    state: tuple[str, ...]
    is_clipped: bool
    masks: tuple[MaskRequest, ...]


@dataclass
class StepTensors:
    """The tensors of one step, by what they are."""

    weights: Any
    state: list[Any]
    fixed: list[Any]
    batch: list[Any]
    columns: Any
    masks: list[Any]

    def flat(self) -> list[Any]:
        """Return all of them, in the order of the graph."""
        return [self.weights, *self.state, *self.fixed, *self.batch, self.columns, *self.masks]


def traced(stack: Any, shape: StepShape, tensors: StepTensors, numbers: Sequence[MemberNumbers]) -> Any:
    """Return the graph of a step, a ``torch.fx.GraphModule``; tracing it computes the step once, on copies.

    Args:
        stack: a ``MemberStack``.
        shape: of the step.
        tensors: of the step, and of as many lanes as it is to have: at least the members.
        numbers: of each parameter group.

    Raises:
        Exception: the model does what no graph can hold.
    """
    rows, names = stack._rows, list(stack._fixed)
    counts = [len(tensors.state), len(tensors.fixed), len(tensors.batch), len(tensors.masks)]

    def step(*flat: Any) -> tuple[Any, ...]:
        found = iter(flat)
        weights = next(found)
        state, fixed, batch = ([next(found) for _ in range(count)] for count in counts[:3])
        columns, masks = next(found), [next(found) for _ in range(counts[3])]
        fixed = [one.clone() for one in fixed]
        leaves = _leaves(stack, weights)
        values = {**dict(zip(names, fixed, strict=True)), **leaves}
        given = _pytree.tree_unflatten(batch, shape.structure)
        losses = _losses(stack, values, given, shape, masks)
        grads = torch.autograd.grad(losses, list(leaves.values()), torch.ones_like(losses))
        with torch.no_grad():
            weights = weights.clone()
            after = {name: one.clone() for name, one in zip(shape.state, state, strict=True)}
            matrix = torch.cat([grad.reshape(len(weights), -1) for grad in grads], 1)
            asked = iter(columns.unsqueeze(2).unbind(0))
            limits: OptionValues | None = numbers[0][rows.rule.options[0]] if shape.is_clipped else None
            update_with(rows, weights, after, lambda _: next(asked), matrix, numbers, limits)
        buffers = [values[name] for name in stack._buffer_names]
        return (weights, *after.values(), *buffers, losses.detach())

    copies = [tensor.detach().clone() for tensor in tensors.flat()]
    masks = stack._model.masks
    models = masks.models
    masks.models = [*models, *[models[0]] * (len(tensors.weights) - len(models))]
    try:
        return make_fx(step, tracing_mode="real")(*copies)
    finally:
        masks.models = models


def _leaves(stack: Any, weights: Any) -> dict[str, Any]:
    return {
        one.name: weights[:, one.start : one.stop].view(len(weights), *one.shape).detach().requires_grad_()
        for one in stack._parameters
    }


def _losses(stack: Any, values: dict[str, Any], batch: Any, shape: StepShape, masks: list[Any]) -> Any:
    """Return the losses with masks that are given, and not drawn."""
    drawn, given = stack._model.masks.source, iter(zip(shape.masks, masks, strict=True))

    def source(request: MaskRequest, _device: Any) -> Any:
        expected, mask = next(given)
        if request != expected:
            raise RuntimeError(f"dropout layer {request.name!r} was expected to be {expected}, and is {request}")
        return mask

    stack._model.masks.source = source
    try:
        return stack._model.losses(values, batch, shape.is_shared, None)
    finally:
        stack._model.masks.source = drawn

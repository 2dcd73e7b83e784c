"""A compiled step of a stack: the tensors that it reads, with lanes that nobody uses where members are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree

from asyncsearch.packing.dropout_masks import MaskRequest
from asyncsearch.packing.step_columns import columns_of
from asyncsearch.packing.step_graph import StepShape, StepTensors
from asyncsearch.packing.update_rules import MemberNumbers, OptionValues

Run = Callable[[list[Any]], Sequence[Any]]
"""Computes a step: the tensors of the graph, and its results."""


@dataclass(frozen=True)
class CompiledStep:
    """What was compiled, and for how many lanes."""

    run: Run
    shape: StepShape
    lanes: int

    def fits(self, shape: StepShape, members: int) -> bool:
        """Return whether it computes this step, with no more lanes unused than used."""
        return members <= self.lanes <= 2 * members and shape == self.shape


def shape_of(
    stack: Any, batch: Any, is_shared: bool, numbers: Sequence[MemberNumbers], limits: Any, masks: Sequence[MaskRequest]
) -> StepShape | None:
    """Return what a graph of this step must be made for; None: no graph can hold it."""
    leaves, structure = _pytree.tree_flatten(batch)
    rows = stack._rows
    if not rows._blocks or not all(rows._used) or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return None
    parts = tuple((leaf.shape if is_shared else leaf.shape[1:], leaf.dtype) for leaf in leaves)
    options = tuple((one._some, one._every) for one in numbers)
    blocks = tuple((block.group, block.first, block.start, block.stop) for block in rows._blocks)
    names = tuple(rows.state)
    return StepShape(is_shared, parts, structure, options, blocks, names, limits is not None, tuple(masks))


def tensors_of(stack: Any, batch: Any, shape: StepShape, columns: Any, lanes: int) -> StepTensors:
    """Return the tensors of a step; drawing the masks moves the generators of the members on.

    Args:
        stack: a ``MemberStack``.
        batch: as the model takes it.
        shape: of this step.
        columns: of this step, for so many lanes; see ``columns_for``.
        lanes: at least the number of members: each further one repeats the first.
    """
    rows, masks = stack._rows, stack._model.masks
    missing = lanes - len(stack.members)
    device = rows.weights.device
    leaves = _pytree.tree_leaves(batch)
    drawn = [masks.draw(request, device) for request in shape.masks]
    return StepTensors(
        filled(rows.weights, missing),
        [filled(rows.state[name], missing) for name in shape.state],
        [filled(tensor, missing) for tensor in stack._fixed.values()],
        leaves if shape.is_shared else [filled(leaf, missing) for leaf in leaves],
        columns,
        [_filled_mask(mask, one.is_channels, missing, lanes) for mask, one in zip(drawn, shape.masks, strict=True)],
    )


def columns_for(rows: Any, numbers: list[MemberNumbers], limits: OptionValues | None, lanes: int) -> Any:
    """Return the columns of numbers that a step reads, (columns, lanes).

    Args:
        rows: of the members.
        numbers: of each parameter group.
        limits: the largest norm of each member's gradient; None: not clipped.
        lanes: at least the number of members: each further one repeats the first.
    """
    columns = np.stack(columns_of(rows, numbers, limits))
    if missing := lanes - columns.shape[1]:
        columns = np.concatenate([columns, columns[:, :1].repeat(missing, 1)], 1)
    return torch.from_numpy(columns).to(device=rows.weights.device, dtype=rows.weights.dtype)


def filled(tensor: Any, missing: int) -> Any:
    """Return (K, ...) with so many more rows, each as the first."""
    if not missing:
        return tensor
    whole = tensor._base
    if whole is not None and len(whole) == len(tensor) + missing and tensor.data_ptr() == whole.data_ptr():
        return whole  # the result of the step before, in which nothing was changed since
    return torch.cat([tensor, tensor[:1].expand(missing, *tensor.shape[1:])])


def put(stack: Any, shape: StepShape, results: Sequence[Any], numbers: list[MemberNumbers]) -> Any:
    """Let a stack have the results of a step, as ``OptimizerRows.update`` would; return the losses, (K,)."""
    rows, count = stack._rows, len(stack.members)
    weights, *rest = (one if len(one) == count else one[:count] for one in results)
    states, buffers, losses = rest[: len(shape.state)], rest[len(shape.state) : -1], rest[-1]
    rows.weights = weights
    rows.state.update(zip(shape.state, states, strict=True))
    stack._fixed.update(zip(stack._buffer_names, buffers, strict=True))
    rows._advance(np.array(rows._used), numbers)
    for optimizer in rows.optimizers:
        optimizer._opt_called = True
    return losses


def _filled_mask(mask: Any, is_channels: bool, missing: int, lanes: int) -> Any:
    if not is_channels or not missing:
        return filled(mask, missing)
    width = mask.shape[1] // (lanes - missing)
    return torch.cat([mask, *[mask[:, :width]] * missing], 1)

"""The numbers of optimizers that one step of a stack reads, found without computing the step."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from asyncsearch.packing.optimizer_rows import OptimizerRows
from asyncsearch.packing.update_rules import MemberNumbers, OptionValues


def columns_of(rows: OptimizerRows, numbers: list[MemberNumbers], limits: OptionValues | None) -> list[OptionValues]:
    """Return the columns that the update of these rows asks for, each (K,), in the order in which it asks.

    Args:
        rows: after a step, so that their blocks are known.
        numbers: of each parameter group.
        limits: the largest norm of each member's gradient; None: not clipped.
    """
    found: list[OptionValues] = []

    def column(values: OptionValues) -> Any:
        found.append(np.asarray(values, dtype=np.float64))
        return _NOTHING

    state = dict.fromkeys(rows.state, _NOTHING)
    update_with(rows, _NOTHING, state, column, _NOTHING, numbers, limits)
    return found


def update_with(
    rows: OptimizerRows,
    weights: Any,
    state: dict[str, Any],
    column: Callable[[OptionValues], Any],
    grads: Any,
    numbers: Sequence[MemberNumbers],
    limits: OptionValues | None,
) -> None:
    """Update other weights and another state in place, as ``rows`` would update theirs, with columns that are given."""
    other: Any = copy.copy(rows)
    other.weights, other.state, other._column = weights, state, column
    if limits is not None:
        other._clip(grads, limits)
    for block in rows._blocks:
        other._update(block, grads[:, block.start : block.stop], numbers[block.group])


class _Nothing:
    """Takes the place of a tensor: every operation on it returns it and computes nothing."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _NOTHING

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing

    def __getitem__(self, index: Any) -> Any:
        return self

    def __ne__(self, other: object) -> Any:
        return self

    __hash__ = None  # type: ignore[assignment]

    def __mul__(self, other: Any) -> Any:
        return self

    __truediv__ = __add__ = __rmul__ = __mul__


_NOTHING = _Nothing()


def _nothing(*_: Any, **__: Any) -> Any:
    return _NOTHING

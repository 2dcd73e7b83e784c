"""The metrics of trainers that trained together: computed at once where they are the default ones on the same data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree

from asyncsearch.errors import UsageError
from asyncsearch.packing.member_stack import MemberStack
from asyncsearch.trainers.packs.sample_streams import EqualData
from asyncsearch.trainers.torch.batches import length_of
from asyncsearch.trainers.torch.packs.samples import is_plain

_DEFAULTS = ("evaluate", "metrics", "batches", "_metrics", "_count")
"""Methods that are called for each trainer by itself where its class has one of its own."""


def metrics_of_stacks(
    stacks: Sequence[tuple[MemberStack, Sequence[Any]]], equal: EqualData
) -> dict[int, Mapping[str, Any]]:
    """Return metrics by the ids of trainers; none of those that need their own ``evaluate``.

    Args:
        stacks: with the trainers of their members, whose losses are known to be one.
        equal: knows which data are equal.
    """
    found: dict[int, Mapping[str, Any]] = {}
    for stack, trainers in stacks:
        if _has_defaults(trainers, equal):
            found |= dict(zip(map(id, trainers), _stack_metrics(stack, trainers[0]), strict=False))
    return found


def _has_defaults(trainers: Sequence[Any], equal: EqualData) -> bool:
    kind: Any = type(trainers[0])
    if not all(map(kind.has_default, _DEFAULTS)):
        return False
    if any(name in vars(trainer) for trainer in trainers for name in (*_DEFAULTS, "loss")):
        return False
    return len({equal.number(trainer._validation_data) for trainer in trainers}) == 1 and _is_known(trainers[0])


def _is_known(trainer: Any) -> bool:
    """Return whether the data are tensors and, for the default loss, pairs with one class for each sample."""
    data = trainer._validation_data
    if not is_plain(data):
        return False
    if not type(trainer).has_default("loss"):
        return True
    parts = _pytree.tree_leaves(data)
    return isinstance(data, tuple | list) and len(parts) == 2 and not _is_floating(parts[1])


def _is_floating(part: Any) -> bool:
    return part.is_floating_point() if isinstance(part, torch.Tensor) else not np.issubdtype(part.dtype, np.integer)


def _stack_metrics(stack: MemberStack, trainer: Any) -> list[Mapping[str, Any]]:
    """Return the metrics of each member, those of ``TorchTrainer.metrics``; none where that needs each by itself."""
    count, losses, right = 0, np.zeros(len(stack.members)), np.zeros(len(stack.members), dtype=np.int64)
    has_accuracy, before = True, stack.state_of_all()
    try:
        for batch in trainer.batches(trainer._validation_data):
            found, right_answers = stack.validated(batch)
            size = length_of(batch)
            losses += np.array(found.tolist()) * size
            count += size
            has_accuracy = right_answers is not None
            right += np.array(right_answers.tolist()) if has_accuracy else 0
    except (RuntimeError, UsageError):  # a loss that does another thing in evaluation mode
        return []
    if not stack.is_as(before):  # its model has changed a buffer
        for member in stack.members:
            stack.sync(member)
    columns = {"loss": (losses / count).tolist()} | ({"accuracy": (right / count).tolist()} if has_accuracy else {})
    return [{name: column[row] for name, column in columns.items()} for row in range(len(stack.members))]

"""Mean losses of batches of different sizes: the smaller ones are padded, and the padding does not count."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional
from torch.utils import _pytree

from asyncsearch.errors import UsageError

_CONSTANTS = (int, float, bool, str, bytes, type(None))
_IGNORED = -100
"""The class that torch's cross entropy leaves out."""


def batch_length(batch: Any) -> int:
    """Return the number of samples: the length of the first tensor."""
    for leaf in _pytree.tree_leaves(batch):
        if _has_samples(leaf):
            return len(leaf)
    raise UsageError(f"A batch of type {type(batch).__name__} has no tensor with samples: give tensors, as in (x, y).")


def first_samples(batch: Any, count: int) -> Any:
    """Return the beginning of a batch."""
    return _pytree.tree_map(lambda leaf: leaf[:count] if _has_samples(leaf) else leaf, batch)


def copied_batch(batch: Any) -> Any:
    """Return a batch for one more call of code of the user, which may change its tensors in place."""
    leaves, structure = _pytree.tree_flatten(batch)
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    storages = {leaf.untyped_storage().data_ptr() for leaf in tensors}
    are_plain = all(isinstance(leaf, torch.Tensor) or type(leaf) in _CONSTANTS for leaf in leaves)
    if len(storages) < len(tensors) or not are_plain:  # what overlaps in one overlaps in the other
        return copy.deepcopy(batch)
    return _pytree.tree_unflatten(
        [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], structure
    )


def stacked_batches(batches: Sequence[Any]) -> tuple[Any, list[int] | None]:
    """Return batches as one with a leading axis of K, padded with their last sample, and their sizes if they differ."""
    distinct = {id(batch): batch for batch in batches}  # many members have one batch, which is looked at once
    sizes = {key: batch_length(batch) for key, batch in distinct.items()}
    found, structures = zip(*map(_pytree.tree_flatten, distinct.values()), strict=True)
    if any(structure != structures[0] for structure in structures):
        raise UsageError("The batches of the members have different structures: give each the same tuple or dict.")
    place = {key: at for at, key in enumerate(distinct)}
    rows = [place[id(batch)] for batch in batches]
    leaves = [_stacked(parts, list(sizes.values()), rows) for parts in zip(*found, strict=True)]
    is_even = len(set(sizes.values())) == 1
    return _pytree.tree_unflatten(leaves, structures[0]), None if is_even else [sizes[id(batch)] for batch in batches]


def _stacked(parts: Sequence[Any], sizes: list[int], rows: Sequence[int]) -> Any:
    """Return the parts that are named in ``rows`` as one, each padded to the largest size."""
    if not isinstance(parts[0], torch.Tensor):
        if any(part != parts[0] for part in parts):
            raise UsageError(f"The batches of the members differ in {parts[0]!r}, which is no tensor: make it one.")
        return parts[0]
    _require_one_kind(parts, sizes)
    most = max(sizes)
    padded = [
        _padded(part, most) if part.dim() and len(part) == size else part
        for part, size in zip(parts, sizes, strict=True)
    ]
    return torch.stack([padded[row] for row in rows])


def _require_one_kind(parts: Sequence[Any], sizes: list[int]) -> None:
    kinds = [_kind_of(part, size) for part, size in zip(parts, sizes, strict=True)]
    other = next((kind for kind in kinds if kind != kinds[0]), None)
    if other is not None:
        raise UsageError(
            f"The batches of the members differ in what a sample is, {kinds[0]} and {other}: give all members tensors "
            "of one shape and dtype, or make a pack for each kind of data."
        )


def kinds_of(batch: Any) -> Any:
    """Return a batch with the kind of each tensor, its dtype and the shape of a sample, in the place of the tensor."""
    size = next((len(leaf) for leaf in _pytree.tree_leaves(batch) if _has_samples(leaf)), 0)
    return _pytree.tree_map(lambda leaf: _kind_of(leaf, size) if isinstance(leaf, torch.Tensor) else leaf, batch)


def _kind_of(tensor: Any, size: int) -> str:
    has_samples = tensor.dim() > 0 and len(tensor) == size
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape[1:] if has_samples else tensor.shape)}"


def _padded(part: Any, most: int) -> Any:
    """Repeat the last sample: it is as finite as the others, unlike an empty one behind a division."""
    missing = most - len(part)
    return part if not missing else torch.cat([part, part[-1:].expand(missing, *part.shape[1:])])


def _has_samples(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.dim() > 0


def stacked_cross_entropy(outputs: Any, y: Any, is_shared: bool, sizes: Sequence[int] | None) -> Any:
    """Return the mean cross entropy of each member, (K,), as torch computes it for one.

    Args:
        outputs: (K, B, C, ...).
        y: classes (B, ...) or probabilities (B, C, ...), with a leading axis of K unless they are shared.
        is_shared: whether all members have the same y.
        sizes: samples of each member that count; None for all.
    """
    found, counts = cross_entropy_sums(outputs, y, is_shared, sizes)
    return found / counts


def cross_entropy_sums(outputs: Any, y: Any, is_shared: bool, sizes: Sequence[int] | None = None) -> tuple[Any, Any]:
    """Return the sum of the cross entropies of each member, (K,), and how many they are, (K,)."""
    rows = y.expand(len(outputs), *y.shape) if is_shared else y
    has_classes = not rows.is_floating_point()
    # Classes before samples: over the last of few numbers torch's softmax takes three times as long.
    ordered = outputs.transpose(1, 2).contiguous()
    found = functional.cross_entropy(ordered, rows if has_classes else rows.transpose(1, 2), reduction="none")
    counts = rows != _IGNORED if has_classes else torch.ones_like(found, dtype=torch.bool)
    if sizes is not None:
        counts = counts & _first(sizes, found).view(*found.shape[:2], *[1] * (found.dim() - 2))
        found = torch.where(counts, found, 0.0)  # not a product: 0 times an infinite loss of padding is no number
    return found.flatten(1).sum(1), counts.flatten(1).sum(1)


def masked_mean(losses: Any, sizes: Sequence[int]) -> Any:
    """Return the mean of the first losses of each member, (K,), from (K, B)."""
    if losses.dim() != 2:
        raise UsageError(
            f"sample_losses(model, batch) must return one loss for each sample, a tensor (B,); it returned "
            f"{losses.dim() - 1} dimensions: use reduction='none', and the mean over what a sample has."
        )
    return torch.where(_first(sizes, losses), losses, 0.0).sum(1) / torch.tensor(sizes, device=losses.device)


def _first(sizes: Sequence[int], like: Any) -> Any:
    """Return which samples are not padding, (K, B)."""
    places = torch.arange(like.shape[1], device=like.device)
    return places < torch.tensor(sizes, device=like.device).unsqueeze(1)

"""The layers that are computed for K members by one call: as a batched product, a grouped convolution, or as they are.

Each class below computes one kind of layer. The draws of a layer come from ``DropoutMasks``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional

from asyncsearch.packing.stack.activations import DROPOUTS, Activations, DropoutMasks

nn: Any = torch.nn
StackedValues = Mapping[str, Any]
"""Parameters and buffers of all members by name, each (K, ...)."""


class OtherRankError(Exception):
    """A known layer has an input of another rank than a batch: its own ``forward`` decides what that means."""


class StackedLayer:
    """A layer for all members; this class is for those that treat each number by itself."""

    rank: int | None = None
    """The rank of a batch, for layers that also take one sample without a batch."""

    def __init__(self, module: Any, name: str) -> None:
        """Take the layer of the first member, and its name in the model."""
        self.module, self.name = module, name
        self._prefix = f"{name}." if name else ""

    def can_compute(self) -> bool:
        """Return whether this layer, with its settings, is one that can be computed for all members."""
        return True

    def run(self, values: StackedValues, x: Activations, masks: DropoutMasks) -> Activations:
        """Return the activations behind the layer."""
        return x.of(self.module(x.tensor))

    def value(self, values: StackedValues, name: str) -> Any:
        """Return a parameter or a buffer of the layer, (K, ...), or None."""
        return values.get(self._prefix + name)


class StackedLinear(StackedLayer):
    """One batched matrix product."""

    def run(self, values: StackedValues, x: Activations, masks: DropoutMasks) -> Activations:
        weight, bias, rows = self.value(values, "weight"), self.value(values, "bias"), x.as_rows()
        flat = rows.flatten(1, -2) if rows.dim() != 3 else rows
        weight = weight.transpose(1, 2)
        out = torch.bmm(flat, weight) if bias is None else torch.baddbmm(bias.unsqueeze(1), flat, weight)
        return x.of(out if rows.dim() == 3 else out.unflatten(1, rows.shape[1:-1]), "rows")


class StackedConvolution(StackedLayer):
    """One convolution with the channels of all members side by side, a group for each member."""

    def can_compute(self) -> bool:
        return bool(self.module.padding_mode == "zeros")

    def run(self, values: StackedValues, x: Activations, masks: DropoutMasks) -> Activations:
        module, bias = self.module, self.value(values, "bias")
        convolve = _CONVOLUTIONS[type(module)]
        weight = self.value(values, "weight").flatten(0, 1)
        bias = None if bias is None else bias.flatten()
        is_one = x.layout == "shared" and module.groups == 1  # all members see the same channels
        x_in, groups = (x.tensor, 1) if is_one else (x.as_channels(), module.groups * x.count)
        return x.of(convolve(x_in, weight, bias, module.stride, module.padding, module.dilation, groups), "channels")


class StackedPool(StackedLayer):
    """A pooling, each channel by itself."""

    def can_compute(self) -> bool:
        return not getattr(self.module, "return_indices", False)

    def run(self, values: StackedValues, x: Activations, masks: DropoutMasks) -> Activations:
        if x.layout == "rows":
            return x.of(self.module(x.as_channels()), "channels")
        return x.of(self.module(x.tensor))


class StackedFlatten(StackedLayer):
    """A view of each sample."""

    def run(self, values: StackedValues, x: Activations, masks: DropoutMasks) -> Activations:
        if x.layout == "shared":
            return x.of(self.module(x.tensor))
        start, end = (at + 1 if at >= 0 else at for at in (self.module.start_dim, self.module.end_dim))
        return x.of(x.as_rows().flatten(start, end), "rows")


class StackedUnflatten(StackedLayer):
    """A view of each sample."""

    def can_compute(self) -> bool:
        return isinstance(self.module.dim, int)

    def run(self, values: StackedValues, x: Activations, masks: DropoutMasks) -> Activations:
        if x.layout == "shared":
            return x.of(self.module(x.tensor))
        at = self.module.dim + 1 if self.module.dim >= 0 else self.module.dim
        return x.of(x.as_rows().unflatten(at, self.module.unflattened_size), "rows")


class StackedBatchNorm(StackedLayer):
    """One BatchNorm over the channels of all members; running averages are updated in place."""

    def can_compute(self) -> bool:
        return self.module.momentum is not None  # else it weighs a batch by the number of those before

    def run(self, values: StackedValues, x: Activations, masks: DropoutMasks) -> Activations:
        module = self.module
        weight, bias = (self._flat(values, name) for name in ("weight", "bias"))
        mean, var = (self._flat(values, name) for name in ("running_mean", "running_var"))
        if module.training and mean is not None:
            self.value(values, "num_batches_tracked").add_(1)
        by_batch = module.training or mean is None
        out = functional.batch_norm(x.as_channels(), mean, var, weight, bias, by_batch, module.momentum, module.eps)
        return x.of(out, "channels")

    def _flat(self, values: StackedValues, name: str) -> Any:
        """Return (K, C) as (K * C); of running averages a view, as a copy would lose their update."""
        if (value := self.value(values, name)) is None:
            return None
        return value.view(-1) if name.startswith("running") else value.flatten()


class StackedLayerNorm(StackedLayer):
    """One LayerNorm, and each member's own scale."""

    def run(self, values: StackedValues, x: Activations, masks: DropoutMasks) -> Activations:
        weight, bias, rows = self.value(values, "weight"), self.value(values, "bias"), x.as_rows()
        shape, eps = self.module.normalized_shape, self.module.eps
        if weight is None or weight.dtype == rows.dtype:
            return x.of(self._scaled(functional.layer_norm(rows, shape, None, None, eps), weight, bias), "rows")
        kind = functional.layer_norm(rows[:0], shape, None, None, eps).dtype  # what autocast makes of it
        wide = functional.layer_norm(rows.to(weight.dtype), shape, None, None, eps)
        return x.of(self._scaled(wide, weight, bias).to(kind), "rows")

    @staticmethod
    def _scaled(out: Any, weight: Any, bias: Any) -> Any:
        out = out if weight is None else out * _beside(weight, out)
        return out if bias is None else out + _beside(bias, out)


class StackedEmbedding(StackedLayer):
    """Each member's vectors at the same or at its own indices."""

    def can_compute(self) -> bool:
        return self.module.max_norm is None and not self.module.scale_grad_by_freq and not self.module.sparse

    def run(self, values: StackedValues, x: Activations, masks: DropoutMasks) -> Activations:
        weight, padding = self.value(values, "weight"), self.module.padding_idx
        indices = x.tensor if x.layout == "shared" else x.as_rows()
        if x.layout == "shared":
            found = weight[:, indices]
        else:
            members = torch.arange(x.count, device=indices.device)
            found = weight[members.view(-1, *[1] * (indices.dim() - 1)), indices]
        if padding is not None:  # its vector has no gradient
            found = torch.where((indices == padding).unsqueeze(-1), found.detach(), found)
        return x.of(found, "rows")


class StackedDropout(StackedLayer):
    """Each member's own p and generator."""

    def run(self, values: StackedValues, x: Activations, masks: DropoutMasks) -> Activations:
        return masks.applied(self.name, self.module, x)


def stacked_layers(module: Any, name: str) -> list[StackedLayer] | None:
    """Return the layers that compute a module for all members, if it is a known one or a sequence of known ones."""
    if type(module) is nn.Sequential:
        found = [stacked_layers(child, f"{name}.{key}" if name else key) for key, child in module.named_children()]
        return None if None in found else [layer for layers in found if layers is not None for layer in layers]
    kind = _KINDS.get(type(module))
    layer = None if kind is None else kind(module, name)
    if layer is None or not layer.can_compute():
        return None
    layer.rank = _RANKS.get(type(module))
    return [layer]


def computed(layers: list[StackedLayer], values: StackedValues, x: Activations, masks: DropoutMasks) -> Activations:
    """Return the activations behind layers.

    Raises:
        OtherRankError: a layer has no batch; some layers may have been computed.
    """
    for layer in layers:
        if layer.rank not in (None, x.rank):
            raise OtherRankError
        x = layer.run(values, x, masks)
    return x


def _beside(parameter: Any, rows: Any) -> Any:
    """Return (K, *shape) as (K, 1, ..., 1, *shape), which multiplies (K, B, ..., *shape)."""
    return parameter.view(len(parameter), *[1] * (rows.dim() - parameter.dim()), *parameter.shape[1:])


NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LayerNorm)
"""Layers whose parameters may have another dtype than their input, which ``vmap`` computes otherwise or not at all."""
_POINTWISE = (nn.Identity, nn.ReLU, nn.ReLU6, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.LeakyReLU, nn.ELU, nn.Softplus)
_CONVOLUTIONS = {nn.Conv1d: functional.conv1d, nn.Conv2d: functional.conv2d, nn.Conv3d: functional.conv3d}
_POOLS = {
    nn.MaxPool1d: 3,
    nn.MaxPool2d: 4,
    nn.MaxPool3d: 5,
    nn.AvgPool1d: 3,
    nn.AvgPool2d: 4,
    nn.AvgPool3d: 5,
    nn.AdaptiveAvgPool1d: 3,
    nn.AdaptiveAvgPool2d: 4,
    nn.AdaptiveAvgPool3d: 5,
}
_RANKS = {**_POOLS, nn.Conv1d: 3, nn.Conv2d: 4, nn.Conv3d: 5, nn.Dropout1d: 3}
_KINDS: dict[type[Any], type[StackedLayer]] = {
    **dict.fromkeys(_POINTWISE, StackedLayer),
    **dict.fromkeys(_CONVOLUTIONS, StackedConvolution),
    **dict.fromkeys(_POOLS, StackedPool),
    **dict.fromkeys((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), StackedBatchNorm),
    **dict.fromkeys(DROPOUTS, StackedDropout),
    nn.Linear: StackedLinear,
    nn.Flatten: StackedFlatten,
    nn.Unflatten: StackedUnflatten,
    nn.LayerNorm: StackedLayerNorm,
    nn.Embedding: StackedEmbedding,
}

"""The activations of K members between two layers, in the layout that costs the next layer the least; and dropout.

The masks of dropout are drawn for each member as its own training would draw them, with its own p and generator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from asyncsearch.errors import UsageError

ActivationLayout = Literal["shared", "rows", "channels"]


@dataclass(frozen=True)
class Activations:
    """One tensor for K members that each see a batch of B samples.

    ``shared`` is (B, ...): all members have the same. ``rows`` is (K, B, ...). ``channels`` is (B, K * C, ...): the
    channels of all members side by side, as a grouped convolution wants them.
    """

    tensor: Any
    layout: ActivationLayout
    count: int
    """K."""

    @property
    def rank(self) -> int:
        """The rank of one member's tensor."""
        return int(self.tensor.dim()) - (self.layout == "rows")

    def as_rows(self) -> Any:
        """Return (K, B, ...)."""
        if self.layout == "rows":
            return self.tensor
        if self.layout == "shared":
            return self.tensor.expand(self.count, *self.tensor.shape)
        return self.tensor.unflatten(1, (self.count, -1)).transpose(0, 1)

    def as_channels(self) -> Any:
        """Return (B, K * C, ...)."""
        return self.tensor if self.layout == "channels" else self.as_rows().transpose(0, 1).flatten(1, 2)

    def of(self, tensor: Any, layout: ActivationLayout | None = None) -> Activations:
        """Return other activations of the same members."""
        return Activations(tensor, layout or self.layout, self.count)


nn: Any = torch.nn
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
"""``nn.Dropout`` drops numbers, the others whole channels."""


class DropoutMasks:
    """Draws the masks of one step."""

    def __init__(self) -> None:
        self.models: list[Any] = []
        self.generators: list[Any] = []
        self.sizes: Sequence[int] | None = None
        """Samples of each member in this step where batches are padded; None for all of them."""

    def applied(self, name: str, module: Any, x: Activations) -> Activations:
        """Return the activations behind the layer with this name; ``module`` is that of the first member."""
        if not module.training or not any(rates := self._rates(name)):
            return x
        rows = x.as_rows()
        shape = list(rows.shape[1:])
        if type(module) is not nn.Dropout:
            shape[2:] = [1] * (len(shape) - 2)
        masks = [
            self._mask(rate, self._size(member, shape, name), shape, generator, rows.dtype, rows.device)
            for member, (rate, generator) in enumerate(zip(rates, self.generators, strict=True))
        ]
        if x.layout == "channels":
            return x.of(x.tensor * torch.cat(masks, 1), "channels")
        return x.of(rows * torch.stack(masks), "rows")

    def _rates(self, name: str) -> list[float]:
        """Return the ``p`` of each member in a layer now."""
        return [model.get_submodule(name).p for model in self.models]

    def _size(self, member: int, shape: list[int], name: str) -> int:
        if self.sizes is None:
            return shape[0]
        if shape[0] != max(self.sizes):
            raise UsageError(
                f"The batches of the members differ in size, and dropout layer {name!r} sees {shape[0]} samples for "
                f"{max(self.sizes)} in the batch: keep the samples first, or give the members one batch size."
            )
        return self.sizes[member]

    @staticmethod
    def _mask(rate: float, size: int, shape: list[int], generator: Any, dtype: Any, device: Any) -> Any:
        mask = torch.ones(shape, dtype=dtype, device=device)
        if rate == 1:
            return mask.zero_()
        if rate > 0:  # as torch does: no number is drawn where p is 0 or 1
            drawn = mask[:size]
            drawn.bernoulli_(1 - rate, generator=generator).div_(1 - rate)
        return mask

"""The masks of dropout for K members: each drawn as its own training would draw it, with its own p and generator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from asyncsearch.errors import UsageError
from asyncsearch.packing.activations import Activations

nn: Any = torch.nn
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
"""``nn.Dropout`` drops numbers, the others whole channels."""


class MaskRequest(NamedTuple):
    """A mask that a layer asks for."""

    name: str
    """Of the layer."""
    shape: tuple[int, ...]
    """Of one member's mask."""
    is_channels: bool
    """Whether the masks lie side by side, (B, K * C, ...), and not as rows, (K, B, ...)."""
    dtype: Any


class DropoutMasks:
    """Draws the masks of one step."""

    def __init__(self) -> None:
        self.models: list[Any] = []
        self.source: Callable[[MaskRequest, Any], Any] = self.draw
        """Returns the masks of all members for a layer, given the device: those that are drawn, or others."""
        self.generators: list[Any] = []
        self.sizes: Sequence[int] | None = None
        """Samples of each member in this step where batches are padded; None: all of them."""

    def applied(self, name: str, module: Any, x: Activations) -> Activations:
        """Return the activations behind the layer with this name; ``module`` is that of the first member."""
        if not module.training or not self.is_drawn(name):
            return x
        rows = x.as_rows()
        shape = list(rows.shape[1:])
        if type(module) is not nn.Dropout:
            shape[2:] = [1] * (len(shape) - 2)
        is_channels = x.layout == "channels"
        mask = self.source(MaskRequest(name, tuple(shape), is_channels, rows.dtype), rows.device)
        return x.of(x.tensor * mask, "channels") if is_channels else x.of(rows * mask, "rows")

    def draw(self, request: MaskRequest, device: Any) -> Any:
        """Draw the mask of each member from its generator; (K, B, ...), or (B, K * C, ...)."""
        name, shape = request.name, list(request.shape)
        masks = [
            self._mask(rate, self._size(member, shape, name), shape, generator, request.dtype, device)
            for member, (rate, generator) in enumerate(zip(self.rates(name), self.generators, strict=True))
        ]
        return torch.cat(masks, 1) if request.is_channels else torch.stack(masks)

    def is_drawn(self, name: str) -> bool:
        """Return whether a layer drops anything for a member now."""
        return any(model.get_submodule(name).p for model in self.models)

    def rates(self, name: str) -> list[float]:
        """Return the ``p`` of each member in a layer."""
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

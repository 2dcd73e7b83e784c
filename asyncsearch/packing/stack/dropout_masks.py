"""The masks of dropout for K members: each drawn as its own training would draw it, with its own p and generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from asyncsearch.errors import UsageError
from asyncsearch.packing.stack.activations import Activations

nn: Any = torch.nn
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d)
"""``nn.Dropout`` drops numbers, the others whole channels."""


class DropoutMasks:
    """Draws the masks of one step."""

    def __init__(self) -> None:
        self.models: list[Any] = []
        self.generators: list[Any] = []
        self.sizes: Sequence[int] | None = None
        """Samples of each member in this step where batches are padded; None: all of them."""

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

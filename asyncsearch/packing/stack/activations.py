"""The activations of K members between two layers, in the layout that costs the next layer the least."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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

"""The gradient scalers of K members as rows: torch's rule of ``GradScaler``, each member with its own numbers.

The scale of a member multiplies its loss, so that small gradients are not lost in half precision. A member whose
gradient is not finite then skips its step and has its scale reduced; after enough steps without that it grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

Flags = npt.NDArray[np.bool_]


class GradientScales:
    """The scales, (K,), and the steps since each one changed, (K,), in the place of those in the members' scalers."""

    def __init__(self, scalers: Sequence[Any]) -> None:
        """Take the states of ``torch.amp.GradScaler``, all of them enabled."""
        self.scalers = list(scalers)
        self._scales = np.empty(len(self.scalers), dtype=np.float32)
        self._growths, self._backoffs = np.empty((2, len(self.scalers)))
        self._intervals, self._tracked = np.empty((2, len(self.scalers)), dtype=np.int64)
        for row in range(len(self.scalers)):
            self.take(row)

    def take(self, row: int) -> None:
        """Copy the state of a member's scaler into its row."""
        state = self.scalers[row].state_dict()
        self._scales[row], self._tracked[row] = state["scale"], state["_growth_tracker"]
        self._growths[row], self._backoffs[row] = state["growth_factor"], state["backoff_factor"]
        self._intervals[row] = state["growth_interval"]

    def scaled(self, losses: Any) -> Any:
        """Return the losses, (K,), each times its scale."""
        return losses * self._row(self._scales, losses.device)

    def unscale(self, grads: Any) -> Flags:
        """Divide gradients, (K, P), by the scales in place, and return which of them were not finite, (K,)."""
        overflowed: Flags = (~grads.isfinite().all(1)).cpu().numpy()
        # In double precision, and as a product, as torch does.
        with np.errstate(divide="ignore", over="ignore"):
            inverse = (1.0 / self._scales.astype(np.float64)).astype(np.float32)
        grads.mul_(self._row(inverse, grads.device).unsqueeze(1))
        return overflowed

    def update(self, overflowed: Flags) -> None:
        """Reduce the scales of members that overflowed, and enlarge those that have not for their interval."""
        wide = self._scales.astype(np.float64)
        with np.errstate(over="ignore"):
            reduced, enlarged = ((wide * factors).astype(np.float32) for factors in (self._backoffs, self._growths))
        self._tracked = np.where(overflowed, 0, self._tracked + 1)
        is_due = self._tracked == self._intervals
        grown = np.where(is_due & np.isfinite(enlarged), enlarged, self._scales)
        self._scales = np.where(overflowed, reduced, grown)
        self._tracked = np.where(is_due, 0, self._tracked)

    def write(self, row: int) -> None:
        """Give the scaler of a member the state of its row."""
        scaler = self.scalers[row]
        scaler.load_state_dict(
            scaler.state_dict() | {"scale": float(self._scales[row]), "_growth_tracker": int(self._tracked[row])}
        )

    @staticmethod
    def _row(numbers: npt.NDArray[np.float32], device: Any) -> Any:
        return torch.from_numpy(numbers).to(device)


def scales_of(scalers: Sequence[Any]) -> GradientScales | None:
    """Return the scales of members; None if they have no scalers."""
    found = [scaler for scaler in scalers if scaler is not None and scaler.is_enabled()]
    return GradientScales(found) if found else None

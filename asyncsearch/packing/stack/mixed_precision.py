"""Mixed precision of members: the context of a forward pass, and its refusals."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from asyncsearch.packing.member import Member


def autocast_of(member: Member) -> contextlib.AbstractContextManager[Any]:
    """Return the context in which the loss of a member is computed in training; a step is outside of it."""
    if member.precision is None:
        return contextlib.nullcontext()
    kind = next(member.model.parameters()).device.type
    context: contextlib.AbstractContextManager[Any] = torch.autocast(kind, dtype=getattr(torch, member.precision))
    return context


def has_scaler(member: Member) -> bool:
    """Return whether the loss of a member is multiplied by a scale."""
    return member.scaler is not None and bool(member.scaler.is_enabled())


def precision_refusals(member: Member) -> Iterator[str]:
    """Yield why the mixed precision of a member cannot be that of a pack."""
    if not has_scaler(member):
        return
    kind = type(member.scaler)
    if kind is not torch.amp.GradScaler:
        yield f"its scaler is a {kind.__module__}.{kind.__qualname__}, whose rule is its own: use torch.amp.GradScaler"
    halves = [name for name, parameter in member.model.named_parameters() if parameter.dtype == torch.float16]
    if halves:
        yield f"parameter {halves[0]!r} is float16, whose gradient torch does not unscale: let it be float32"


def precision_differences(one: Member, other: Member) -> Iterator[str]:
    """Yield how the mixed precision of two members differs; the numbers of their scalers may."""
    if one.precision != other.precision:
        yield f"precision is {one.precision} in one and {other.precision} in the other"
    if has_scaler(one) != has_scaler(other):
        yield "only one of them has a gradient scaler"


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

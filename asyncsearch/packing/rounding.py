"""Whether two results of one step differ by rounding alone."""

from __future__ import annotations

from typing import Any

import torch

_TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4}
"""How far the results of one step may be apart, as a part of the largest number of the same kind: above rounding."""


def is_close(one: Any, other: Any) -> bool:
    """Return whether two tensors of one shape agree, what is not finite included."""
    if not other.is_floating_point():
        return bool(torch.equal(one, other))
    wide, its = one.double(), other.double()
    scale = its.nan_to_num(0.0, 0.0, 0.0).abs().max() if its.numel() else 0.0
    gap = _TOLERANCES.get(other.dtype, 1e-2)
    return bool(torch.allclose(wide, its, rtol=gap, atol=float(gap * scale), equal_nan=True))

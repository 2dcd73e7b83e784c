"""Loads torch's compiler before anything loads TensorFlow: the other way round, its LLVM ends the process."""

from __future__ import annotations

import contextlib

with contextlib.suppress(ImportError):
    import torch._inductor  # noqa: F401

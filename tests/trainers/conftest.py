"""Loads torch's compiler before anything loads TensorFlow: the other way round, its LLVM ends the process."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

import pytest

with contextlib.suppress(ImportError):
    import torch._inductor  # noqa: F401


@pytest.fixture
def double_precision() -> Iterator[None]:
    """Let Keras compute in double precision, and keep nothing of the test afterwards."""
    import keras

    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")  # which another test may have set
    yield
    keras.config.set_floatx(before[0])
    keras.config.set_dtype_policy(before[1])
    keras.backend.clear_session()
    gc.collect()

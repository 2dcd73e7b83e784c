"""Scikit-learn's digits without its modules, whose import takes a process longer than most tests train."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def load_digits() -> tuple[Any, Any]:
    """Return 1,797 images of 64 pixels from 0 to 16, and what they show; skip the test without scikit-learn."""
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        pytest.skip("it needs the digits of scikit-learn")
    with gzip.open(Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz", "rt") as lines:
        rows = np.loadtxt(lines, delimiter=",")
    return rows[:, :-1], rows[:, -1].astype(int)

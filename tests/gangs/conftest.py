"""Tests of trials on several workers. They need torch."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

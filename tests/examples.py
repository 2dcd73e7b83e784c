"""How many random examples a law is tried with."""

from __future__ import annotations

from hypothesis import settings


def examples(number: int) -> int:
    """Return the number of examples: all of them, or the profile's share of a hundred under ``--fast``."""
    return max(1, number * settings().max_examples // 100)

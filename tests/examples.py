"""How many random examples a law is tried with."""

from __future__ import annotations

from hypothesis import settings


def examples(number: int) -> int:
    """Return the number of examples: with ASYNCSEARCH_TESTS=all all of them, else the profile's share of a hundred."""
    return max(1, number * settings().max_examples // 100)

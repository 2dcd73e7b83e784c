"""Counter-based randomness: a generator is made for each draw, so there is no generator state to save or lose.

Rule 1: pure. The i-th generator of a purpose is a function of (seed, purpose, i) alone, not of earlier draws.
Rule 2: the values never change between releases (a test pins them). The module uses only the raw Philox stream and
``Generator.random``: numpy may change how its other distributions use the stream.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_DOUBLE_BITS = 53


def generator(seed: int, purpose: str, number: int) -> np.random.Generator:
    """Return a fresh generator for one draw. Costs about 10 microseconds.

    Args:
        seed: Seed of the study, any integer.
        purpose: The use of the draw, e.g. ``"searchers.random"``; draws of different purposes are independent.
        number: Number of the draw of this purpose, any integer.
    """
    # Imported here: reading a study draws nothing, and numpy takes as long to import as all of asyncsearch.
    import numpy as np

    # The integers come first: they hold no slash, so no two triples have the same text.
    text = f"{seed:d}/{number:d}/{purpose}"
    key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")
    return np.random.Generator(np.random.Philox(key=key))


def below(source: np.random.Generator, count: int) -> int:
    """Draw an integer from 0 to ``count - 1``, each equally likely; ``count`` is at least 1 and has no upper limit."""
    bits = (count - 1).bit_length()
    while True:
        drawn = _bits(source, bits)
        # Rejection sampling, since a remainder would favour small integers.
        if drawn < count:
            return drawn


def step_at(share: float, count: int) -> int:
    """Return the integer from 0 to ``count - 1`` at a share, 0 <= share < 1: each has an equal interval of shares."""
    # Integer arithmetic: a float product could be rounded up to ``count``.
    return (int(share * (1 << _DOUBLE_BITS)) * count) >> _DOUBLE_BITS


def _bits(source: np.random.Generator, bits: int) -> int:
    """Draw ``bits`` fair bits as an integer."""
    drawn = 0
    while bits > _DOUBLE_BITS:
        drawn = drawn << _DOUBLE_BITS | int(source.random() * (1 << _DOUBLE_BITS))
        bits -= _DOUBLE_BITS
    return drawn << bits | int(source.random() * (1 << bits)) if bits else drawn

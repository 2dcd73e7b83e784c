"""Delays between attempts to reconnect."""

from __future__ import annotations

import random

_FIRST_S = 0.05
_LONGEST_S = 5.0


class Backoff:
    """Delays that double, with jitter: a thousand workers that lost one driver do not all reconnect at once."""

    def __init__(self, jitter: random.Random | None = None, *, first_s: float = _FIRST_S) -> None:
        """Begin with a delay of at most ``first_s``; after ``reset``, with the usual one."""
        self._jitter = jitter or random.Random()
        self._delay_s = first_s

    def next_s(self) -> float:
        """Return the next delay: between half and the whole of the doubled delay."""
        delay_s = self._delay_s * self._jitter.uniform(0.5, 1.0)
        self._delay_s = min(2 * self._delay_s, _LONGEST_S)
        return delay_s

    def reset(self) -> None:
        self._delay_s = _FIRST_S

"""When to try again."""

from __future__ import annotations

import random

_FIRST_S = 0.05
_LONGEST_S = 5.0


class Backoff:
    """Delays that double, with jitter: a thousand workers that lost one driver do not come back at one moment."""

    def __init__(self, jitter: random.Random | None = None) -> None:
        self._jitter = jitter or random.Random()
        self._delay_s = _FIRST_S

    def next_s(self) -> float:
        """Return the next delay: between half of the doubled delay and all of it."""
        delay_s = self._delay_s * self._jitter.uniform(0.5, 1.0)
        self._delay_s = min(2 * self._delay_s, _LONGEST_S)
        return delay_s

    def reset(self) -> None:
        self._delay_s = _FIRST_S

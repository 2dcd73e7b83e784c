"""How a worker tries again to attach: the delays between its attempts, and the time limit of each. Pure.

A dead path should be given up soon, and a slow one needs time: attaching takes up to eight crossings of the network,
two for TCP, three for TLS, one for the settings of HTTP/2, and two for the greeting. So each attempt may take twice as
long as the one before, within the time that is left.
"""

from __future__ import annotations

import random

_FIRST_S = 0.05
_LONGEST_S = 5.0
_FIRST_LIMIT_S = 10.0
"""Limit of the first attempt: crossings of up to 1.2 s."""
_LEAST_LIMIT_S = 0.1
"""An attempt begun is given at least this, so that a patience shorter than it still makes one."""


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


def attempt_limit(attempt: int, left_s: float) -> float:
    """Return how long an attempt to attach may take, in seconds.

    Args:
        attempt: how many attempts have failed for want of time so far: a slow way stays slow.
        left_s: time until the worker gives up its driver.
    """
    return max(_LEAST_LIMIT_S, min(_FIRST_LIMIT_S * 2.0 ** min(attempt, 32), left_s))

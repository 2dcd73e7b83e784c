"""Time limits of a worker's attempts to attach. Pure: the number of an attempt gives its limit.

A dead way should be given up soon, and a slow one needs time: attaching takes up to eight crossings of the network, two
for TCP, three for TLS, one for the settings of HTTP/2, and two for the greeting. So each attempt may take twice as long
as the one before, within the time that is left.
"""

from __future__ import annotations

_FIRST_S = 10.0
"""Limit of the first attempt: crossings of up to 1.2 s."""
_LEAST_S = 0.1
"""An attempt begun is given at least this, so that a patience shorter than it still makes one."""


def attempt_limit(attempt: int, left_s: float) -> float:
    """Return how long an attempt to attach may take, in seconds.

    Args:
        attempt: how many attempts have failed for want of time so far: a slow way stays slow.
        left_s: time until the worker gives up its driver.
    """
    return max(_LEAST_S, min(_FIRST_S * 2.0 ** min(attempt, 32), left_s))

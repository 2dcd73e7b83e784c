from __future__ import annotations

import random

from asyncsearch.rpc.redelivery import Backoff


def test_delays_double_up_to_a_bound_with_jitter_and_begin_again() -> None:
    backoff = Backoff(random.Random(0))
    whole = [0.05 * 2**attempt for attempt in range(7)] + [5.0] * 3
    delays = [backoff.next_s() for _ in whole]
    assert all(full / 2 <= delay <= full for delay, full in zip(delays, whole, strict=True))
    backoff.reset()
    assert backoff.next_s() <= 0.05

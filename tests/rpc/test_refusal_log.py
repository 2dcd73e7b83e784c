"""The driver's log grows by one line a peer and minute, whatever peers do."""

from __future__ import annotations

import random

from asyncsearch.rpc.sessions import EVERY_S, MOST, RefusalLog


def test_a_peer_gets_one_line_a_minute_and_the_others_are_counted() -> None:
    log = RefusalLog()
    assert [log.admit("a", now) for now in (0.0, 1.0, EVERY_S - 1)] == [0, None, None]
    assert log.admit("b", 2.0) == 0
    assert log.admit("a", EVERY_S) == 2
    assert log.admit("a", 2 * EVERY_S) == 0


def test_many_peers_cannot_fill_the_log_or_the_memory() -> None:
    log = RefusalLog()
    draw = random.Random(0)
    lines = sum(log.admit(f"peer {draw.random()}", second / 100) is not None for second in range(200_000))
    assert lines <= MOST * (2_000 / EVERY_S)
    assert len(log) <= MOST


def test_a_peer_that_was_quiet_for_long_is_forgotten() -> None:
    log = RefusalLog()
    log.admit("a", 0.0)
    log.admit("b", 2 * EVERY_S)
    assert len(log) == 1

"""Strangers get what is left of the descriptors, never those of the store, of relaunches or of workers."""

from __future__ import annotations

import pytest

from asyncsearch.rpc.connection_limits import connection_limits


@pytest.mark.parametrize("workers", [1, 4, 32])
@pytest.mark.parametrize("descriptors", [1_024, 4_096, 1_048_576])
def test_both_ports_together_leave_a_reserve(workers: int, descriptors: int) -> None:
    in_use = 100
    left = descriptors - in_use - 2 * connection_limits(workers, descriptors, in_use).connections
    assert left >= 128 + 4 * workers


@pytest.mark.parametrize("workers", [1, 100, 1_000])
@pytest.mark.parametrize("descriptors", [None, 256, 1_024, 1_048_576])
def test_each_worker_can_reattach_before_its_lost_stream_is_known_lost(workers: int, descriptors: int | None) -> None:
    found = connection_limits(workers, descriptors, 50)
    assert found.connections >= 2 * workers
    assert found.greetings >= 2 * workers


def test_a_large_machine_holds_no_more_strangers_than_a_handshake_needs() -> None:
    assert connection_limits(8, None, 50).connections == connection_limits(8, 1_048_576, 50).connections < 1_100

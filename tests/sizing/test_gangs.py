"""How many of the idle workers the next gang gets."""

from __future__ import annotations

import pytest

from asyncsearch.sizing.gangs import Gang, GangCounts, size_now


@pytest.mark.parametrize(
    ("gang", "idle", "present", "in_small", "expected"),
    [
        pytest.param(Gang(2), 3, 4, 0, 2, id="a full one, while there are enough"),
        pytest.param(Gang(2), 2, 2, 0, 2, id="a full one, of all that there are"),
        pytest.param(Gang(2), 1, 4, 0, 0, id="none, until another worker is idle"),
        pytest.param(Gang(4, min_size=2), 3, 3, 0, 3, id="a smaller one, since no full one can come"),
        pytest.param(Gang(4, min_size=2), 1, 1, 0, 0, id="none below the least size"),
        pytest.param(Gang(2, min_size=1), 1, 4, 0, 0, id="none, since its companion is still busy in a full one"),
        pytest.param(Gang(2, min_size=1), 1, 3, 0, 1, id="one alone, since another full one trains on the rest"),
        pytest.param(Gang(2, min_size=1), 1, 4, 1, 0, id="none, since the other one alone will be free again"),
        pytest.param(Gang(4, min_size=1), 2, 7, 1, 2, id="those that are left beside a full and a small one"),
    ],
)
def test_a_gang_is_small_only_where_the_workers_make_up_no_full_one(
    gang: Gang, idle: int, present: int, in_small: int, expected: int
) -> None:
    assert size_now(gang, GangCounts(idle, present, in_small)) == expected

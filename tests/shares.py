"""Which share of the tests runs: with ASYNCSEARCH_TESTS=all every case, else the cheapest that show each law.

``bash scripts/check.sh --all`` and ``bash scripts/test_faults.sh`` set it. Without it each law keeps at least one case.
Of the tests of faults about a quarter runs, some of each kind: what is tried in the test's own process is cheap, and
every fourth case runs; what starts a search with its workers takes a second of a processor for each start of a script,
and every twentieth case runs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest

Case = TypeVar("Case")
IS_ALL = os.environ.get("ASYNCSEARCH_TESTS") == "all"
OF_SEARCHES = 20
"""One in so many cases of faults with a search of its own."""
takes_long = pytest.mark.skipif(not IS_ALL, reason="it takes long: bash scripts/check.sh --all runs it")
"""Marks a test, or a case in ``pytest.param``, beside which a cheaper one shows the same law."""


def seeds(count: int, one_in: int = 4) -> range:
    """Return ``count`` seeds, or one in so many of them."""
    return range(0, count, 1 if IS_ALL else one_in)


def first(cases: Sequence[Case], count: int = 1) -> Sequence[Case]:
    """Return all cases, or the first of them."""
    return cases if IS_ALL else cases[:count]


def names(every: Sequence[str], some: Sequence[str]) -> Sequence[str]:
    """Return the names of all cases, or of those that the test command runs."""
    assert set(some) < set(every)
    return every if IS_ALL else some

"""Which share of the tests of faults runs: all with ASYNCSEARCH_FAULTS=all, else about a quarter, some of each kind.

What is tried in the test's own process is cheap: every fourth case runs. What starts a search with its workers takes a
second of a processor for each start of a script: every eighth case runs, and of breakages with a cheaper test beside
them only some.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])
IS_ALL = os.environ.get("ASYNCSEARCH_FAULTS") == "all"
OF_SEARCHES = 8
"""One in so many cases with a search of its own."""
in_the_fault_command = pytest.mark.skipif(not IS_ALL, reason="bash scripts/test_faults.sh runs it: it takes long")


def seeds(count: int, one_in: int = 4) -> range:
    """Return ``count`` seeds, or one in so many of them."""
    return range(0, count, 1 if IS_ALL else one_in)


def names(every: Sequence[str], some: Sequence[str]) -> Sequence[str]:
    """Return the names of all cases, or of those that the test command runs."""
    assert set(some) < set(every)
    return every if IS_ALL else some


def counted(*, damages: int = 0, kills: int = 0) -> Callable[[Test], Test]:
    """Say how many damages or kills each case of a test is, for the line at the end of ``scripts/test_faults.sh``."""

    def mark(test: Test) -> Test:
        test.counts = {"damages": damages, "kills": kills}  # type: ignore[attr-defined]
        return test

    return mark

"""What the tests of faults try, for the line at the end of ``scripts/test_faults.sh``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


def counted(*, damages: int = 0, kills: int = 0) -> Callable[[Test], Test]:
    """Say how many damages or kills each case of a test is."""

    def mark(test: Test) -> Test:
        test.counts = {"damages": damages, "kills": kills}  # type: ignore[attr-defined]
        return test

    return mark

"""What all tests have in common: which of them may run beside others."""

from __future__ import annotations

import pytest

WHOLE_MACHINE = ("spark", "notebook")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that need the whole machine last and, under xdist, one after the other on one worker."""
    heavy = [item for item in items if any(item.get_closest_marker(name) for name in WHOLE_MACHINE)]
    for item in heavy:
        item.add_marker(pytest.mark.xdist_group("whole-machine"))
    items[:] = [item for item in items if item not in heavy] + heavy

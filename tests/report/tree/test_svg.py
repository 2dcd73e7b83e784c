"""The axis of a stage tree."""

from __future__ import annotations

import pytest

from asyncsearch.report.tree.svg import Axis


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.97, 0.98), (-5e3, 7e4), (1e-9, 2e-9), (3.0, 3.0)])
def test_ticks_lie_on_the_axis_and_are_few(low: float, high: float) -> None:
    axis = Axis(low, high, 0, 100)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 12
    assert all(-1 <= axis(tick) <= 101 for tick in ticks)

"""The axis of a stage tree, and the file that it is written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from asyncsearch.errors import UsageError
from asyncsearch.report.tree.svg import Axis, Drawing


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.97, 0.98), (-5e3, 7e4), (1e-9, 2e-9), (3.0, 3.0)])
def test_ticks_lie_on_the_axis_and_are_few(low: float, high: float) -> None:
    axis = Axis(low, high, 0, 100)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 12
    assert all(-1 <= axis(tick) <= 101 for tick in ticks)


@pytest.mark.parametrize("name", ["tree.png", "tree.svg.pdf", "tree.html"])
def test_no_file_has_the_ending_of_another_format(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a stage tree is written as SVG: name it '.*\.svg'\.$"):
        Drawing("a tree", 10, 10, []).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []

"""Studies of one version train once what they share: one after another, at the same time, and when one of them dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.system.several import DISTINCT, TRIALS, make, results, run, units


@pytest.fixture
def alone(tmp_path: Path) -> list[object]:
    """What a study finds that shares with nobody."""
    folder = tmp_path / "alone"
    folder.mkdir()
    return results(run(make(folder, "a", shared=False)))


def test_two_studies_one_after_another_train_each_unit_once(tmp_path: Path, alone: list[object]) -> None:
    first = run(make(tmp_path, "first"))
    assert results(first) == alone
    assert len(units(tmp_path)) == DISTINCT
    second = run(make(tmp_path, "second"))
    assert results(second) == alone
    assert set(units(tmp_path).values()) == {1}
    assert len(second.trials) == TRIALS

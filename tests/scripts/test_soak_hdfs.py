"""The soak on HDFS says what grows minute by minute, and nothing of a search that is flat."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
MINUTE = {
    "trials": 100, "units": 300, "calls": 2_000, "kills": 2, "driver_mb": 90.0, "agent_mb": 60.0,
    "driver_descriptors": 60,
    "agent_descriptors": 30, "driver_threads": 40, "processes": 60,
}  # fmt: skip


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield importlib.import_module("_soak_hdfs")
    for name in ("_soak_hdfs", "_soak", "_hdfs", "_hadoop", "_servers"):
        sys.modules.pop(name, None)


def minutes(soak: Any, **slopes: float) -> list[Any]:
    """Return minutes in which these fields grow by so much each time."""
    return [
        soak.Minute(**{name: value + slopes.get(name, 0) * number for name, value in MINUTE.items()})
        for number in range(20)
    ]


def test_search_on_hdfs_that_is_flat_has_no_growth(soak: Any) -> None:
    assert soak.growths(minutes(soak), trials=2_000) == []


@pytest.mark.parametrize(
    ("field", "slope", "words"),
    [
        ("calls", 100, "the calls of HDFS a trial grew from"),
        ("agent_mb", 3.0, "agent_mb grew from"),
        ("driver_threads", 2, "driver_threads grew from"),
    ],
)
def test_what_grows_on_hdfs_is_named(soak: Any, field: str, slope: float, words: str) -> None:
    [found] = soak.growths(minutes(soak, **{field: slope}), trials=0)
    assert found.startswith(words)


def test_more_calls_for_more_trials_are_no_growth(soak: Any) -> None:
    assert soak.growths(minutes(soak, calls=200, trials=10), trials=2_000) == []


def test_soak_on_hdfs_of_two_minutes_is_not_called_flat(soak: Any) -> None:
    assert "too few to tell" in soak.growths(minutes(soak)[:2], trials=0)[0]

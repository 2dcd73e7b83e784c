"""The soak says what grows, and nothing of a search that is flat."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "_soak.py"


@pytest.fixture(scope="module")
def soak() -> Iterator[Any]:
    spec = importlib.util.spec_from_file_location("_soak", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["_soak"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["_soak"]


def samples(soak: Any, **slopes: float) -> list[Any]:
    """Return a hundred samples in which these fields grow by so much each time."""
    return [soak.Sample(number, *(50 + slopes.get(name, 0) * number for name in soak.FIELDS)) for number in range(100)]


def test_a_search_that_is_flat_has_no_growth(soak: Any) -> None:
    assert soak.growths(soak.tenths(samples(soak)), trials=0) == []


@pytest.mark.parametrize(
    ("name", "slope"), [("driver_mb", 0.6), ("agent_descriptors", 0.5), ("driver_threads", 0.2), ("temporary", 0.2)]
)
def test_what_grows_is_named(soak: Any, name: str, slope: float) -> None:
    [words] = soak.growths(soak.tenths(samples(soak, **{name: slope})), trials=0)
    assert words.startswith(f"{name} grew from ")


def test_a_driver_may_grow_by_some_bytes_for_each_trial(soak: Any) -> None:
    parts = soak.tenths(samples(soak, driver_mb=0.6))
    assert soak.growths(parts, trials=50_000) == []


def test_a_search_that_was_too_short_to_tell_is_not_called_flat(
    soak: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TMPDIR", tempfile.gettempdir())  # the script sets both, which are set back after this
    monkeypatch.setattr(tempfile, "tempdir", tempfile.gettempdir())
    monkeypatch.setattr(soak, "OFTEN_S", 60.0)  # however long two trials take, they end before the second look
    assert soak.main(["--trials", "2", "--minutes", "0"]) == 1
    assert "too few to tell" in capsys.readouterr().out

"""The page of the benchmarks: which of its rows belong to which benchmark."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return the script, with a page of its own."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    script = importlib.import_module("write_performance")
    monkeypatch.setattr(script, "PAGE", tmp_path / "performance.md")
    return script


def test_a_row_belongs_to_its_benchmark_whatever_options_it_ran_with(page: Any) -> None:
    figure = {"name": "driver_s", "value": 1.0, "unit": "s", "baseline": 1.0, "ratio": 1.0}
    new, old = page.row("recovery", figure), "| `driver_s` | 1 s | `scripts/bench_recovery.py` | 2026-11-22 |"
    assert "`scripts/bench_recovery.py --executors --store hdfs`" in new
    names = ("pack", "pack_search", "handoff", "handoff_connect")
    others = [page.row(name, figure) for name in names]
    page.PAGE.write_text("\n".join([old, new, *others]))
    rows = page.rows_before()
    assert [rows[name] for name in names] == [[line] for line in others]
    assert rows["recovery"] == [old, new]
    assert "`scripts/bench_handoff.py --connect`" in others[-1]


def test_a_benchmark_that_was_run_before_is_read_from_what_it_printed(page: Any) -> None:
    assert page.figures_in(["a table", '[{"name": "old"}]', '[{"name": "new"}]', "", "real 0m1s"]) == [{"name": "new"}]


def test_a_time_beyond_its_baseline_misses_its_goal_by_itself(page: Any) -> None:
    figure = {"name": "executor_beyond_s", "value": 1.2, "unit": "s", "baseline": 30.0, "ratio": 0.04}
    assert "**1.2 s** | <= 1 |" in page.row("recovery", figure)
    assert "| -0.2 s | <= 1 |" in page.row("recovery", figure | {"value": -0.2})


def test_a_goal_of_the_ratio_is_held_against_the_ratio(page: Any) -> None:
    figure = {"name": "throughput", "value": 0.5, "unit": "units/s", "baseline": 0.52, "ratio": 0.962}
    assert "| 0.5 units/s | ratio >= 0.98 | 0.52 | **0.962** |" in page.row("fair", figure)
    assert "| ratio >= 0.98 | 0.5 | 1 |" in page.row("fair", figure | {"baseline": 0.5, "ratio": 1.0})


def test_a_kept_output_is_read_and_one_that_fails_costs_its_own_rows_only(
    page: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gang.txt").write_text('[{"name": "g", "value": 1.0, "unit": "s", "baseline": 1.0, "ratio": 1.0}]\n')

    def fail(name: str) -> None:
        raise page.BenchmarkError(name)

    monkeypatch.setattr(page, "run", fail)
    assert page.write_each({"fair": None, "gang": None}, tmp_path) == 1
    assert [name for name, rows in page.rows_before().items() if rows] == ["gang"]
    assert not (tmp_path / "fair.txt").exists()

"""What the benchmark of fair share makes of journals."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.scripts.tools import SCRIPTS


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("bench_fair")


def test_a_change_is_timed_from_the_end_of_the_worker_whose_slot_it_is(bench: Any) -> None:
    a = [bench.Held(0.0, 0.5, 10.0), bench.Held(0.0, 0.5, 12.0), bench.Held(20.2, 20.4, 30.0)]
    b = [bench.Held(12.1, 12.5, 20.0), bench.Held(12.2, None, 19.0)]
    assert bench.gaps({"a": a, "b": b}, 5.0) == pytest.approx([2.5, 1.4])

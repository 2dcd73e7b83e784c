"""Numbers that no search can have are refused in words, before anything begins, and no thread dies of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch import Cluster, Sharing, Study, uniform
from asyncsearch.errors import UsageError
from asyncsearch.fair.demands import Demand
from asyncsearch.simulate import Curves, simulate
from asyncsearch.study.asked.options import WorkerOptions

HUGE = [10**5000, 2**63, 10**300, -(10**5000)]
NUMBERS = [math.nan, math.inf, -math.inf, 1e300, -1.0, 0.0, 5e-324, *HUGE, "many", None, True]


def study(tmp_path: Path, **more: Any) -> Study:
    options: dict[str, Any] = {"store": tmp_path / "st", "backend": "inline"} | more
    return Study(lambda trial: trial.params["x"], space={"x": uniform(0, 1)}, metric="x", mode="min", **options)


CALLS: dict[str, Callable[[Any, Path], Any]] = {
    "weight": lambda number, _: Demand("one", 0, weight=number),
    "priority": lambda number, _: Demand("one", 0, priority=number),
    "max_workers": lambda number, _: Demand("one", 0, max_workers=number),
    "parallelism": lambda number, place: study(place).run(1, parallelism=number, display="none"),
    "num_trials": lambda number, place: study(place).run(number, display="none"),
    "timeout": lambda number, place: study(place).run(1, timeout=number, display="none"),
    "cluster": lambda number, _: Cluster(number),
    "trial_timeout": lambda number, _: WorkerOptions(trial_timeout=number),
    "lease_timeout": lambda number, _: WorkerOptions(lease_timeout=number),
    "quota_bytes": lambda number, _: Sharing(quota_bytes=number),
    "seed": lambda number, place: Study(
        print, space={"x": uniform(0, 1)}, metric="x", mode="min", seed=number, store=place
    ),
    "workers": lambda number, _: simulate(Curves(), workers=number, num_trials=1),
}
ALLOWED = {
    ("max_workers", None),
    ("num_trials", None),
    ("timeout", None),
    ("parallelism", None),
    ("cluster", None),
    ("trial_timeout", None),
    ("quota_bytes", None),
    ("timeout", 5e-324),
    ("trial_timeout", 5e-324),
    ("lease_timeout", 5e-324),
}


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: str(number)[:12] if number not in HUGE else "huge")
@pytest.mark.parametrize("name", CALLS)
def test_a_number_that_no_search_can_have_is_refused_by_its_name(name: str, number: Any, tmp_path: Path) -> None:
    if (name, number) in ALLOWED:
        return
    with pytest.raises(UsageError) as raised:
        CALLS[name](number, tmp_path)
    words = str(raised.value)
    assert len(words) < 500
    assert (name if name != "cluster" else "parallelism") in words


@settings(max_examples=50)
@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_weights_in_their_range_have_parts_that_add_up(one: float, other: float) -> None:
    demands = [Demand("a", 4, weight=one), Demand("b", 4, weight=other)]
    assert sum(demand.weight for demand in demands) >= max(one, other)


def test_a_duration_as_timedelta_is_taken_and_one_of_ages_is_not() -> None:
    assert WorkerOptions(trial_timeout=timedelta(days=3)).for_driver().trial_timeout_s == 3 * 86_400
    with pytest.raises(UsageError, match="more than 30 years"):
        WorkerOptions(trial_timeout=timedelta(days=10**8))

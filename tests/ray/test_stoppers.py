"""When stoppers end a trial, or all of them: what ray 2.60 does with the same values."""

from __future__ import annotations

from typing import Any

import pytest

from asyncsearch.ray.stoppers import (
    CombinedStopper,
    ExperimentPlateauStopper,
    MaximumIterationStopper,
    Stopper,
    TrialPlateauStopper,
)

FLAT: dict[str, Any] = {"metric": "acc", "std": 0.01, "num_results": 3, "grace_period": 3}


def ended_at(stopper: Stopper, cap: int, most: int = 12) -> int:
    """Return the iteration at which a trial ends that rises by 0.1 up to a cap."""
    for at in range(1, most):
        if stopper(f"trial-{cap}", {"acc": min(at, cap) / 10, "training_iteration": at}):
            return at
    return most


@pytest.mark.parametrize(
    ("stopper", "ends"),
    [
        (TrialPlateauStopper(**FLAT), (4, 7, 11)),
        (TrialPlateauStopper(**FLAT, metric_threshold=0.4, mode="max"), (12, 7, 11)),
        (TrialPlateauStopper(**FLAT, metric_threshold=0.4, mode="min"), (4, 12, 12)),
        (TrialPlateauStopper(**FLAT, metric_threshold=0.5, mode="max"), (12, 7, 11)),
        (CombinedStopper(MaximumIterationStopper(4), TrialPlateauStopper(**FLAT)), (4, 4, 4)),
        (ExperimentPlateauStopper("acc", std=0.001, top=2, mode="max"), (3, 1, 1)),
    ],
    ids=["plateau", "above", "below", "reached", "combined", "experiment"],
)
def test_a_stopper_ends_a_trial_where_ray_does(stopper: Any, ends: tuple[int, ...]) -> None:
    assert tuple(ended_at(stopper, cap) for cap in (2, 5, 9)) == ends

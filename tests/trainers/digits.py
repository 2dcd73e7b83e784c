"""What the trainers of both frameworks search on scikit-learn's digits: schedules that begin alike and part later."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from asyncsearch.sequences import cyclic, step, values, warmup
from asyncsearch.space import Choice, Space, choice
from tests.digits import load_digits

EPOCHS = 8
TRIALS = 54
UNIQUE = 172
"""Of 432 units how many differ: a merge rate of 2.512."""


GROWING = choice(32, values([32, 48], milestones=[4]), values([32, 48], milestones=[6]))


def schedules(batch_size: Choice = GROWING) -> Space:
    """Return 6 learning rates x 3 momenta x some batch sizes, all of them sequences."""
    drops = choice(4, 6)
    return Space(
        {
            "lr": choice(
                step(0.05, step_size=drops),
                warmup(2, step(0.05, step_size=drops), start=0.01),
                cyclic(0.005, 0.05, up=choice(2, 4)),
            ),
            "batch_size": batch_size,
            "momentum": choice(0.9, values([0.9, 0.5], milestones=[4]), values([0.9, 0.5], milestones=[6])),
        }
    )


def few_schedules() -> Space:
    """Return 8 trials, of 5 epochs, that begin alike and part later."""
    return Space(
        {
            "lr": choice(step(0.05, step_size=2), warmup(2, step(0.05, 3), start=0.01)),
            "batch_size": choice(32, values([32, 48], milestones=[3])),
            "momentum": choice(0.9, values([0.9, 0.5], milestones=[4])),
        }
    )


@cache
def images() -> tuple[Any, Any]:
    """Return 1,797 images of 8 x 8 pixels in [0, 1], and what they show; always in the same order."""
    pixels, labels = load_digits()
    order = np.random.default_rng(0).permutation(len(labels))
    return (pixels[order] / 16).astype("float32").reshape(-1, 8, 8), labels[order].astype("int64")

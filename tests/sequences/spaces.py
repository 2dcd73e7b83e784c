"""Spaces of sequences that several tests and benchmarks use."""

from __future__ import annotations

from asyncsearch.sequences import cosine_restarts, cyclic, exponential, multistep, values, warmup
from asyncsearch.space import Space, choice

RESNET56_EPOCHS = 120
RESNET56_TRIALS = 448
RESNET56_UNIQUE = 21_960


def resnet56_space() -> Space:
    """Return the 448 trials of notes/stages.md, section 3: at 120 epochs 21,960 of 53,760 units differ (p = 2.4481)."""
    drops = choice([90, 135], [80, 120], [60, 90])
    return Space(
        {
            "lr": choice(
                multistep(0.1, milestones=drops),
                warmup(5, multistep(0.1, milestones=drops)),
                warmup(5, exponential(0.1, gamma=choice(0.9, 0.95, 0.97))),
                warmup(10, cosine_restarts(0.1, T_0=choice(10, 20, 40))),
                cyclic(0.001, 0.1, up=choice(20, 40)),
            ),
            "batch_size": choice(
                128,
                values([128, 256], milestones=[70]),
                values([128, 256], milestones=[90]),
                values([128, 256], milestones=[100]),
            ),
            "optimizer": choice("sgd", "adam"),
            "momentum": choice(0.9, values([0.7, 0.8, 0.9], milestones=[40, 80]), 0.0).when(optimizer="sgd"),
            "weight_decay": choice(1e-4, 1e-3),
        }
    )

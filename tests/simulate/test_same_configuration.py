"""A simulated search is configured as the real one of the same space and scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from asyncsearch import ASHA, FIFO, PBT, Study, choice, loguniform
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.sequences import multistep
from asyncsearch.simulate import Curves, simulate

SPACES: dict[str, Any] = {
    "numbers": {"lr": loguniform(1e-3, 1.0)},
    "few values": {"lr": choice(0.1, 0.2), "width": choice(8, 16)},
    "sequences and numbers": {"lr": loguniform(1e-3, 1.0), "decay": multistep(0.1, milestones=choice([1], [2]))},
}
SCHEDULERS = [
    FIFO(max_resource=4),
    ASHA(max_resource=4, reduction_factor=2),
    PBT(max_resource=4, perturbation_interval=1, population=4),
]
OWN_TO_EACH = ("study", "can_evaluate", "can_save", "max_losses", "max_relaunches")
"""Fields that do not follow from the search: names, the trainable, and how often workers may be lost."""


def train(trial: Any) -> None:
    for _ in trial.epochs(save=lambda path: path.touch(), load=lambda path: None):
        trial.report(loss=0.0)


@pytest.mark.parametrize("share", [None, False])
@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=lambda scheduler: type(scheduler).__name__)
@pytest.mark.parametrize("space", SPACES)
def test_a_study_and_a_simulation_build_the_same_engine_configuration(
    space: str, scheduler: Scheduler, share: bool | None, tmp_path: Path
) -> None:
    common: dict[str, Any] = {
        "space": SPACES[space],
        "scheduler": scheduler,
        "metric": "loss",
        "mode": "min",
        "seed": 3,
    }
    real = Study(train, store=tmp_path / "s", share=share is None, **common).config
    simulated = simulate(Curves(seed=1), num_trials=4, share=share, **common).state.config
    differing = [
        name
        for name, value in msgspec.structs.asdict(real).items()
        if value != getattr(simulated, name) and name not in OWN_TO_EACH
    ]
    assert differing == []

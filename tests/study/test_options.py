"""The groups of settings: each value is checked where the group is made."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import FIFO, PBT, Checkpoints, Sharing, Study, WorkerOptions, choice, uniform
from asyncsearch.errors import UsageError
from asyncsearch.sequences import multistep
from asyncsearch.simulate import Curves, simulate


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Sharing(shared=True), r"shared=True must be a folder or a URL, None .* or False"),  # type: ignore[arg-type]
        (lambda: Sharing(shared=3), "shared=3 must be a folder"),  # type: ignore[arg-type]
        (lambda: Sharing(defaults={"f": object()}), "defaults=.* must be a mapping"),
        (lambda: Sharing(defaults=3), "defaults=3 must be a mapping"),  # type: ignore[arg-type]
        (lambda: Sharing(quota_bytes=0), "quota_bytes=0 must be a positive integer"),
        (lambda: WorkerOptions(fresh_process=2), "fresh_process=2 is neither True nor False"),  # type: ignore[arg-type]
        (lambda: WorkerOptions(recycle_after=0), "recycle_after=0 must be a positive integer"),
        (lambda: WorkerOptions(stop_grace=0), "stop_grace=0 must be a positive, finite number of seconds"),
        (lambda: WorkerOptions(lease_timeout=-1), "lease_timeout=-1 must be"),
        (lambda: WorkerOptions(trial_timeout=0), "trial_timeout=0 must be"),
        (lambda: WorkerOptions(release_idle="never"), "write release_idle=None"),  # type: ignore[arg-type]
        (lambda: Checkpoints(keep_checkpoints=-1), "keep_checkpoints=-1 must be an integer from 0"),
    ],
)
def test_a_group_refuses_a_value_with_the_rule(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        make()


def test_times_may_be_seconds_or_timedeltas() -> None:
    seconds, deltas = (
        WorkerOptions(stop_grace=made(2), lease_timeout=made(60), trial_timeout=made(3600))
        for made in (float, lambda number: timedelta(seconds=number))
    )
    assert seconds.for_driver() == deltas.for_driver()
    assert seconds.for_agents() == deltas.for_agents()


@pytest.mark.parametrize(
    "scheduler", [FIFO(max_resource=8), PBT(max_resource=8, perturbation_interval=2, population=4)]
)
@pytest.mark.parametrize("share", [True, False])
def test_a_simulation_looks_ahead_exactly_where_the_study_does(tmp_path: Path, scheduler: Any, share: bool) -> None:
    space = {"lr": multistep(0.1, milestones=choice([3], [5]), gamma=choice(0.1, 0.5)), "momentum": uniform(0, 1)}

    def train(trial: Any) -> None:
        for _ in trial.epochs(save=lambda path: path.write_text(""), load=lambda path: None):
            trial.report(loss=1.0)

    study = Study(train, space=space, metric="loss", mode="min", scheduler=scheduler, share=share, store=tmp_path / "s")
    simulated = simulate(Curves(), space=space, scheduler=scheduler, share=share, num_trials=4)
    assert simulated.state.config.look_ahead == study.config.look_ahead

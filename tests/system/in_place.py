"""Searches with and without promotions in place: their trials end with the same bits."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, FIFO, Study, TrialContext
from asyncsearch.actions import ExtendWork
from asyncsearch.journal.opening import read_records
from asyncsearch.schedulers.asha import PromotionState
from asyncsearch.trainable import Trainable
from tests.gangs.searches import once

UNITS, TRIALS = 4, 6
Dies = Callable[[TrialContext, int, str], None]
"""Called with the trial, the unit and ``end``, after it has reported there."""
Options = dict[str, Any]


def never(trial: TrialContext, unit: int, place: str) -> None:
    """Let it live."""


def killing(folder: Path) -> Dies:
    """Return what kills each process once in which a trial has passed the first rung."""
    place = str(folder)

    def dies(trial: TrialContext, unit: int, where: str) -> None:
        if unit == 3 and once(Path(place), "died"):
            os.kill(os.getpid(), signal.SIGKILL)

    return dies


def searched(made: tuple[Trainable, Options], store: Path, scheduler: Any, *, may_die: bool = False) -> Study:
    trainable, options = made
    workers = options.get("workers_per_trial", 1)
    backend = "processes" if may_die or workers > 1 else "inline"
    study = Study(trainable, metric="loss", mode="min", store=store, scheduler=scheduler, backend=backend, **options)
    return study.run(TRIALS, parallelism=workers, display="none")


def in_place(study: Study) -> int:
    actions = [action for record in read_records(study.store) for action in record.actions]
    return sum(isinstance(action, ExtendWork) and len(action.stages) > 0 for action in actions)


def histories(study: Study, like: Study | None = None) -> list[list[Any]]:
    """Return the reports of each trial, up to those of another study."""
    ends = [trial.resource for trial in (like or study).trials]
    return [study.history(trial)[:end] for trial, end in zip(study.trials, ends, strict=True)]


def require_alike(
    kind: Callable[[Dies], tuple[Trainable, Options]], folder: Path, monkeypatch: pytest.MonkeyPatch, rel: float = 0.0
) -> None:
    """Require that trials which go on in place, pause, die or never stop report the same."""
    scheduler = ASHA(max_resource=UNITS, reduction_factor=2)
    here = searched(kind(never), folder / "here", scheduler)
    assert in_place(here) > 0
    killed = searched(kind(killing(folder)), folder / "killed", scheduler, may_die=True)
    assert sum(trial.losses for trial in killed.trials) > 0
    straight = searched(kind(never), folder / "straight", FIFO(max_resource=UNITS))
    monkeypatch.setattr(PromotionState, "compares_saved", True)
    paused = searched(kind(never), folder / "paused", scheduler)
    assert in_place(paused) == 0
    for other in (killed, paused, straight):
        assert other is straight or [t.resource for t in other.trials] == [t.resource for t in here.trials]
        for mine, theirs in zip(histories(here), histories(other, here), strict=True):
            for (unit, metrics), (also, values) in zip(mine, theirs, strict=True):
                assert unit == also
                assert metrics == values if not rel else metrics["loss"] == pytest.approx(values["loss"], rel=rel)

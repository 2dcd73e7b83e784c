"""Whole searches whose packs are joined, by a process that may be killed then; and what each trial reports alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, Study, Trainer, uniform
from asyncsearch.actions import AddLane
from asyncsearch.journal.format import Record
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.projection import history
from asyncsearch.runner.protocol import Train
from asyncsearch.runner.training import run_training
from asyncsearch.trainable import as_function
from tests.agent.driver import make_stage
from tests.agent.recorder import Recorder
from tests.runner.test_packed_training import NoInterrupts

MOMENTS = ("joining", "joined")
"""While a lane that joins begins; in the first unit that it trains with the others."""


def dying(kind: type[Any], folder: Path, moment: str) -> type[Any]:
    """Return trainers of a kind whose process is killed once, at a moment of its first join."""
    marker = str(folder / "died")

    def die(now: str) -> None:
        if now == moment and not os.path.exists(marker):
            os.close(os.open(marker, os.O_CREAT))
            os.kill(os.getpid(), signal.SIGKILL)

    class Dying(kind):  # type: ignore[misc]
        last: tuple[int, ...] = ()
        """The trainers of the last unit in this process."""

        def setup(self, hp: Any) -> None:
            super().setup(hp)
            if len(Dying.last) > 1:
                die("joining")

        @classmethod
        def train_pack(cls, trainers: Sequence[Trainer]) -> None:
            now = tuple(map(id, trainers))
            if Dying.last and set(now) & set(Dying.last) and not set(now) <= set(Dying.last):
                die("joined")
            Dying.last = now
            super().train_pack(trainers)

    return Dying


def search(kind: type[Any], store: Path, **options: Any) -> Study:
    """Return a study whose packs of four are joined."""
    settings: dict[str, Any] = {"pack": 4, "backend": "processes", "scheduler": ASHA(max_resource=9)} | options
    space = {"lr": uniform(0.01, 0.1), "p": uniform(0.0, 0.3)}
    return Study(kind, space=space, metric="loss", mode="min", store=store, **settings)


def joined(study: Study) -> list[AddLane]:
    """Return the lanes that joined packs."""
    return [action for record in read_records(study.store) for action in record.actions if isinstance(action, AddLane)]


def require_results_of_lone_trainings(study: Study, kind: type[Any], folder: Path, units: int = 9) -> None:
    """Require that each report is that of the trial's training alone, in double precision."""
    records: Sequence[Record] = list(read_records(study.store))
    seed = joined(study)[0].added.stages[0].seed
    for trial in study.trials:
        link = Recorder(folder / trial.name)
        whole = make_stage(0, params=trial.params, seed=seed, stop=units, max_resource=units)
        run_training(as_function(kind), Train((whole,)), link, NoInterrupts(), "loss")
        expected = {resource: metrics["loss"] for resource, metrics in link.reports}
        reports = history(records, trial.id)
        assert reports
        for resource, metrics in reports:
            assert metrics["loss"] == pytest.approx(expected[resource], abs=1e-9), (trial, resource)

"""Whole searches whose packs are joined, by a process that may be killed then; and what each trial reports alone."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from asyncsearch import ASHA, Study, uniform
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

SIZE = 4
MANY = 24
"""Trials of a search that needs a join: some are still to begin when a promotion trains in a pack with room, even where
the checkpoints by which the first trials may be promoted are durable late. Few may all have begun by then."""
PATIENCE_S = 60.0
MOMENTS = ("joining", "joined")
"""While a lane that joins begins; in the first unit that it trains with the others."""


def dying(kind: type[Any], folder: Path, moment: str) -> type[Any]:
    """Return trainers of a kind whose process is killed once, at a moment of its first join."""
    marker = str(folder / "died")

    def die(now: str) -> None:
        if now == moment and not os.path.exists(marker):
            os.close(os.open(marker, os.O_CREAT))
            os.kill(os.getpid(), signal.SIGKILL)

    def watch() -> None:
        """Look at the lanes of each unit of this process."""
        from asyncsearch.runner.packs.packed_training import PackRun

        train = PackRun._train

        def watched(pack: Any) -> None:
            now = {lane.number for lane in pack._lanes}
            if Dying.pack is pack and now & Dying.last and not now <= Dying.last:
                die("joined")
            Dying.pack, Dying.last = pack, now
            train(pack)

        PackRun._train = watched  # type: ignore[method-assign, assignment]

    class Dying(kind):  # type: ignore[misc]
        pack: Any = None
        last: frozenset[int] | set[int] = frozenset()
        """The lanes of the last unit in this process."""
        is_watched = False

        def setup(self, hp: Any) -> None:
            super().setup(hp)
            if not Dying.is_watched:
                Dying.is_watched = True
                watch()
            if len(Dying.last) > 1:
                die("joining")

    return Dying


def patient(kind: type[Any], folder: Path, joins: int = 1, enough: str = "enough") -> type[Any]:
    """Return trainers of a kind whose units, but the last, wait in a pack that has room until a lane is to join it.

    Else it is a matter of speed: what is left of a pack may have trained to its end before the driver adds a lane.

    Args:
        kind: the trainers.
        folder: where the processes count.
        joins: after how many joins units wait no more.
        enough: file in the folder that ends the waiting, too.
    """
    count, end = str(folder / "joins"), str(folder / enough)

    def wait_for_joins() -> None:
        """Let the packs of this process wait before a unit."""
        from asyncsearch.runner.packs.packed_training import PackRun

        train = PackRun._train

        def train_once_joined(pack: PackRun) -> None:
            until_s = time.monotonic() + PATIENCE_S
            while is_worth_waiting(pack) and time.monotonic() < until_s:
                context: Any = pack._lanes[0].context
                if context.should_stop:  # it reads the messages
                    break
                if context._link._lanes.joining:
                    with open(count, "a") as file:
                        file.write("+")
                    break
                time.sleep(0.005)
            train(pack)

        PackRun._train = train_once_joined  # type: ignore[method-assign, assignment]

    def is_worth_waiting(pack: Any) -> bool:
        """Whether there is room, and somebody who would still train with a lane that joins after this unit."""
        left = [lane.context._timeline.stages[-1].stop - lane.context._done for lane in pack._lanes]
        return len(left) < SIZE and max(left, default=0) > 1 and not is_enough()

    def is_enough() -> bool:
        return os.path.exists(end) or (os.path.exists(count) and os.path.getsize(count) >= joins)

    class Patient(kind):  # type: ignore[misc]
        is_patient = False

        def setup(self, hp: Any) -> None:
            super().setup(hp)
            if not Patient.is_patient:
                Patient.is_patient = True
                wait_for_joins()

    return Patient


def search(kind: type[Any], store: Path, **options: Any) -> Study:
    """Return a study of packs of ``SIZE``."""
    settings: dict[str, Any] = {"pack": SIZE, "backend": "processes", "scheduler": ASHA(max_resource=9)} | options
    space = {"lr": uniform(0.01, 0.1), "p": uniform(0.0, 0.3)}
    return Study(kind, space=space, metric="loss", mode="min", store=store, **settings)


def joined(study: Study) -> list[AddLane]:
    """Return the lanes that joined packs."""
    return [action for record in read_records(study.store) for action in record.actions if isinstance(action, AddLane)]


def require_results_of_lone_trainings(study: Study, kind: type[Any], folder: Path) -> None:
    """Require of a search whose packs were joined that each report is that of the trial's training alone."""
    require_results(study, kind, joined(study)[0].added.stages[0].seed, folder, 9)


def require_results(study: Study, kind: type[Any], seed: int, folder: Path, units: int) -> None:
    """Require that each report is that of the trial's training alone, in double precision."""
    records: Sequence[Record] = list(read_records(study.store))
    for trial in study.trials:
        reports = history(records, trial.id)
        assert reports
        reached = max(resource for resource, _ in reports)
        expected = _alone(kind, tuple(trial.params.items()), seed, reached, units, folder / trial.name)
        for resource, metrics in reports:
            assert metrics["loss"] == pytest.approx(expected[resource], abs=1e-9), (trial, resource)


_known: dict[tuple[Any, ...], dict[int, Any]] = {}


def _alone(
    kind: type[Any], params: tuple[tuple[str, Any], ...], seed: int, stop: int, units: int, folder: Path
) -> dict[int, Any]:
    """Return what a training alone reports at least up to a unit.

    The searches of a file have the same trials, and each is trained once, or again where another search goes further.
    """
    known = (kind, params, seed, units)
    if stop not in _known.get(known, ()):
        link = Recorder(folder)
        whole = make_stage(0, params=dict(params), seed=seed, stop=stop, max_resource=units)
        run_training(as_function(kind), Train((whole,)), link, NoInterrupts(), "loss")
        _known[known] = {resource: metrics["loss"] for resource, metrics in link.reports}
    return _known[known]

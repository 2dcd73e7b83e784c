"""Part of ``bench_dynamics``: the checkpoints on a real disk during a search, and which of them were of use.

A search of worker processes on a local store is looked at all the time, and its journal says afterwards what each
checkpoint was for. What lies on the disk and is not held by the journal is told with its own reason.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from _bench import Figure
from _dynamics_checkpoints import Held, Watch, figure

from asyncsearch import ASHA, SHA, Checkpoints, Study, loguniform
from asyncsearch.engine import handling
from asyncsearch.ids import CheckpointRef
from asyncsearch.journal.format import Record
from asyncsearch.journal.opening import read_records
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.space import Space
from asyncsearch.store.base_store import Store
from asyncsearch.testing.recording import make_state
from asyncsearch.trainable import TrialContext

TRIALS, WORKERS, UNIT_S = 27, 2, 0.01
LOOK_S = 0.002
SPACE = {"lr": loguniform(1e-3, 1e-1)}


class Seen(NamedTuple):
    """What lay on the disk at a moment."""

    time_s: float
    checkpoints: frozenset[CheckpointRef]


class Looks:
    """Looks at a store again and again in a thread, inside ``with``, and keeps the fullest look."""

    def __init__(self, store: Store) -> None:
        self._store, self._over = store, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.fullest = Seen(0.0, frozenset())

    def now(self) -> Seen:
        return Seen(time.time(), frozenset(self._store.checkpoints()))

    def __enter__(self) -> Looks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(LOOK_S):
            seen = self.now()
            if len(seen.checkpoints) > len(self.fullest.checkpoints):
                self.fullest = seen


def train(trial: TrialContext) -> None:
    counters = {"done": 0}
    for unit in trial.epochs(state={"counters": counters}):
        time.sleep(UNIT_S)
        counters["done"] = unit
        trial.report(loss=abs(trial.params["lr"] - 0.01) + 1 / unit)


def searches() -> Iterator[tuple[str, Scheduler, bool]]:
    """Yield the name, the scheduler, and whether paused trials keep their checkpoints at the end."""
    yield "asha", ASHA(max_resource=9), True
    yield "asha_dropped", ASHA(max_resource=9), False
    yield "sha", SHA(max_resource=9), True


def held_on_disk() -> list[Figure]:
    """Return how many checkpoints are on the disk for each that is of use, at the fullest look and at the end."""
    figures = []
    for name, scheduler, keeps in searches():
        with tempfile.TemporaryDirectory() as folder:
            study = Study(
                train,
                space=SPACE,
                metric="loss",
                mode="min",
                scheduler=scheduler,
                store=Path(folder) / "study",
                backend="processes",
                checkpoints=Checkpoints(keep_paused=keeps),
            )
            with Looks(study.store) as looks:
                study.run(TRIALS, parallelism=WORKERS, display="none")
            end, records = looks.now(), list(read_records(study.store))
        for when, seen in {"peak": looks.fullest, "end": end}.items():
            watch, moment = _explained(seen, scheduler, records, keeps=keeps)
            figures.append(figure(f"on_disk_over_needed_{name}_{when}", watch, moment))
    return figures


def _explained(seen: Seen, scheduler: Scheduler, records: list[Record], *, keeps: bool) -> tuple[Watch, Held]:
    """Return a watch at the end of the journal, and the reasons for what was seen."""
    watch = Watch(make_state(scheduler, space=Space.of(SPACE), keep_paused=keeps))
    moment = watch.now
    for record in records:
        handling.replay(watch.state, record.event, record.actions, record.t)
        watch(record.t, record.event, record.actions)
        if record.t <= seen.time_s:
            moment = watch.now
    unknown = "decided to be deleted, or committed and not yet told"
    return watch, Held(moment.step, {one: moment.reasons.get(one, unknown) for one in seen.checkpoints})

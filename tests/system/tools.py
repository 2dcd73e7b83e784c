"""Real searches over real processes, stopped at points that the trial itself announces.

A trial writes a line into a FIFO and waits until the test answers in another one: no test sleeps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from asyncsearch import ASHA, Checkpoints, GridSearch, Study, TrialState, choice
from asyncsearch.actions import CreateTrial
from asyncsearch.events import CheckpointCommitted
from asyncsearch.ids import CheckpointRef
from asyncsearch.journal.opening import read_records
from asyncsearch.store import Store

PATIENCE_S = 300.0
UNITS = 9


def require_whole(study: Study) -> None:
    """The same set of trials as of an undisturbed search, none failed, the best one found."""
    assert [trial.params["x"] for trial in study.trials] == list(range(1, 10))
    assert {trial.state for trial in study.trials} <= {TrialState.PAUSED, TrialState.COMPLETED}
    assert study.best_trial.params == {"x": 1}
    assert study.best_trial.resource == 9


def make_study(trainable: Any, store: Path | str, **options: Any) -> Study:
    settings: dict[str, Any] = {
        "space": {"x": choice(*range(1, 10))},
        "metric": "loss",
        "mode": "min",
        "searcher": GridSearch(),
        "scheduler": ASHA(max_resource=UNITS),
        "store": store,
        "backend": "processes",
    }
    # The tests count what is trained again since a checkpoint at a rung.
    kept = dataclasses.replace(options.pop("checkpoints", Checkpoints()), at_rungs=True)
    return Study(trainable, checkpoints=kept, **(settings | options))


class Running:
    """A run in a thread of its own."""

    def __init__(self, study: Study, **options: Any) -> None:
        self.study = study
        self.error: BaseException | None = None
        self._done = threading.Event()
        self._options: dict[str, Any] = {"parallelism": 2, "display": "none"} | options
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self.study.run(**self._options)
        except BaseException as error:
            self.error = error
        finally:
            self._done.set()

    def wait(self) -> Study:
        assert self._done.wait(PATIENCE_S), "the search did not end"
        if self.error is not None:
            raise self.error
        return self.study


def require_committed_once(store: Store) -> None:
    """No checkpoint was committed twice: what is durable is not trained again."""
    commits = [r.event.checkpoint for r in read_records(store) if isinstance(r.event, CheckpointCommitted)]
    assert len(commits) == len(set(commits)), "what was committed is not trained again"


def require_gone(pids: list[int]) -> None:
    """Wait until processes have ended."""
    alive = []
    for pid in pids:
        try:
            alive.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue
    _, left = psutil.wait_procs(alive, timeout=PATIENCE_S)
    assert not [p for p in left if p.status() != psutil.STATUS_ZOMBIE]


def wait_for_event(study: Study, kind: type[Any], is_it: Callable[[Any], bool] = lambda _: True) -> None:
    """Read the journal until it holds such an event of a kind."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        events = [record.event for record in read_records(study.store)]
        if any(isinstance(event, kind) and is_it(event) for event in events):
            return
        time.sleep(0.01)  # a file cannot be waited for; nothing depends on how long this is
    raise AssertionError(f"no {kind.__name__} within {PATIENCE_S} s")


def require_stored(study: Study, resource: int, trial_id: int = 0) -> None:
    """Wait until a trial's checkpoint is durable: it is stored while the trial goes on, and until then may be lost."""
    created = [a for record in read_records(study.store) for a in record.actions if isinstance(a, CreateTrial)]
    kept = CheckpointRef(created[trial_id].node, resource)
    wait_for_event(study, CheckpointCommitted, lambda event: event.checkpoint == kept)


def family_without_template() -> list[int]:
    """Return the descendants of this process, but for the template of its workers, which stays for later runs."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.ppid() != os.getpid() or "asyncsearch.launch.worker_template" not in process.cmdline():
                found.append(process.pid)
    return found

"""What a training in the calling thread has in place of the channel to an agent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.agent.worker_checkpoints import WorkerCheckpoints
from asyncsearch.events import Reported
from asyncsearch.nonfinite import spell_all
from asyncsearch.rpc.messages import WorkerMessage
from asyncsearch.runner.link import shown_failure
from asyncsearch.runner.protocol import Amendment, FolderWanted, Saved


class Served(Protocol):
    """The worker, as a link sees it."""

    checkpoints: WorkerCheckpoints

    def send(self, message: WorkerMessage) -> None: ...

    def wait_for_driver(self, run: LaneRun) -> None: ...

    def give_folder(self, run: LaneRun, wanted: FolderWanted) -> Path: ...


class DirectLink:
    """A ``runner.link.Link`` that calls the worker instead of sending messages to an agent."""

    def __init__(self, run: LaneRun, worker: Served, look_up: Callable[[], None]) -> None:
        self._run, self._worker, self._look_up = run, worker, look_up
        self._thread = threading.get_ident()

    def report(self, resource: int, metrics: dict[str, float]) -> None:
        run = self._run
        run.resource = max(run.resource, resource)
        if not (run.is_refused or run.is_over):
            self._worker.send(Reported(run.lease, resource, spell_all(metrics), run.number))
            self._worker.wait_for_driver(run)

    def stop_reason(self) -> str | None:
        if threading.get_ident() == self._thread:  # what is shown meanwhile is that thread's alone
            self._look_up()
        return self._run.stop_reason

    def amendments(self) -> list[Amendment]:
        amendments, self._run.amendments = self._run.amendments, []
        return amendments

    def folder(self, stage: int, resource: int, *, is_needed: bool = False, failed: str = "") -> Path:
        return self._worker.give_folder(self._run, FolderWanted(stage, resource, is_needed, failed))

    def saved(self, stage: int, resource: int, *, is_last: bool) -> None:
        self._worker.checkpoints.saved(self._run, Saved(stage, resource, is_last))

    def save_failed(self, stage: int, resource: int, error: Exception) -> None:
        self._worker.checkpoints.save_failed(self._run, shown_failure(stage, resource, error))

    def close(self, refusal: str) -> None:
        """Do nothing: what is sent names its lease, and one that is over is refused."""

"""One lane of a lease on this worker, from its arrival to its end."""

from __future__ import annotations

import contextlib
from pathlib import Path

from asyncsearch.agent.config import LogLimits
from asyncsearch.agent.log_lines import LogBuffer
from asyncsearch.events import CheckpointFailed, Outcome, TrainingEnded
from asyncsearch.ids import CheckpointRef, Lease
from asyncsearch.runner.failures import with_last_lines
from asyncsearch.runner.protocol import Amendment
from asyncsearch.work import Lane


class LaneRun:
    """What the agent knows of it."""

    def __init__(self, lease: Lease, number: int, lane: Lane, limits: LogLimits) -> None:
        self.lease = lease
        self.number = number
        """Number of the lane in the work."""
        self.lane = lane
        self.log = LogBuffer(limits)
        self.resource = lane.stages[0].start
        """Units of training done, as last reported or saved."""
        self.saved: list[int] = []
        """Resources of the checkpoints that it saved, in order, without those whose commit failed."""
        self.last_save: int | None = None
        """Resource of the checkpoint at its end, once that is saved."""
        self.held_back: list[CheckpointFailed] = []
        """Failures to be sent after its end, which names its last checkpoint."""
        self.amendments: list[Amendment] = []
        """Those that came before the runner had it."""
        self.staged: dict[tuple[int, int], Path] = {}
        """(stage, resource) -> folder that the runner was given and has not filled yet."""
        self.fetched = contextlib.ExitStack()
        """Holds the checkpoint that it starts from."""
        self.load: Path | None = None
        """Path of that checkpoint, once it is here."""
        self.is_sent = False
        """Whether the runner has it."""
        self.is_over = False
        """Whether its end was told."""
        self.is_refused = False
        """Whether its lease is void: nothing of it is to be told any more."""
        self.stop_reason: str | None = None
        """Why it was told to stop; None: it was not."""
        self.escalate_at: float | None = None
        """When a stop that was not heeded is to be said louder, monotonic seconds."""
        self.is_terminated = False
        """Whether its runner got SIGTERM."""
        self.is_killed = False
        """Whether its runner got SIGKILL from here."""

    @property
    def can_start(self) -> bool:
        """Whether the runner can be given it now."""
        return not self.is_sent and (self.lane.load is None or self.load is not None)

    def checkpoint(self, stage: int, resource: int) -> CheckpointRef:
        """Return the name of what it saves at a resource of a stage."""
        return CheckpointRef(self.lane.stages[stage].node, resource)

    def end(self, outcome: Outcome, error: str = "", error_kind: str = "") -> list[TrainingEnded | CheckpointFailed]:
        """End it, and return the events that the driver is to be told, in order."""
        self.is_over = True
        if self.is_refused:
            return []
        if outcome is Outcome.FAILED:
            error = with_last_lines(error, self.log.tail())
        saved = self.saved[-1] if self.saved else None
        ended = TrainingEnded(self.lease, outcome, self.resource, saved, error, error_kind, self.number)
        return [ended, *self.held_back]

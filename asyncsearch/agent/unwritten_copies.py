"""The checkpoint of a training that has ended, as long as the runner writes it from a copy in memory.

The driver knows that it is to come, and that it is durable only by the commit: until then the trial is not paused.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.agent.transfers import Transfers, Waiting
from asyncsearch.events import KILLED
from asyncsearch.ids import CheckpointRef
from asyncsearch.runner.protocol import Copying, CopyWaits, Unwritten


class _Copy(NamedTuple):
    run: LaneRun
    checkpoint: Unwritten
    staged: Path

    @property
    def reference(self) -> CheckpointRef:
        return self.run.checkpoint(self.checkpoint.stage, self.checkpoint.resource)


class UnwrittenCopies:
    """The copy of one runner, which has one at a time."""

    def __init__(
        self,
        transfers: Transfers,
        failed: Callable[[LaneRun, CheckpointRef, str, str], None],
        note_wait: Callable[[Waiting], None],
    ) -> None:
        """Begin with none.

        Args:
            transfers: commit what is written, and remove what is not.
            failed: tells the driver that there is no checkpoint, why, and of what kind the error is.
            note_wait: notes that the disk cannot take the copy, or no longer so.
        """
        self._transfers, self._failed, self._note_wait = transfers, failed, note_wait
        self._copy: _Copy | None = None

    @property
    def runs(self) -> list[LaneRun]:
        """The run whose copy is being written, if there is one."""
        return [] if self._copy is None else [self._copy.run]

    def begin(self, run: LaneRun, checkpoint: Unwritten) -> None:
        """Note that a run ends whose last checkpoint is a copy; its end names it as one that was saved."""
        run.resource = max(run.resource, checkpoint.resource)
        run.saved.append(checkpoint.resource)
        run.last_save = checkpoint.resource
        self._copy = _Copy(run, checkpoint, run.staged.pop((checkpoint.stage, checkpoint.resource)))

    def on_message(self, message: Copying) -> None:
        """Commit the copy that is written, or tell that there is none; give one up that nobody waits for any more."""
        if self._copy is None:
            return  # it was given up
        if isinstance(message, CopyWaits):
            self._on_wait(self._copy.run, message.error)
        elif message.error:
            self._end(message.error, "")
        else:
            copy, self._copy = self._copy, None
            packed_with = copy.run.packed_with(copy.checkpoint.stage, copy.checkpoint.resource)
            self._transfers.commit(copy.run, copy.reference, copy.staged, packed_with, None)
            self._note_wait(Waiting("copy"))

    def lose(self) -> None:
        """Tell that there is no checkpoint: the process that was to write it is dead."""
        if self._copy is not None:
            self._end("the process that wrote it, beside the next training, has ended", KILLED)

    def _on_wait(self, run: LaneRun, error: str) -> None:
        if run.gives_up.is_set():
            self._end(error, "store")  # without its folder the runner gives it up, too
        else:
            self._note_wait(Waiting("copy", error))

    def _end(self, error: str, kind: str) -> None:
        assert self._copy is not None
        copy, self._copy = self._copy, None
        self._transfers.discard(copy.staged)
        self._failed(copy.run, copy.reference, error, kind)
        self._note_wait(Waiting("copy"))

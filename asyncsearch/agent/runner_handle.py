"""The runner as the workbench sees it: a process of its own, or the thread that calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.runner.protocol import Join, ToRunner, Train, TrainPack


class RunnerHandle(Protocol):
    """Trains the lanes of one lease at a time. Its messages and its death are passed to the workbench."""

    @property
    def can_take_more(self) -> bool:
        """Whether lanes may join those that it trains."""

    def begin(self, runs: Sequence[LaneRun], message: Train | TrainPack) -> bool:
        """Send the lanes of a lease, and return whether the runner takes them; one that is about to end does not."""

    def join(self, run: LaneRun, message: Join) -> None:
        """Send a lane that joins those that it trains."""

    def tell(self, message: ToRunner) -> None:
        """Send any other message."""

    def stop(self, run: LaneRun, reason: str) -> None:
        """Ask a lane to stop, and make it stop if it does not."""

    def kill(self) -> None:
        """End the training of all lanes at once, and begin no other one with this process."""

    def lane_ended(self, run: LaneRun) -> None:
        """Forget a lane that is over, whether it was sent or not."""

"""The runner as the workbench sees it: a process of its own, or the thread that calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.agent.runner_deaths import Death
from asyncsearch.runner.protocol import Ended, FromRunner, Join, ToRunner, Train, TrainPack


class RunnerHandle(Protocol):
    """Trains the lanes of one lease at a time."""

    def connect(self, received: Callable[[FromRunner], None], died: Callable[[Death], None]) -> None:
        """Pass on each message, and the death of a runner once all that it said is passed on."""

    @property
    def can_take_more(self) -> bool:
        """Whether lanes may join those that it trains."""

    def start(self) -> None:
        """Prepare for the following trainings."""

    def begin(self, runs: Sequence[LaneRun], message: Train | TrainPack) -> bool:
        """Send the lanes of a lease, and return whether the runner takes them; one that is about to end does not."""

    def join(self, run: LaneRun, message: Join) -> None:
        """Send a lane that joins those that it trains."""

    def tell(self, message: ToRunner) -> None:
        """Send any other message."""

    def stop(self, run: LaneRun, reason: str) -> None:
        """Ask a lane to stop, and make it stop if it does not."""

    def kill(self) -> None:
        """End the training of all lanes at once."""

    def discard(self) -> None:
        """End the training of all lanes at once, and begin no other one with this runner."""

    def lane_ended(self, run: LaneRun) -> None:
        """Forget a lane that is over, whether it was sent or not."""

    def training_ended(self, run: LaneRun, ended: Ended) -> None:
        """Note the end of the last lane, but for one that was to join and crossed the end of the others."""

    def close(self) -> None:
        """End the runner."""

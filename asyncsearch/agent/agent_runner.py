"""The interface of a runner for the agent, besides training: to be started, looked after and closed.

``RunnerSupervisor`` is one, with a process of its own; a launcher may give its agents another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from asyncsearch.agent.config import DriverStream, WorkerConfig
from asyncsearch.agent.lane_run import RunnerHandle
from asyncsearch.agent.runner_deaths import Death
from asyncsearch.agent.runner_process import DescriptorSelector, RunnerProcess
from asyncsearch.runner.protocol import FromRunner


class AgentRunner(RunnerHandle, Protocol):
    """A runner with all that the agent calls; only the agent's thread does."""

    restarts: bool
    """Whether a runner that dies is replaced at once."""

    @property
    def due(self) -> float | None:
        """The time of the next due action of ``tick``, in monotonic seconds. None if there is none."""

    def connect(self, received: Callable[[FromRunner], None], died: Callable[[Death], None]) -> None:
        """Pass on each message, and the death of a runner once all that it said is passed on."""

    def start(self) -> object:
        """Make the runner ready for the next training, if it is not."""

    def tick(self, now: float) -> None:
        """Do all due actions."""

    def on_exit(self, runner: RunnerProcess) -> None:
        """Take note of a process that is dead."""

    def look_at_memory(self) -> None:
        """Note the processes that the kernel has killed so far for want of memory."""

    def close(self) -> None:
        """End it."""


class MakeRunner(Protocol):
    """Makes a runner for an agent."""

    def __call__(
        self,
        config: WorkerConfig,
        watch: DescriptorSelector,
        stream: DriverStream,
        *,
        exited: Callable[[RunnerProcess], None],
    ) -> AgentRunner:
        """Make one; the arguments are those of ``RunnerSupervisor``."""

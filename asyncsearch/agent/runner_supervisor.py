"""Keeps one runner for the workbench: starts it, carries the messages both ways, ends it when it is worn or must die.

It knows processes and channels, and nothing of what a training's messages mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.agent.driver_stream import DriverStream
from asyncsearch.agent.io_selector import READ, WRITE, DescriptorSelector
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.agent.outputs import MAX_BACKLOG, Outputs
from asyncsearch.agent.runner_process import RunnerProcess
from asyncsearch.events import KILLED
from asyncsearch.runner.protocol import Ended, FromRunner, Join, ToRunner, Train, TrainPack

_CHOKED_S = 0.02
"""Time that reports wait in the runner before the next check of the driver's backlog."""
_CUT_OFF_S = 1.0
"""Time that a runner may live without its channel: a dying one must still set its own exit code."""


class RunnerSupervisor:
    """The present runner, if there is one, and its outputs."""

    def __init__(
        self,
        config: WorkerConfig,
        watch: DescriptorSelector,
        stream: DriverStream,
        *,
        exited: Callable[[RunnerProcess], None],
        received: Callable[[RunnerProcess, FromRunner], None],
    ) -> None:
        """Prepare; any thread may call ``exited``, and ``received`` is called in the thread of ``watch``."""
        self._config = config
        self._watch = watch
        self._stream = stream
        self._exited = exited
        self._received = received
        self._is_choked = False
        self.outputs = Outputs(watch, stream, config.log)
        self.runner: RunnerProcess | None = None

    def start(self) -> None:
        """Start a process for the following trainings."""
        self.runner = RunnerProcess(self._config, self._exited)
        self.outputs.open(self.runner)
        self._watch_channel(self.runner)

    def begin(self, runs: Sequence[LaneRun]) -> None:
        """Send the lanes of a lease to the runner; start one if there is none. One that is about to end gets none."""
        if self.runner is None:
            self.start()
        runner = self.runner
        if runner is None or runner.is_retired:
            return
        for run in runs:
            run.is_sent, run.lanes = True, len(runs)
        runner.trainings += len(runs)
        runner.oom.look()
        self.outputs.begin(runs[0], runner)
        trains = tuple([_train(run) for run in runs])
        pack = TrainPack(trains, runs[0].measured)
        self.tell(pack if len(trains) > 1 or runs[0].is_open else trains[0])

    @property
    def can_take_more(self) -> bool:
        """Whether the runner may get lanes that join those that it trains."""
        # However many it has trained: who waits for the next process waits for the longest training of this one.
        return not (self.runner is None or self.runner.is_retired or self._config.fresh_process)

    def join(self, run: LaneRun, others: Sequence[LaneRun]) -> None:
        """Send the runner a lane that joins those that it trains."""
        assert self.runner is not None
        run.is_sent = True
        for one in (run, *others):
            one.lanes = len(others) + 1
        self.runner.trainings += 1
        self.tell(Join(_train(run)))

    def tell(self, message: ToRunner) -> None:
        """Send a message, if there is a runner."""
        if self.runner is not None:
            self.runner.channel.post(message)
            self._watch_channel(self.runner)

    def kill(self) -> None:
        """Kill the runner and all processes that it started; its end is told by ``exited``."""
        if self.runner is not None:
            self.runner.kill()

    def drain(self, runner: RunnerProcess) -> int:
        """Deliver what a dead runner has said and printed, free its resources, and return its exit code."""
        runner.is_retired = True
        runner.kill()  # its children must not outlive it
        for message in runner.channel.receive_rest():
            self._received(runner, message)
        self.outputs.read_to_end(runner)
        return self._part_with(runner)

    def retire_if_worn(self, runner: RunnerProcess, run: LaneRun, ended: Ended) -> None:
        """Ask the runner to end after a training that makes it unfit for another one."""
        if self._is_worn(runner, run, ended):
            runner.retire(time.monotonic() + self._config.kill_grace_s)

    def close(self) -> None:
        """Kill the runner."""
        if self.runner is not None:
            self._part_with(self.runner)

    @property
    def due(self) -> float | None:
        """The time of the next due action of ``tick``, in monotonic seconds."""
        kill_at = None if self.runner is None else self.runner.kill_at
        choked = time.monotonic() + _CHOKED_S if self._is_choked else None
        return min((due for due in (self.outputs.due, kill_at, choked) if due is not None), default=None)

    def tick(self, now: float) -> None:
        """Do all due actions."""
        runner = self.runner
        if self.outputs.due is not None and now >= self.outputs.due:
            self.outputs.send(now)
        if runner is None:
            return
        if runner.kill_at is not None and now >= runner.kill_at:
            runner.kill_at = None
            runner.is_overdue = True
            runner.kill()
        if self._is_choked != (self._stream.backlog > MAX_BACKLOG):
            self._is_choked = not self._is_choked
            self._watch_channel(runner)

    def _on_channel(self, mask: int) -> None:
        runner = self.runner
        assert runner is not None
        if mask & WRITE:
            runner.channel.send_rest()
        if mask & READ:
            for message in runner.channel.receive_now():
                self._received(runner, message)
        if runner.channel.is_closed and runner.kill_at is None:
            runner.kill_at = time.monotonic() + _CUT_OFF_S
        self._watch_channel(runner)

    def _watch_channel(self, runner: RunnerProcess) -> None:
        channel, mask = runner.channel, 0
        if runner is self.runner and not channel.is_closed:
            mask = (0 if self._is_choked else READ) | (WRITE if channel.has_rest else 0)
        self._watch.set(channel.socket, mask, self._on_channel)

    def _part_with(self, runner: RunnerProcess) -> int:
        self._watch.forget(runner.channel.socket)
        for output in runner.outputs:
            self._watch.forget(output)
        self.runner = None
        return runner.close()

    def _is_worn(self, runner: RunnerProcess, run: LaneRun, ended: Ended) -> bool:
        config = self._config
        if config.fresh_process or self._is_old(runner) or runner.is_retired:
            return True
        # SIGTERM may have unwound it anywhere, in the middle of an import or with a lock held.
        if run.is_terminated or ended.error_kind in (KILLED, "MemoryError"):
            return True
        runner.look_at_memory()
        if runner.first_memory_bytes is None:
            runner.first_memory_bytes = runner.memory_bytes
        return runner.memory_bytes - runner.first_memory_bytes > config.recycle_growth_bytes

    def _is_old(self, runner: RunnerProcess) -> bool:
        return runner.trainings >= self._config.recycle_after


def _train(run: LaneRun) -> Train:
    load = None if run.load is None else str(run.load)
    return Train(run.lane.stages, load, tuple(run.amendments), run.number, run.seat, tuple(run.notes), run.place)

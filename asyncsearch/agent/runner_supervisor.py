"""The runner in a process of its own: its start, its messages both ways, and its end when it is worn or must die."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from asyncsearch.actions import StopTraining
from asyncsearch.agent.config import DriverStream, WorkerConfig
from asyncsearch.agent.lane_run import LaneRun, all_stopped, signal_due
from asyncsearch.agent.next_runner import NextRunner
from asyncsearch.agent.outputs import MAX_BACKLOG, Outputs
from asyncsearch.agent.runner_deaths import Death
from asyncsearch.agent.runner_process import READ, WRITE, DescriptorSelector, RunnerProcess
from asyncsearch.events import KILLED
from asyncsearch.runner.protocol import (
    CopyWritten,
    Ended,
    FromRunner,
    ImportedModules,
    Join,
    RunnerReady,
    ToRunner,
    Train,
    TrainPack,
)

_CHOKED_S = 0.02
"""Time that reports wait in the runner before the next check of the driver's backlog."""
_MEMORY_S = 0.2
"""Time between two looks at the memory of a process that has a limit."""
_CUT_OFF_S = 1.0
"""Time that a runner may live without its channel: a dying one must still set its own exit code."""


class RunnerSupervisor:
    """The present process, if there is one, and its outputs: a ``RunnerHandle`` for the workbench."""

    def __init__(
        self,
        config: WorkerConfig,
        watch: DescriptorSelector,
        stream: DriverStream,
        *,
        exited: Callable[[RunnerProcess], None],
    ) -> None:
        """Prepare.

        Args:
            config: of the worker.
            watch: waits for outputs and messages, in the thread that calls all methods.
            stream: gets the output.
            exited: passes its argument to ``on_exit``; called from another thread.
        """
        self._config = config
        self._watch = watch
        self._stream = stream
        self._received: Callable[[FromRunner], None] = lambda message: None
        self._died: Callable[[Death], None] = lambda death: None
        self.restarts = True
        """Whether a runner that dies is replaced at once."""
        self._has_lost_copy = False
        """Whether a process has died before it had written a copy: from then on there is none, lest it go on so."""
        self._is_choked = False
        self._outputs = Outputs(watch, stream, config.log)
        self._runner: RunnerProcess | None = None
        self._next = NextRunner(config, watch, exited=exited, say=self._outputs.say)
        self._runs: list[LaneRun] = []
        """The lanes that it trains."""
        self._memory_due = 0.0
        """When the memory of a process that has a limit is looked at next, monotonic seconds."""

    def connect(self, received: Callable[[FromRunner], None], died: Callable[[Death], None]) -> None:
        """Pass on each message, and the death of a runner once all that it said is passed on."""
        self._received, self._died = received, died

    def start(self) -> RunnerProcess:
        """Return the process for the following trainings, which is started if there is none."""
        if self._runner is None:
            self._runner = self._next.take()
            self._outputs.open(self._runner)
            self._watch_channel(self._runner)
            if self._runner.is_ready:
                self._received(RunnerReady())
        return self._runner

    def begin(self, runs: Sequence[LaneRun], message: Train | TrainPack) -> bool:
        runner = self.start()
        if runner.is_retired:
            return False
        self._runs = list(runs)
        runner.trainings += len(runs)
        self._begin_next(runner)
        runner.oom.look()
        self._outputs.begin(runs[0], runner)
        self.tell(message)
        return True

    @property
    def can_take_more(self) -> bool:
        # However many it has trained: who waits for the next process waits for the longest training of this one.
        return not (self._runner is None or self._runner.is_retired or self._config.fresh_process)

    @property
    def loads_beside(self) -> bool:
        return True

    @property
    def may_copy(self) -> bool:
        return not (self._config.fresh_process or self._has_lost_copy)

    def join(self, run: LaneRun, message: Join) -> None:
        assert self._runner is not None
        self._runs.append(run)
        self._runner.trainings += 1
        self.tell(message)

    def tell(self, message: ToRunner) -> None:
        """Send a message, if there is a runner."""
        if self._runner is not None:
            self._runner.channel.post(message)
            self._watch_channel(self._runner)

    def stop(self, run: LaneRun, reason: str) -> None:
        run.escalate_at = time.monotonic() + self._config.stop_grace_s
        self.tell(StopTraining(run.lease, reason, run.number))

    def kill(self) -> None:
        """Kill the runner and all processes that it started; its end is told by ``exited``."""
        if self._runner is not None:
            self._runner.is_retired = True
            self._runner.kill()

    def lane_ended(self, run: LaneRun) -> None:
        self._runs = [one for one in self._runs if one is not run]
        self._outputs.pass_on(run, next(iter(self._runs), None), self._runner)

    def on_exit(self, runner: RunnerProcess) -> None:
        """Deliver the last messages and output of a dead runner, free its resources, and start the next one."""
        if runner is not self._runner:
            self._next.on_exit(runner)
            return
        self.kill()  # its children must not outlive it
        for message in runner.channel.receive_rest():
            self._receive(runner, message)
        self._outputs.read_to_end(runner)
        self._has_lost_copy |= runner.copy_bytes > 0
        returncode = self._part_with(runner)
        kills, over_bytes = runner.oom.kills(), runner.over_bytes
        self._died(Death(returncode, runner.peak_bytes, kills, runner.is_overdue, over_bytes=over_bytes))
        # A runner that dies while it loads the trainable would die repeatedly; only the next work retries.
        if runner.is_ready and self.restarts:
            self.start()

    def look_at_memory(self) -> None:
        """Note the kills of the kernel so far, for the message if the training's process is killed."""
        if self._runner is not None and self._runs:
            self._runner.oom.look()

    def close(self) -> None:
        """Kill the runner."""
        if self._runner is not None:
            self._part_with(self._runner)
        self._next.close()

    @property
    def due(self) -> float | None:
        """The time of the next due action of ``tick``, in monotonic seconds."""
        kill_at = None if self._runner is None else self._runner.kill_at
        choked = time.monotonic() + _CHOKED_S if self._is_choked else None
        memory = self._memory_due if self._is_limited else None
        all_due = (self._outputs.due, self._escalate_at(), kill_at, choked, memory)
        return min((due for due in all_due if due is not None), default=None)

    def tick(self, now: float) -> None:
        """Do all due actions."""
        runner = self._runner
        if self._outputs.due is not None and now >= self._outputs.due:
            self._outputs.send(now)
        if runner is None:
            return
        if self._is_limited and now >= self._memory_due:
            self._keep_within(runner, now)
        if (due := self._escalate_at()) is not None and now >= due:
            self._escalate(runner, now)
        if runner.kill_at is not None and now >= runner.kill_at:
            runner.kill_at = None
            runner.is_overdue = True
            runner.kill()
        if self._is_choked != (self._stream.backlog > MAX_BACKLOG):
            self._is_choked = not self._is_choked
            self._watch_channel(runner)

    @property
    def _is_limited(self) -> bool:
        """Whether what trains now may hold so much memory and no more."""
        return self._config.trial_bytes is not None and self._runner is not None and bool(self._runs)

    def _keep_within(self, runner: RunnerProcess, now: float) -> None:
        """Kill a process that holds more than its limit: the machine's own end for it would take others, too."""
        self._memory_due = now + _MEMORY_S
        held = runner.held_bytes()
        if held > (self._config.trial_bytes or 0) and not runner.over_bytes:
            runner.over_bytes = held
            self.kill()

    def _escalate_at(self) -> float | None:
        """Return when the runner is to be signalled. None if never, as while it trains a lane that may go on."""
        return signal_due(self._runs) if all_stopped(self._runs) else None

    def _escalate(self, runner: RunnerProcess, now: float) -> None:
        """Signal a runner whose lanes were all told to stop and have not."""
        is_terminated = any(run.is_terminated for run in self._runs)
        for run in self._runs:
            run.escalate_at = None if is_terminated else now + self._config.kill_grace_s
            run.is_killed, run.is_terminated = is_terminated, True
        if is_terminated:
            runner.kill()
        else:
            runner.terminate()

    def _receive(self, runner: RunnerProcess, message: FromRunner) -> None:
        if isinstance(message, ImportedModules):
            self._next.preload(runner, message)
        if isinstance(message, RunnerReady):
            runner.is_ready = True
            self._begin_next(runner)
        if isinstance(message, CopyWritten):
            self._on_written(runner)
        if isinstance(message, Ended) and message.unwritten is not None:
            runner.copy_bytes = message.unwritten.size_bytes
        if isinstance(message, Ended) and message.is_last:
            self._outputs.read_to_marker(runner)
            run = next((run for run in self._runs if run.number == message.lane), None)
            # Not where another lane was to join, and crossed the end of the others.
            if len(self._runs) == 1 and run is not None and self._is_worn(runner, run, message):
                runner.retire(None if runner.copy_bytes else self._kill_at())
        self._received(message)

    def _on_written(self, runner: RunnerProcess) -> None:
        """Note that a copy is written, or cannot be; a process that has retired has waited for that alone."""
        runner.copy_bytes = 0
        if runner.is_retired and runner.kill_at is None:
            runner.kill_at = self._kill_at()

    def _kill_at(self) -> float:
        """Return when a process that retires now must have ended."""
        return time.monotonic() + self._config.kill_grace_s

    def _on_channel(self, mask: int) -> None:
        runner = self._runner
        assert runner is not None
        if mask & WRITE:
            runner.channel.send_rest()
        if mask & READ:
            for message in runner.channel.receive_now():
                self._receive(runner, message)
        if runner.channel.is_closed and runner.kill_at is None:
            runner.kill_at = time.monotonic() + _CUT_OFF_S
        self._watch_channel(runner)

    def _watch_channel(self, runner: RunnerProcess) -> None:
        channel, mask = runner.channel, 0
        if runner is self._runner and not channel.is_closed:
            mask = (0 if self._is_choked else READ) | (WRITE if channel.has_rest else 0)
        self._watch.set(channel.socket, mask, self._on_channel)

    def _part_with(self, runner: RunnerProcess) -> int:
        self._watch.forget(runner.channel.socket)
        for output in runner.outputs:
            self._watch.forget(output)
        self._runner = None
        return runner.close()

    def _is_worn(self, runner: RunnerProcess, run: LaneRun, ended: Ended) -> bool:
        config = self._config
        if config.fresh_process or self._is_old(runner) or runner.is_retired:
            return True
        # SIGTERM may have unwound it anywhere, in the middle of an import or with a lock held.
        if run.is_terminated or ended.error_kind in (KILLED, "MemoryError"):
            return True
        if not runner.has_grown(config.recycle_growth_bytes):
            return False
        # It trains on while the next one imports, but not until it has grown as much once more.
        return not self._next.begin(runner) or self._next.is_ready or runner.has_grown(config.recycle_growth_bytes, 2)

    def _begin_next(self, runner: RunnerProcess) -> None:
        """Begin the next process beside the last training of one that has itself loaded the trainable."""
        if self._runs and runner.is_ready and (self._config.fresh_process or self._is_old(runner)):
            self._next.begin(runner)

    def _is_old(self, runner: RunnerProcess) -> bool:
        most = self._config.recycle_after
        return most is not None and runner.trainings >= most

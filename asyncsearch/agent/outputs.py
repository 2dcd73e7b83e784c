"""The runner's output: read from its pipes, assigned to the right run, and sent to the driver in batches."""

from __future__ import annotations

import functools
import time
from collections import deque

from asyncsearch.agent.config import DriverStream, LogLimits
from asyncsearch.agent.lane_run import LaneRun
from asyncsearch.agent.runner_process import READ, DescriptorSelector, OutputPipe, RunnerProcess
from asyncsearch.rpc.messages import LogLines

MAX_BACKLOG = 2_000
"""Number of unacknowledged messages above which lines wait in the agent, and the oldest are omitted."""


class Outputs:
    """Reads the outputs of one runner after the other."""

    def __init__(self, watch: DescriptorSelector, stream: DriverStream, limits: LogLimits) -> None:
        self._watch = watch
        self._stream = stream
        self._limits = limits
        self._run: LaneRun | None = None
        self._early: deque[tuple[float, bool, bytes]] = deque(maxlen=limits.lines_per_s)
        """Lines printed between two runs; they belong to the next one."""
        self.due: float | None = None
        """When to send lines, monotonic seconds. None if no lines wait."""

    def open(self, runner: RunnerProcess) -> None:
        """Start reading this runner's output."""
        for output in runner.outputs:
            self._watch.set(output, READ, functools.partial(self._read, output))

    def begin(self, run: LaneRun, runner: RunnerProcess) -> None:
        """Assign the output from now on to the run."""
        for output in runner.outputs:
            output.is_at_end = False
        for time_s, is_stderr, line in self._early:
            run.log.add([line], is_stderr, time_s)
        self._early.clear()
        self._run = run
        if not run.log.is_empty:
            self.due = time.monotonic() + self._limits.flush_s

    def read_to_marker(self, runner: RunnerProcess) -> None:
        """Read the rest of the current training's output, without waiting: its markers are already in the pipes."""
        for output in runner.outputs:
            while not output.is_at_end and self._read(output):
                pass

    def read_to_end(self, runner: RunnerProcess) -> None:
        """Read the rest of a dead runner's output."""
        for output in runner.outputs:
            while self._read(output):
                pass
            self._add(output, output.reader.end())
            self._watch.forget(output)

    def pass_on(self, run: LaneRun, to: LaneRun | None, runner: RunnerProcess | None) -> None:
        """Send a run's last lines; later output belongs to another one that trains in the same process, if any does."""
        if self._run is run:
            self.send(time.monotonic(), is_last=True)
            self._run = None
            if to is not None and runner is not None:
                self.begin(to, runner)

    def send(self, now: float, *, is_last: bool = False) -> None:
        """Send the lines that may be sent at ``now``, monotonic seconds."""
        run = self._run
        self.due = None
        if run is None or run.is_refused or run.log.is_empty:
            return
        if self._stream.backlog > MAX_BACKLOG and not is_last:
            self.due = now + self._limits.flush_s
            return
        lines, left_out = run.log.take(now)
        self._stream.send(LogLines(run.lease, lines, left_out, run.number))

    def say(self, words: str) -> None:
        """Add a line of the agent's own, to the log of the present run or of the next one."""
        line = f"asyncsearch: {' '.join(words.split())}".encode(errors="backslashreplace")
        self._keep([line], is_stderr=True, is_early=False)

    def _read(self, output: OutputPipe, _mask: int = READ) -> bool:
        """Read once, and return whether more data may follow."""
        data = output.read()
        if not data:
            if data is not None:
                self._watch.forget(output)
            return False
        lines, after = output.reader.feed(data)
        self._add(output, lines)
        if after is not None:
            output.is_at_end = True
            self._add(output, after)
        return True

    def _add(self, output: OutputPipe, lines: list[bytes]) -> None:
        self._keep(lines, is_stderr=output.is_stderr, is_early=output.is_at_end)

    def _keep(self, lines: list[bytes], *, is_stderr: bool, is_early: bool) -> None:
        """Assign lines to the present run, or to the next one."""
        if not lines:
            return
        time_s = time.time()
        if self._run is None or is_early:
            self._early.extend((time_s, is_stderr, line) for line in lines)
            return
        self._run.log.add(lines, is_stderr, time_s)
        if self.due is None:
            self.due = time.monotonic() + self._limits.flush_s

"""The agent's handle of its runner process: start, message, wait for its outputs and read them, stop, kill."""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Protocol

from asyncsearch.agent.config import WorkerConfig
from asyncsearch.agent.devices import runner_environment
from asyncsearch.agent.log_lines import LineReader
from asyncsearch.agent.runner_deaths import OomCounters
from asyncsearch.agent.runner_template import ForkedProcess, ForkedRunner, fork_runner, peak_of
from asyncsearch.runner.channel import agent_end
from asyncsearch.runner.process.kernel_files import rooms
from asyncsearch.runner.process.preloading import text_variables
from asyncsearch.runner.protocol import Load

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class HasFileno(Protocol):
    """A socket or a pipe."""

    def fileno(self) -> int:
        """Return the descriptor."""


class DescriptorSelector:
    """Calls a function when its descriptor is ready; what is waited for may change at any time."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def set(self, file: HasFileno, mask: int, ready: Callable[[int], object]) -> None:
        """Watch for the events in ``mask``, for none if it is 0."""
        key = self._selector.get_map().get(file)
        if key is None:
            if mask:
                self._selector.register(file, mask, ready)
        elif not mask:
            self.forget(file)
        elif key.events != mask:
            self._selector.modify(file, mask, ready)

    def forget(self, file: HasFileno) -> None:
        """Stop watching a file; call this before the file is closed."""
        if file in self._selector.get_map():
            self._selector.unregister(file)

    def wait(self, timeout_s: float) -> None:
        """Wait until a descriptor is ready, or the time is over, and call the functions."""
        for key, mask in self._selector.select(timeout_s):
            now = self._selector.get_map().get(key.fd)
            if now is not None and now.fileobj is key.fileobj:  # else an earlier callback has closed it
                key.data(mask)

    def close(self) -> None:
        self._selector.close()


_Process = subprocess.Popen[bytes] | ForkedRunner

_READ_BYTES = 65_536
_LEAST_GROWTH = 64 * 2**20
"""Growth that no process is replaced for: allocators keep what a larger trial has used."""
_MEMORY_S = 0.5
"""Maximum age of a measurement of a runner's memory; measuring takes as long as assigning a trial."""


class OutputPipe:
    """The agent's end of the runner's standard output or error."""

    def __init__(self, stream: IO[bytes], is_stderr: bool, reader: LineReader) -> None:
        os.set_blocking(stream.fileno(), False)
        self.is_stderr = is_stderr
        self.reader = reader
        self.is_at_end = False
        """Whether the marker that ends the current training was read."""
        self._stream = stream

    def fileno(self) -> int:
        return self._stream.fileno()

    def read(self) -> bytes | None:
        """Return the available bytes, at most one full pipe. None if there are none now, empty at the end."""
        try:
            return os.read(self._stream.fileno(), _READ_BYTES)
        except BlockingIOError:
            return None

    def close(self) -> None:
        self._stream.close()


class RunnerProcess:
    """A runner. It ends with the process that made it, and so do all processes that it started."""

    def __init__(
        self,
        config: WorkerConfig,
        exited: Callable[[RunnerProcess], None],
        preloaded: Callable[[], ForkedRunner | None] = lambda: None,
    ) -> None:
        """Start the process and send it the trainable.

        Args:
            config: of the worker.
            exited: called by a thread when the process is dead.
            preloaded: forks it with the modules of an earlier one. None if that cannot be.
        """
        self.trainings = 0
        """Number of trainings assigned to it."""
        self.is_ready = False
        """Whether it has loaded the trainable."""
        self.is_retired = False
        """Whether it gets no more trainings."""
        self.kill_at: float | None = None
        """Deadline for its end, monotonic seconds."""
        self.is_overdue = False
        """Whether it was killed because of ``kill_at``."""
        self.memory_bytes = 0
        """Resident memory at the last measurement."""
        self.peak_bytes = 0
        """The most resident memory that it ever had; 0 as long as it is not reaped."""
        self.first_memory_bytes: int | None = None
        """Resident memory after its first training, without the copy of a state."""
        self.copy_bytes = 0
        """Size of the copy that it writes. 0 if it writes none."""
        self.over_bytes = 0
        """What it held when it was killed for holding more than it may. 0 if it was not."""
        self._memory_due = 0.0
        self._most_growth = 0
        self._descriptors = 0
        """Open ones at the last measurement."""
        marker = b"\0asyncsearch:" + secrets.token_hex(16).encode() + b"\n"
        gpus, share = config.gpus, config.gpu_share
        environment = runner_environment(os.environ, sys.path, config.cpu_threads, gpus, share, config.hash_seed)
        forked = preloaded() if config.keeps_template else None
        self.is_preloaded = forked is not None
        """Whether it began with the modules of an earlier one."""
        if forked is None and config.keeps_template:
            forked = fork_runner(environment)
        self._process, ours, self._lifeline = _start(environment, forked)
        self.environment = environment
        self.oom = OomCounters(self._process.pid)
        """Kills of the kernel for want of memory."""
        self.channel = agent_end(ours)
        is_forked = isinstance(self._process, ForkedRunner)
        added = text_variables(environment) if is_forked else {}
        self.is_named = is_forked and config.preloads and not self.is_preloaded
        """Whether it names the modules that it has imported, once it has trained."""
        flags = self.is_named, self.is_preloaded
        load = Load(config.bundle, config.metric, marker, config.untrusted, added, *flags, config.seal_key)
        self.channel.post(load)
        out, err = self._process.stdout, self._process.stderr
        assert out is not None
        assert err is not None
        self.outputs = tuple(
            OutputPipe(stream, stream is err, LineReader(marker, 4 * config.log.line_chars)) for stream in (out, err)
        )
        threading.Thread(target=self._wait, args=(exited,), name="runner-exit", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def look_at_memory(self) -> None:
        """Measure its memory and its descriptors, unless the last measurement is recent."""
        now = time.monotonic()
        if now < self._memory_due:
            return
        self._memory_due = now + _MEMORY_S
        import psutil

        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            self.memory_bytes = process.memory_info().rss
            if hasattr(process, "num_fds"):
                self._descriptors = process.num_fds()

    def held_bytes(self) -> int:
        """Return the resident memory of the process and of all that it started; 0 if it is gone."""
        import psutil

        held = 0
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            for one in (process, *process.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    held += one.memory_info().rss
        return held

    def has_grown(self, most_bytes: int, times: int = 1) -> bool:
        """Return whether it holds more than after its first training: ``times`` so many bytes, or many descriptors."""
        self.look_at_memory()
        held = self.memory_bytes - self.copy_bytes
        if self.first_memory_bytes is None:
            self.first_memory_bytes = held
            self._most_growth = growth_limit(most_bytes, [room for room, _ in rooms()])
        return held - self.first_memory_bytes > times * self._most_growth or 2 * self._descriptors > _most_descriptors()

    def terminate(self) -> None:
        """Send SIGTERM to the runner alone: it unwinds the user's code, which handles its own children."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the runner and all processes that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def retire(self, kill_at: float | None) -> None:
        """Ask the runner to end by itself, and set the time of its SIGKILL otherwise. None means not known yet."""
        self.is_retired = True
        self.kill_at = kill_at
        with contextlib.suppress(OSError):
            # Not closed: the last messages of the runner are still to be read.
            self.channel.socket.shutdown(socket.SHUT_WR)

    def close(self) -> int:
        """Kill the remaining processes, free all resources, and return the exit code as in ``subprocess``."""
        # Before it is reaped: from then on another process may have its id, and get the signal.
        self.kill()
        returncode, self.peak_bytes = _reaped(self._process)
        self.channel.socket.close()
        for output in self.outputs:
            output.close()
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        return returncode

    def _wait(self, exited: Callable[[RunnerProcess], None]) -> None:
        await_end(self._process)
        exited(self)


def growth_limit(most_bytes: int, rooms: Sequence[int]) -> int:
    """Return by how much a runner may grow: less than is wished where memory is scarce, for others grow, too."""
    return min(most_bytes, max(_LEAST_GROWTH, min(rooms, default=4 * most_bytes) // 4))


def _most_descriptors() -> int:
    """Return how many descriptors a process may open; a runner has the agent's limit."""
    try:
        import resource
    except ImportError:  # Windows
        return 2**31
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2**31 if limit == resource.RLIM_INFINITY else limit


def await_end(process: subprocess.Popen[bytes] | ForkedProcess) -> None:
    """Wait for the end of a process, if possible without reaping it."""
    if isinstance(process, ForkedProcess):
        process.await_end()
    elif hasattr(os, "waitid"):
        # Its group is killed before it is reaped: until then no other process can get its id.
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()


def _reaped(process: _Process) -> tuple[int, int]:
    """Wait for the end of a process and reap it; return its exit code, and the most memory in bytes that it had."""
    if isinstance(process, ForkedRunner):
        return process.wait(), process.peak_bytes
    if process.returncode is None:
        with contextlib.suppress(ChildProcessError):  # another thread has reaped it
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, peak_of(usage.ru_maxrss)
    return process.wait(), 0


def _start(environment: dict[str, str], forked: ForkedRunner | None) -> tuple[_Process, socket.socket, int]:
    if forked is not None:
        return forked, forked.channel, forked.lifeline
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    command = [sys.executable, "-P", "-m", "asyncsearch.runner", str(theirs.fileno()), str(reading)]
    try:
        process = subprocess.Popen(
            [*command, str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            pass_fds=(theirs.fileno(), reading),
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        os.close(writing)
        raise
    finally:
        # Else this process would hold the ends open whose closing tells that the other one is gone.
        theirs.close()
        os.close(reading)
    return process, ours, writing

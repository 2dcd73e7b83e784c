"""Workers as child processes on this machine: no cluster, no Java.

Each launch has a thread that starts the process, waits for its end and reports it. That thread lives as long as the
process, because a child that requests a signal at its parent's death gets it when the *thread* that started it ends.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import IO

from asyncsearch.agent.runner_process import await_end
from asyncsearch.errors import ClusterError, InternalError, UsageError
from asyncsearch.files.paths import working_folder
from asyncsearch.ids import WorkerId, worker_name
from asyncsearch.launch.base_launcher import (
    TOO_LATE,
    AgentFunction,
    ConfigFor,
    Launcher,
    OnWorkerEnded,
    Preflight,
    run_agent,
)
from asyncsearch.launch.child_process import LENGTH
from asyncsearch.launch.machine import cores, machine_devices, patiently
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.launch.worker_template import TEMPLATES, ForkedWorker

_Process = subprocess.Popen[bytes] | ForkedWorker

_TAIL_LINES = 20
_TAIL_BYTES = 8_192
_KILLED_WITHIN_S = 10.0
"""Time that a process has to end after SIGKILL; one that waits for a dead disk never ends."""


class ProcessLauncher(Launcher):
    """Starts each worker as a process that ends with this one, however this one ends."""

    name = "processes"

    def __init__(self, *, agent: AgentFunction = run_agent) -> None:
        """Make a launcher; each process runs ``agent``."""
        self._agent = agent
        self._config_for: ConfigFor | None = None
        self._ended: OnWorkerEnded | None = None
        self._changed = threading.Condition()
        self._launches: dict[tuple[WorkerId, int], _Launch] = {}
        self._spares: list[_Launch] = []
        """Processes that were started before a launch asked for them."""
        self._is_stopped = False

    def workers_now(self) -> int:
        return cores()

    def check(self, parallelism: int | None) -> Preflight:
        if not sys.executable:
            raise ClusterError(
                "This Python does not know its own executable, so it cannot start workers. Use 'inline'."
            )
        working_folder()  # workers start in it
        count = cores()
        wanted = count if parallelism is None else parallelism
        if wanted < 1:
            raise UsageError(f"parallelism={wanted} is too small: it counts workers, from 1.")
        crowded = f"{wanted} workers share {count} cores; each trial takes longer than with parallelism={count}."
        return Preflight(
            parallelism=wanted,
            cpu_threads=max(1, count // wanted),
            warnings=(crowded,) if wanted > count else (),
            place="processes on this machine",
        )

    def devices(self, per_worker: float) -> tuple[str, ...] | None:
        return machine_devices(os.environ)

    def warm_up(self, workers: int) -> None:
        for _ in range(workers):
            launch = _Launch()
            with self._changed:
                self._is_stopped = False
                self._spares.append(launch)
            self._follow_in_thread(launch, "asyncsearch-worker")

    def start(self, config_for: ConfigFor, ended: OnWorkerEnded) -> None:
        self._config_for, self._ended = config_for, ended
        self._is_stopped = False

    def launch(self, worker: WorkerId, epoch: int) -> None:
        if self._config_for is None or self._ended is None:
            raise InternalError("launch() comes after start()")
        payload = dumps((self._agent, self._config_for(worker, epoch)))
        is_started, launch = True, None
        with self._changed:
            if not self._is_stopped:
                is_started = bool(self._spares)
                launch = self._spares.pop(0) if is_started else _Launch()
                launch.key = (worker, epoch)
                self._launches[launch.key] = launch
        if launch is None:
            self._ended(worker, epoch, TOO_LATE)
            return
        launch.give(payload)
        if not is_started:
            self._follow_in_thread(launch, f"asyncsearch-{worker_name(worker)}.{epoch}")

    def kill(self, worker: WorkerId, epoch: int) -> None:
        with self._changed:
            launch = self._launches.get((worker, epoch))
        if launch is not None:
            launch.kill()

    def stop(self, grace_s: float) -> None:
        with self._changed:
            self._is_stopped = True
            spares = list(self._spares)
        for launch in spares:
            launch.kill()
        self._wait_for_all(grace_s)
        with self._changed:
            left = [*self._launches.values(), *self._spares]
        for launch in left:
            launch.kill()
        self._wait_for_all(_KILLED_WITHIN_S)

    def _follow_in_thread(self, launch: _Launch, name: str) -> None:
        threading.Thread(target=self._follow, args=(launch,), name=name, daemon=True).start()

    def _follow(self, launch: _Launch) -> None:
        try:
            reason = patiently(launch.run, launch.killed.wait, launch.name)
        except Exception as error:
            reason = f"its process could not be started: {type(error).__name__}: {error}"
        with self._changed:
            if launch in self._spares:
                self._spares.remove(launch)
                self._changed.notify_all()
        if launch.key is None:
            return
        assert self._ended is not None
        try:
            self._ended(*launch.key, reason)
        finally:
            with self._changed:
                del self._launches[launch.key]
                self._changed.notify_all()

    def _wait_for_all(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with self._changed:
            while (self._launches or self._spares) and (left_s := deadline - time.monotonic()) > 0:
                self._changed.wait(left_s)


class _Launch:
    """One process, from its start to its end. ``run`` is called in its own thread, ``kill`` in any."""

    def __init__(self) -> None:
        self.key: tuple[WorkerId, int] | None = None
        """Which launch it is. None until a launch asks for it."""
        self._payload: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self.killed = threading.Event()
        """Set once the process is not wanted any more."""

    @property
    def name(self) -> str:
        """Which worker it is, for the log."""
        return "A worker" if self.key is None else f"{worker_name(self.key[0])}, epoch {self.key[1]},"

    def give(self, payload: bytes) -> None:
        """Give the process its agent and configuration."""
        self._payload.put(payload)

    def run(self) -> str:
        """Start the process, wait for its end, and return the reason."""
        with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as errors:
            with self._lock:
                if self.killed.is_set():
                    return "it was called off before it started"
                process = self._process = _start(answer, errors)
            assert process.stdin is not None
            with process.stdin as pipe:
                with contextlib.suppress(BrokenPipeError):  # it died at once, and its output says why
                    self._write_payload(pipe)
                await_end(process)
                with self._lock:
                    _kill_group(process)  # its remaining children; its id is not reused until it is reaped
                    code = process.wait()
                    self._process = None
                    if self.killed.is_set():
                        return f"its process {process.pid} was ended by the driver"
            return _words(process.pid, code, _tail(answer), _tail(errors).splitlines()[-_TAIL_LINES:])

    def _write_payload(self, pipe: IO[bytes]) -> None:
        payload = self._payload.get()
        pipe.write(LENGTH.pack(len(payload)))
        pipe.write(payload)
        pipe.flush()

    def kill(self) -> None:
        """End the process, now or before it starts."""
        with self._lock:
            self.killed.set()
            self._payload.put(b"")  # for the thread that waits for one
            if self._process is not None:
                _kill_group(self._process)


def _start(answer: IO[bytes], errors: IO[bytes]) -> _Process:
    return TEMPLATES.fork_worker(answer, errors)


def _kill_group(process: _Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES))
    return file.read().decode(errors="backslashreplace").strip()


def _words(pid: int, code: int, answer: str, lines: Sequence[str]) -> str:
    """Describe the end of a process, its last line of output before the others."""
    if code == 0:
        return answer or f"its process {pid} exited"
    last = f": {lines[-1]}" if lines else ""
    printed = "\n" + "\n".join(lines) if len(lines) > 1 else ""
    if code > 0:
        return f"its process {pid} exited with code {code}{last}{printed}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = ", perhaps because memory ran out" if name == "SIGKILL" else ""
    return f"its process {pid} was killed by {name}{hint}{last}{printed}"

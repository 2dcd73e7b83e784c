"""Worker processes that are forked from one which has imported a framework, where others are programs.

A worker computes for some seconds before its first step in torch or in Keras: its imports, the same in each test. What
is forked runs what the program runs, is a child of this process as that is, and has its group and its pipes. Tests of
the start itself, of Spark, of pages and of notebooks start programs.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO

from asyncsearch.files.paths import import_path
from asyncsearch.runner.process.preloading import take_over

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
"""A process with several threads is not forked."""


class ForkedWorker:
    """The handle of a worker, with what ``launch.processes`` uses of ``subprocess.Popen``."""

    def __init__(self, pid: int, stdin: int) -> None:
        self.pid, self.stdin = pid, os.fdopen(stdin, "wb")
        self.returncode: int | None = None

    def wait(self) -> int:
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


class ForkedWorkers:
    """The process with the imported modules, which the first worker starts. It ends with this one."""

    def __init__(self, *modules: str) -> None:
        self._modules, self._lock = modules, threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self, answer: IO[bytes], errors: IO[bytes]) -> ForkedWorker:
        """Start a worker, as ``launch.processes._start``."""
        reading, writing = os.pipe()
        environment = {**os.environ, "PYTHONPATH": import_path(sys.path)}
        request = json.dumps([os.getpid(), os.getcwd(), environment]).encode()
        with self._lock, _adopting_orphans():
            control = self._control or self._begin()
            socket.send_fds(control, [request], [reading, answer.fileno(), errors.fileno()])
            os.close(reading)
            return ForkedWorker(int(control.recv(64)), writing)

    def _begin(self) -> socket.socket:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno()), *self._modules],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": import_path(sys.path)},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        return self._control

    def close(self) -> None:
        if self._control is not None and self._process is not None:
            self._control.close()
            self._process.kill()  # it may never see the end of its socket: children that tests have forked hold it open
            self._process.wait()


@contextlib.contextmanager
def _adopting_orphans() -> Iterator[None]:
    """Make this process the parent of what its descendants leave behind."""
    set_child_subreaper, prctl = 36, ctypes.CDLL(None).prctl
    prctl(set_child_subreaper, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(set_child_subreaper, 0, 0, 0, 0)


def _serve(control: socket.socket) -> None:
    """Fork a worker for each request, twice: it is left to the process that asks for it."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 3)
        if not request:
            return
        between = os.fork()
        if between == 0:
            if os.fork() == 0:
                _work(control, request, descriptors)
            os._exit(0)
        os.waitpid(between, 0)
        for one in descriptors:
            os.close(one)


def _work(control: socket.socket, request: bytes, descriptors: list[int]) -> None:
    from asyncsearch.launch.child_process import main

    parent, folder, environment = json.loads(request)
    os.setpgid(0, 0)
    for standard, one in enumerate(descriptors):
        os.dup2(one, standard)
    while os.getppid() != parent:  # a signal at its parent's death would be one at that of the process between
        time.sleep(0.001)
    control.send(str(os.getpid()).encode())
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    take_over(environment)
    os.chdir(folder)
    main()


if __name__ == "__main__":
    served = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # else the first collection of each worker would copy all that is imported
    _serve(served)

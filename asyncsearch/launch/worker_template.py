"""``python -m asyncsearch.launch.worker_template SOCKET``: forks workers, each in a tenth of the time of a start.

It has imported what a worker imports, but not gRPC: each worker forks a template of its own, whose runners must not
have it (``runner.template``). What is forked runs what the program ``launch.child_process`` runs. A template serves all
studies of a process, and ends with it, or when it has had no worker for a minute.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import IO, Any

from asyncsearch.agent.runner_template import CAN_FORK, ForkedProcess, Template
from asyncsearch.files.paths import import_path
from asyncsearch.launch import child_process
from asyncsearch.runner import template as runner_template

_KEPT_S = 60.0
"""How long it stays without a worker: somebody who tries a search again does so soon."""


class ForkedWorker(ForkedProcess):
    """The launcher's handle of a worker."""

    def __init__(self, template: Template, pid: int, stdin: int) -> None:
        super().__init__(template, pid)
        self.stdin: IO[bytes] = open(stdin, "wb")  # noqa: SIM115 - the launcher closes it


class WorkerTemplate(Template):
    """The process that forks workers. Any thread may use it."""

    def __init__(self, process: Any, control: Any) -> None:
        super().__init__(process, control)
        self._asking = threading.Lock()

    def ask(self, data: bytes, descriptors: tuple[int, ...] = ()) -> tuple[int, ...] | None:
        with self._asking:
            return super().ask(data, descriptors)

    def hold(self) -> None:
        """Wait for its end, and free what is held of it."""
        self._process.wait()
        with self._asking:
            self._control.close()

    def fork_worker(self, answer: IO[bytes], errors: IO[bytes]) -> ForkedWorker | None:
        """Fork a worker with these files as its output. None if that cannot be, or the process is gone."""
        reading, writing = os.pipe()
        found = self.ask(b"worker", (reading, answer.fileno(), errors.fileno()))
        os.close(reading)
        if found is None:
            os.close(writing)
            return None
        return ForkedWorker(self, found[0], writing)


class WorkerTemplates:
    """The template of this process, which a fork of this process does not use."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew, with none."""
        self._lock = threading.Lock()
        self._inherited: object = None
        self._template: WorkerTemplate | None = None

    def fork_worker(self, answer: IO[bytes], errors: IO[bytes]) -> ForkedWorker | subprocess.Popen[bytes]:
        """Fork a worker; start a program where there are no forks."""
        environment = {**os.environ, "PYTHONPATH": import_path(sys.path)}
        found = None
        if CAN_FORK:
            found = self._of(environment, is_new=False).fork_worker(answer, errors)
            # It may have ended, having had no worker for long.
            found = found or self._of(environment, is_new=True).fork_worker(answer, errors)
        return found or _program(environment, answer, errors)

    def close(self) -> None:
        """End the process and its workers, if there is one."""
        with self._lock:
            if self._template is not None:
                self._template.close()
                self._template = None

    def _of(self, environment: Mapping[str, str], *, is_new: bool) -> WorkerTemplate:
        """Return the template, or a new one if a worker would inherit something else than it has inherited."""
        inherited = (environment, *_inherited())
        with self._lock:
            if self._template is None or is_new or inherited != self._inherited:
                # The former one ends once it has no worker.
                self._template, self._inherited = _begun(environment), inherited
            return self._template


TEMPLATES = WorkerTemplates()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=TEMPLATES.forget)


def _begun(environment: Mapping[str, str]) -> WorkerTemplate:
    """Start a template in a thread that lives as long: the kernel ends it with the thread that started it."""
    begun: Future[WorkerTemplate] = Future()

    def hold() -> None:
        try:
            template = WorkerTemplate.program(environment, "asyncsearch.launch.worker_template")
        except BaseException as error:
            begun.set_exception(error)
            return
        begun.set_result(template)
        template.hold()

    threading.Thread(target=hold, name="asyncsearch-worker-template", daemon=True).start()
    return begun.result()


def _inherited() -> tuple[object, ...]:
    """Return the state that a child inherits besides its environment, as far as a process changes it in its life."""
    import resource

    limits = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
    with open("/proc/self/status", "rb") as file:
        mask = [line for line in file if line.startswith(b"Umask:")]
    folder = None
    with contextlib.suppress(OSError):
        folder = os.getcwd()
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    return folder, niceness, mask, os.sched_getaffinity(0), [resource.getrlimit(limit) for limit in limits]


def _program(environment: Mapping[str, str], answer: IO[bytes], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "asyncsearch.launch.child_process"],
        stdin=subprocess.PIPE,
        stdout=answer,
        stderr=errors,
        env=environment,
        process_group=0,  # Ctrl-C in a terminal must reach only the driver, which ends the search in order
    )


def _work(descriptors: list[int], _parent: int) -> None:
    """Be a worker."""
    for standard, one in enumerate(descriptors):
        os.dup2(one, standard)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    child_process.main()


if __name__ == "__main__":
    child_process.die_with_launcher()
    # What its forks would import. ``ssl`` and ``asyncio`` are all of gRPC's imports that a runner may have.
    import asyncio  # noqa: F401
    import ssl  # noqa: F401

    import asyncsearch.agent.agent  # noqa: F401

    gc.collect()
    gc.freeze()  # else the first collection of each worker would copy all that is imported
    runner_template.main(int(sys.argv[1]), _work, _KEPT_S)

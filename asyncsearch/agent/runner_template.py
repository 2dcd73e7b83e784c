"""The agent's side of ``runner.template``, in processes that are there for agents only.

A template stays until its process ends, however many agents that serves one after the other, as those of Spark do: no
runner needs a new interpreter, and what runners leave behind is ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import IO, NoReturn, Self

import msgspec

from asyncsearch.runner.process.lifeline import fork_in_session
from asyncsearch.runner.process.preloading import ANSWER, Preload, Preloaded

_STARTED: list[Template] = []
"""The template of this process, at most one."""


def _has_pidfds() -> bool:
    """Try it: Amazon Linux 2 and CentOS 7 have none, whatever Python was built with, and a sandbox may refuse them."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    return True


CAN_FORK = sys.platform == "linux" and _has_pidfds()
"""Whether runners and workers are forked; else each is started as a program."""


class ForkedProcess:
    """The handle of a process that a template forked, whose status that has; like ``subprocess.Popen``."""

    def __init__(self, template: Template, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.peak_bytes = 0
        """The most resident memory that it ever had; 0 as long as it is not reaped."""
        self._template = template
        self._end = os.pidfd_open(pid)  # at once: it is not reaped yet, so no other process has its id

    def await_end(self) -> None:
        """Wait for its end without reaping it; called once, by any thread."""
        try:
            poll = select.poll()
            poll.register(self._end, select.POLLIN)
            poll.poll()
        finally:
            os.close(self._end)

    def wait(self) -> int:
        """Wait for its end, reap it, and return its exit code as ``subprocess`` gives it."""
        if self.returncode is None:
            answer = self._template.ask(str(self.pid).encode())
            if answer is None:
                # A template that is gone took the status with it, and a runner outlives it until its agent ends it.
                self.returncode = -signal.SIGKILL
            else:
                self.returncode, self.peak_bytes = os.waitstatus_to_exitcode(answer[0]), peak_of(answer[1])
        return self.returncode


class ForkedRunner(ForkedProcess):
    """The agent's handle of a runner, with what it holds of it."""

    def __init__(self, template: Template, pid: int, channel: socket.socket, lifeline: int, out: int, err: int) -> None:
        super().__init__(template, pid)
        self.channel = channel
        """The agent's end."""
        self.lifeline = lifeline
        """The write end of the pipe whose end is the runner's end."""
        self.stdout: IO[bytes] = open(out, "rb", buffering=0)  # noqa: SIM115 - RunnerProcess closes it
        self.stderr: IO[bytes] = open(err, "rb", buffering=0)  # noqa: SIM115


class _Fork:
    """A forked template."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class _Descendant:
    """A template that another one has forked, and reaps."""

    def __init__(self, pid: int, lifeline: int) -> None:
        self._end, self._lifeline = os.pidfd_open(pid), lifeline

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._end, signal.SIGKILL)

    def wait(self) -> None:
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        poll.poll()
        for one in (self._end, self._lifeline):
            os.close(one)


class Template:
    """The process that forks runners. One thread uses it."""

    def __init__(self, process: subprocess.Popen[bytes] | _Fork | _Descendant, control: socket.socket) -> None:
        self._process, self._control = process, control

    @classmethod
    def program(cls, environment: Mapping[str, str], module: str = "asyncsearch.runner.template") -> Self:
        """Start it as a program, which is this module's."""
        # Packets, not a stream: a request and its descriptors must not be read in two parts.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, contextlib.ExitStack() as kept:
            kept.callback(ours.close)
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
            kept.pop_all()
        return cls(process, ours)

    @classmethod
    def fork(cls, serve: Callable[[int], NoReturn]) -> Template:
        """Fork it from this process; see ``fork_template``."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            pid = fork_in_session()
            if pid == 0:
                serve(theirs.fileno())
        return cls(_Fork(pid), ours)

    def preloaded(self, wanted: Preload) -> Template | None:
        """Fork a template that imports modules, and then sends ``Preloaded`` once. None if that cannot be."""
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):  # no descriptor is free, or none is allowed
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            kept = stack.enter_context(contextlib.ExitStack())
            kept.callback(ours.close)
            stack.enter_context(theirs)
            reading, lifeline = os.pipe()
            kept.callback(os.close, lifeline)
            stack.callback(os.close, reading)
            file = stack.enter_context(os.fdopen(os.memfd_create("preload"), "wb"))
            file.write(msgspec.json.encode(wanted))
            file.flush()
            answer = self.ask(b"template", (theirs.fileno(), reading, file.fileno()))
            if answer is not None:
                made = Template(_Descendant(answer[0], lifeline), ours)
                kept.pop_all()
                return made
        return None

    def fileno(self) -> int:
        return self._control.fileno()

    def read(self) -> Preloaded | None:
        """Return the outcome of its imports. None if it is gone."""
        try:
            return ANSWER.decode(self._control.recv(4_096))
        except (OSError, msgspec.DecodeError):
            return None

    def ask(self, data: bytes, descriptors: tuple[int, ...] = ()) -> tuple[int, ...] | None:
        """Send a request, and return the numbers of the answer. None if the process is gone."""
        try:
            socket.send_fds(self._control, [data], descriptors)
            answer = self._control.recv(64)
        except OSError:
            return None
        return tuple(map(int, answer.split())) or None

    def kill(self) -> None:
        """End the process at once; its runners end by themselves."""
        self._process.kill()

    def close(self) -> None:
        """End the process, its runners and all that these have started."""
        self._control.close()
        self._process.wait()

    def start(self) -> ForkedRunner | None:
        """Fork a runner. None if the process is gone."""
        ours, theirs = socket.socketpair()
        reading, lifeline = os.pipe()
        out, new_out = os.pipe()
        err, new_err = os.pipe()
        answer = self.ask(b"runner", (theirs.fileno(), reading, new_out, new_err))
        theirs.close()
        # The runner has its own: with ours open, the end of its output would never be read.
        for descriptor in (reading, new_out, new_err):
            os.close(descriptor)
        if answer is not None:
            return ForkedRunner(self, answer[0], ours, lifeline, out, err)
        ours.close()
        for descriptor in (lifeline, out, err):
            os.close(descriptor)
        return None


def peak_of(maxrss: int) -> int:
    """Return the bytes of an ``ru_maxrss``, whose unit each system chooses."""
    return maxrss if sys.platform == "darwin" else 1024 * maxrss


def fork_template(serve: Callable[[int], NoReturn]) -> None:
    """Fork this process's template from it, in a fraction of the time in which a program starts.

    Nothing is done in a process with several threads, of which a fork has one, or with gRPC, which does not survive it.

    Args:
        serve: ``runner.template.main_in_fork``, which the agent's modules do not import: no agent runs the user's code.
    """
    if _STARTED or not CAN_FORK or "grpc" in sys.modules or len(os.listdir("/proc/self/task")) > 1:
        return
    with contextlib.suppress(OSError):  # the template will be started as a program, or say why it cannot be
        _STARTED.append(Template.fork(serve))


def close_template() -> None:
    """End this process's template, if there is one."""
    if _STARTED:
        _STARTED.pop().close()


def fork_preloaded(wanted: Preload) -> Template | None:
    """Fork a further template from this process's. None if there is none."""
    return _STARTED[0].preloaded(wanted) if _STARTED else None


def fork_runner(environment: Mapping[str, str]) -> ForkedRunner | None:
    """Fork a runner from this process's template, which is started if need be. None if it is to be a program."""
    if not CAN_FORK:
        return None
    if not _STARTED:
        _STARTED.append(Template.program(environment))
    runner = _STARTED[0].start()
    if runner is None:
        _STARTED.pop().close()
    return runner

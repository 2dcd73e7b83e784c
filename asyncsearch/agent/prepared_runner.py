"""A runner that a worker's process forks as soon as it is there, so that no second interpreter has to start.

Rule: ``prepare`` is called while the process has one thread and has imported no more than a runner imports: neither
gRPC, whose threads do not survive a fork, nor anything of the user's. It is used once; later runners are started as
programs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable

from asyncsearch.agent.forked_process import ForkedProcess
from asyncsearch.runner.session_fork import fork_in_session

_Serve = Callable[[int, int, int, int, int], None]


class PreparedRunner(ForkedProcess):
    """The agent's handle of such a runner, a child of its own process."""

    def wait(self) -> int:
        """Wait for its end, and return its exit code as ``subprocess`` gives it."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


_waiting: list[PreparedRunner] = []


def take() -> PreparedRunner | None:
    """Return the runner that was prepared in this process, once; None: there is none."""
    return _waiting.pop() if _waiting else None


def prepare(serve: _Serve) -> bool:
    """Fork a runner, and return whether this is its process, in which the training is over and nothing is left to do.

    Without Linux no runner is prepared: macOS does not allow forked processes to use its frameworks.

    Args:
        serve: ``runner.forked.serve``, which the agent's modules do not import: no agent runs the user's code.
    """
    if sys.platform != "linux":
        return False
    agent = os.getpid()
    ours, theirs = socket.socketpair()
    reading, writing = os.pipe()
    out, new_out = os.pipe()
    err, new_err = os.pipe()
    try:
        pid = fork_in_session()
    except OSError:  # the runner will be started as a program, or say why it cannot be
        for descriptor in (ours.detach(), theirs.detach(), reading, writing, out, new_out, err, new_err):
            os.close(descriptor)
        return False
    if pid == 0:
        serve(theirs.detach(), reading, agent, new_out, new_err)
        return True
    theirs.close()
    for descriptor in (reading, new_out, new_err):
        os.close(descriptor)
    _waiting.append(PreparedRunner(pid, ours, writing, out, err))
    return False


def discard() -> None:
    """End the prepared runner if no agent took it."""
    runner = take()
    if runner is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(runner.pid, signal.SIGKILL)
        runner.wait()

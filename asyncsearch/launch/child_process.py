"""``python -m asyncsearch.launch.child_process``: one agent in its own process, started by ``ProcessLauncher``.

Standard input brings the length and the pickle of the agent and its configuration, and then nothing; end of file means
that the driver is gone. Standard output carries only the result of ``run_agent``, the reason of the end.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import struct
import sys
import threading

import msgspec

from asyncsearch.agent.runner_template import close_template, fork_template
from asyncsearch.errors import AsyncSearchError, is_bug
from asyncsearch.launch.base_launcher import import_agent
from asyncsearch.runner.process.signals import let_through
from asyncsearch.runner.template import main_in_fork

LENGTH = struct.Struct("!Q")
"""Format of the length before the pickle."""


def main() -> None:
    """Run the agent to its end."""
    die_with_launcher()
    let_through()
    driver, answer = _take_over(0), os.dup(1)
    os.dup2(2, 1)  # keeps other prints out of the result
    fork_template(main_in_fork)
    import_agent()
    (length,) = LENGTH.unpack(_read(driver, LENGTH.size))
    # The bytes come from the launcher, through a pipe that only this process inherited.
    agent, config = pickle.loads(_read(driver, length))  # noqa: S301
    threading.Thread(target=_watch, args=(driver,), name="asyncsearch-driver-watch", daemon=True).start()
    try:
        status = agent(msgspec.structs.replace(config, keeps_template=True))
    except AsyncSearchError as error:
        if is_bug(error):
            raise
        status = f"its agent failed: {error}"
    close_template()
    os.write(answer, status.encode("utf-8", "backslashreplace"))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)  # the end of the interpreter, with gRPC in it, takes longer than that of the agent


def _take_over(descriptor: int) -> int:
    """Move an inherited descriptor to one that children of this process do not inherit."""
    moved = os.dup(descriptor)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, descriptor)
    os.close(null)
    return moved


def _read(descriptor: int, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = os.read(descriptor, min(length - len(data), 1 << 20))
        if not part:
            sys.exit("The driver ended before it had sent the agent to run.")
        data += part
    return bytes(data)


def _watch(driver: int) -> None:
    """Wait for the end of the driver, and exit at once: the runner, which watches this process, ends with it."""
    with contextlib.suppress(OSError):
        while os.read(driver, 1):
            pass
    # No exit handlers: one that waits, as of a library, would keep an agent alive that has no driver.
    os.kill(os.getpid(), signal.SIGKILL)


def die_with_launcher() -> None:
    """Request SIGKILL at the launcher's death: another process forked from it may hold the pipe open."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    main()

"""``python -m asyncsearch.launch.child_process``: one agent in a process of its own, started by ``ProcessLauncher``.

Standard input brings what to run, as its length and its pickle, and then nothing: its end means: the driver is gone.
The last words of the agent, ``run_agent``'s result, are all that comes out of standard output.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import struct
import sys
import threading

LENGTH = struct.Struct("!Q")
"""How the length is written before the pickle."""


def main() -> None:
    """Run the agent to its end."""
    _die_with_launcher()
    driver, answer = _take_over(0), os.dup(1)
    os.dup2(2, 1)  # what anybody prints is not the answer
    (length,) = LENGTH.unpack(_read(driver, LENGTH.size))
    # The bytes are the launcher's own, through a pipe that it inherited to this process alone.
    agent, config = pickle.loads(_read(driver, length))  # noqa: S301
    threading.Thread(target=_watch, args=(driver,), name="asyncsearch-driver-watch", daemon=True).start()
    status = agent(config)
    os.write(answer, status.encode("utf-8", "backslashreplace"))


def _take_over(descriptor: int) -> int:
    """Move an inherited descriptor to where no child of this process gets it."""
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
            sys.exit("The driver ended before it had said what to run.")
        data += part
    return bytes(data)


def _watch(driver: int) -> None:
    """Wait for the end of the driver, and end at once: the runner, which has a watch of its own, ends with us."""
    with contextlib.suppress(OSError):
        while os.read(driver, 1):
            pass
    os.kill(os.getpid(), signal.SIGKILL)


def _die_with_launcher() -> None:
    """Ask for SIGKILL at the launcher's death: some process that was forked from it may hold the pipe open."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    main()

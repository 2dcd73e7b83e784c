"""Processes that stop at a chosen system call of a store, so that a test can kill them there.

One such process, started once, forks a child for each order ``<scenario> <step> <root>`` it reads. The child runs the
scenario, prints ``stopped <pid>`` before its system call number ``step`` and waits to be killed; if it makes fewer
calls, it prints ``done``. No clock is involved.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

from asyncsearch.store import LocalStore, syncing
from asyncsearch.testing.store_checkpoints import REF, save

CALLS = ("open", "write", "fsync", "fdatasync", "ftruncate", "mkdir", "rename", "replace", "unlink", "rmdir")

SCENARIOS: dict[str, Callable[[LocalStore], object]] = {
    "prepare": lambda store: store.prepare(),
    "commit": lambda store: save(store, model=b"new", folder__optimizer=b"new"),
    "delete": lambda store: store.delete(REF),
    "write": lambda store: store.write("study.json", b"new"),
    "sweep": lambda store: store.sweep(),
    "append": lambda store: store.open_segment().append(b"new\n"),
}


class Reaper:
    """Starts the process, and kills its children at every step."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.store.dying"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def kill_at_each_step(self, scenario: str, make: Callable[[int], LocalStore]) -> Iterator[tuple[LocalStore, bool]]:
        """Yield a store for each step at which the scenario was killed, and finally one where it ended (True)."""
        orders, answers = self._process.stdin, self._process.stdout
        assert orders is not None
        assert answers is not None
        step, done = 0, False
        while not done:
            store = make(step)
            orders.write(f"{scenario} {step} {store.url}\n")
            orders.flush()
            word, _, pid = answers.readline().strip().partition(" ")
            done = word == "done"
            if not done:
                assert word == "stopped", word
                os.kill(int(pid), signal.SIGKILL)
            assert answers.readline() == "reaped\n"
            yield store, done
            step += 1
        assert step > 1, "nothing was killed"

    def close(self) -> None:
        self._process.communicate(timeout=60)


def serve(orders: IO[str]) -> None:
    """Fork a child for each order and report its end."""
    for order in orders:
        scenario, step, root = order.rstrip("\n").split(" ", 2)
        child = os.fork()
        if child == 0:
            stop_at(int(step))
            SCENARIOS[scenario](LocalStore(root))
            say("done")
            os._exit(0)
        os.waitpid(child, 0)
        say("reaped")


def stop_at(step: int) -> None:
    """Make the process stop before its system call with that number."""
    left = step

    def stopping(call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            if left == 0:
                say(f"stopped {os.getpid()}")
                while True:
                    signal.pause()
            left -= 1
            return call(*args, **kwargs)

        return counted

    for name in CALLS:
        if hasattr(os, name):
            setattr(os, name, stopping(getattr(os, name)))
    syncing.sync_disk = stopping(syncing.sync_disk)


def say(line: str, write: Callable[[int, bytes], int] = os.write) -> None:
    """Tell the test, by the original write, which is not counted."""
    write(1, f"{line}\n".encode())


if __name__ == "__main__":
    serve(sys.stdin)

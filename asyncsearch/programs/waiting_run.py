"""The run whose workers wait for the next call of a program, whatever its library: at most one in a process.

It is let go when another search of any of these libraries needs workers, when a program says where its searches run,
when nobody has needed it for a while, and at the end of the process.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401  # its own end of the process is to come after the one registered below
import os
import threading
from typing import TYPE_CHECKING, Any

from asyncsearch.launch.machine import machine_devices

if TYPE_CHECKING:
    from asyncsearch.launch.base_launcher import Launcher
    from asyncsearch.programs.endless_run import EndlessRun

KEPT_S = 60.0
"""How long workers wait."""
KEPT_SLOTS_S = 5.0
"""The same where they keep from others what these may need next: slots of a cluster, memory of GPUs."""

_lock = threading.Lock()
_waiting: list[tuple[EndlessRun, threading.Timer]] = []


def kept_s(launcher: Launcher) -> float:
    """Return how long the workers of a launcher wait."""
    holds_more = launcher.name == "spark" or bool(machine_devices(os.environ))
    return KEPT_SLOTS_S if holds_more else KEPT_S


def keep(run: EndlessRun) -> None:
    """Let a run wait."""
    let_go()
    if run.is_ended:
        return
    run.let_remove(True)
    timer = threading.Timer(run.kept_s, let_go, [run])
    timer.daemon = True
    with _lock:
        _waiting.append((run, timer))
    timer.start()


def taken(key: tuple[Any, ...], number: int | None) -> EndlessRun | None:
    """Return the run that waits if it suits, and let it go if it does not.

    Args:
        key: what its workers must have got.
        number: of workers that are needed. None means as many as the cluster turns out to have.
    """
    for run in _all_taken():
        if run.suits(key, number):
            run.let_remove(False)
            if not run.is_removed:  # after the other look, and before its folder was missed
                return run
            run.let_remove(True)
        run.close()
    return None


def let_go(owner: object = None) -> None:
    """Let the workers go that wait; ``owner``: only those of this run, or with this in front of their key."""
    for run in _all_taken(owner):
        run.close()


def _all_taken(owner: object = None) -> list[EndlessRun]:
    with _lock:
        found = [one for one in _waiting if owner is None or owner is one[0] or owner is one[0].key[0]]
        _waiting[:] = [one for one in _waiting if one not in found]
    for _, timer in found:
        timer.cancel()
    return [run for run, _ in found]


# Before the pools of threads of this process end, without which a run cannot come to its end: the last comes first.
getattr(threading, "_register_atexit", atexit.register)(let_go)

"""The run whose workers wait for a further ``optimize``: at most one in a process.

It is let go when another study or another objective needs workers, when ``optuna.workers`` is called, when nobody has
needed it for a while, and at the end of the process.
"""

from __future__ import annotations

import atexit
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncsearch.optuna.kept_run import KeptRun

KEPT_S = 60.0
"""How long workers wait."""
KEPT_SLOTS_S = 5.0
"""The same where they keep from others what these may need next: slots of a cluster, memory of GPUs."""

_lock = threading.Lock()
_waiting: list[tuple[KeptRun, threading.Timer]] = []


def keep(run: KeptRun) -> None:
    """Let a run wait."""
    let_go()
    if run.is_ended:
        return
    timer = threading.Timer(run.kept_s, _let_go_of, [run])
    timer.daemon = True
    with _lock:
        _waiting.append((run, timer))
    timer.start()


def taken(key: tuple[Any, ...], number: int | None) -> KeptRun | None:
    """Return the run that waits if it suits, and let it go if it does not.

    Args:
        key: what its workers must have got.
        number: of workers that are needed; None: as many as the cluster turns out to have.
    """
    for run in _all_taken():
        has_enough = run.parallelism is None or (number is not None and run.parallelism >= number)
        if run.key == key and has_enough and not run.is_ended:
            return run
        run.close()
    return None


def let_go() -> None:
    """Let the workers go that wait."""
    for run in _all_taken():
        run.close()


def _let_go_of(run: KeptRun) -> None:
    with _lock:
        is_waiting = any(one is run for one, _ in _waiting)
    if is_waiting:
        let_go()


def _all_taken() -> list[KeptRun]:
    with _lock:
        found = [*_waiting]
        _waiting.clear()
    for _, timer in found:
        timer.cancel()
    return [run for run, _ in found]


# Before the pools of threads of this process end, without which a run cannot come to its end.
getattr(threading, "_register_atexit", atexit.register)(let_go)

"""Who evaluates the points of an ``fmin``: workers that stay for the next one, or threads of this process.

At most one pool of workers waits in a process. It is let go when another search needs workers, when its trials are
gone, when nobody has needed it for a minute, and at the end of the process.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401  # its own end of the process is to come after the one registered below
import threading
import weakref
from collections.abc import Callable
from typing import Any

from asyncsearch.errors import NotPicklableError
from asyncsearch.hyperopt.messages import Evaluators
from asyncsearch.hyperopt.objective import PointObjective
from asyncsearch.hyperopt.pool import WorkerPool, search_of
from asyncsearch.hyperopt.threads import ThreadEvaluators
from asyncsearch.hyperopt.trials_runs import TrialsRuns
from asyncsearch.hyperopt.worker_trials import sending
from asyncsearch.launch import choose
from asyncsearch.launch.bundle import pack
from asyncsearch.launch.machine import cores
from asyncsearch.programs.workers import THREADS, Workers
from asyncsearch.report.live.display import Display

_KEPT_S = 60.0
"""How long workers that nobody needs keep their slots."""
_IN_THREADS = "hyperopt.workers(backend='threads')."


class TrialsAtHome:
    """What this process knows of one ``Trials``."""

    def __init__(self, store: str | None) -> None:
        self.runs = TrialsRuns(store)
        self.pool: WorkerPool | None = None
        self.timer: threading.Timer | None = None

    def let_go(self) -> None:
        """Let the workers go that wait."""
        pool, self.pool = self.pool, None
        timer, self.timer = self.timer, None
        if timer is not None:
            timer.cancel()
        if pool is not None:
            pool.close()


_homes: weakref.WeakKeyDictionary[Any, TrialsAtHome] = weakref.WeakKeyDictionary()
_lock = threading.Lock()
_idle: list[TrialsAtHome] = []
"""Whose workers wait; at most one."""


def home_of(trials: Any, store: str | None) -> TrialsAtHome:
    """Return what this process knows of trials."""
    with _lock:
        home = _homes.get(trials)
        if home is None:
            home = _homes[trials] = TrialsAtHome(store)
            # In a thread of its own: what collects the trials may be the very thread that would be waited for.
            leave = threading.Thread(target=_let_go, args=[home], name="asyncsearch-leave", daemon=True)
            weakref.finalize(trials, leave.start).atexit = False
        return home


def _let_go(home: TrialsAtHome) -> None:
    with _lock:
        is_idle = home in _idle
        if is_idle:
            _idle.remove(home)
    if is_idle:
        home.let_go()


def let_all_go() -> None:
    """Let all workers go that wait."""
    for home in _idle:
        _let_go(home)


# Before the pools of threads of this process end, without which a run cannot come to its end: the last comes first.
getattr(threading, "_register_atexit", atexit.register)(let_all_go)


def keep(home: TrialsAtHome, pool: WorkerPool) -> None:
    """Keep workers for the next ``fmin`` of the same trials."""
    let_all_go()
    if pool.is_broken:
        return
    home.pool, home.timer = pool, threading.Timer(_KEPT_S, _let_go, [home])
    home.timer.daemon = True
    with _lock:
        _idle.append(home)
    home.timer.start()


def _taken(home: TrialsAtHome) -> WorkerPool | None:
    """Return the workers that wait for these trials, which wait no longer, and let those of others go."""
    with _lock:
        is_idle = home in _idle
        if is_idle:
            _idle.remove(home)
    let_all_go()
    if not is_idle:
        return None
    pool, timer, home.pool, home.timer = home.pool, home.timer, None, None
    if timer is not None:
        timer.cancel()
    return pool


def evaluators_for(
    domain: Any,
    space: Any,
    trials: Any,
    home: TrialsAtHome,
    settings: Workers,
    display: Display,
    *,
    wanted: int,
    pass_expr_memo_ctrl: bool | None,
) -> Evaluators:
    """Return who evaluates points: workers that wait already, if they have the same objective, else new ones.

    Raises:
        NotPicklableError: the objective cannot be sent; nothing was started.
    """

    def threads() -> Evaluators:
        return ThreadEvaluators(domain, trials, min(settings.parallelism or cores(), wanted))

    if settings.backend == THREADS:
        let_all_go()
        return threads()
    objective = PointObjective(domain.fn, space, pass_expr_memo_ctrl)
    try:
        with sending(trials):
            return _workers(objective, home, settings, display, wanted)
    except NotPicklableError as error:
        words = _cannot_be_sent(domain.fn, error)
        if "of Spark" not in words:
            raise NotPicklableError(
                f"{words} Or evaluate the points in threads of this process: {_IN_THREADS}"
            ) from error
        display.warn([f"{words} The points are evaluated in threads of this process instead, as by {_IN_THREADS}"])
        return threads()


def _workers(
    objective: PointObjective, home: TrialsAtHome, settings: Workers, display: Display, wanted: int
) -> WorkerPool:
    """Return the workers that wait, or new ones."""
    bundle = pack(objective).data
    waiting = _taken(home)
    number = _number(settings, wanted)
    if waiting is not None and _suits(waiting, bundle, number):
        return waiting
    if waiting is not None:
        waiting.close()
    search = search_of(objective, home.runs.next(objective.__name__), settings.backend)
    search._runnable = search._with_trainable(search._described("run"), display)
    pool = WorkerPool(bundle=bundle, parallelism=number)
    pool.start(search, display)
    return pool


def _number(settings: Workers, wanted: int) -> int | None:
    """Return how many workers there are to be: no more than points. None: as many as the cluster turns out to have."""
    if settings.parallelism is not None:
        return min(settings.parallelism, wanted)
    there = choose(settings.backend).workers_now()
    return None if there is None else min(there, wanted)


def _suits(pool: WorkerPool, bundle: bytes, number: int | None) -> bool:
    """Return whether workers that wait have the objective, and are enough."""
    has_enough = pool.parallelism is None or (number is not None and pool.parallelism >= number)
    return not pool.is_broken and pool.bundle == bundle and has_enough


def _cannot_be_sent(function: Callable[..., Any], error: NotPicklableError) -> str:
    """Return why an objective cannot be sent, in words on the program's own function."""
    try:
        pack(function)
    except NotPicklableError as own:
        error = own
    return str(error).replace(", or load it there with trial.once(...)", "")

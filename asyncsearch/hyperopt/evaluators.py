"""The evaluators of the points of an ``fmin``: workers that stay for the next one, or threads of this process.

Workers that wait are let go when their trials are gone, too; for the rest see ``programs.waiting_run``.
"""

from __future__ import annotations

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
from asyncsearch.programs.endless_run import key_of
from asyncsearch.programs.waiting_run import kept_s, let_go, taken
from asyncsearch.programs.workers import THREADS, Workers
from asyncsearch.report.live.display import Display

_IN_THREADS = "hyperopt.workers(backend='threads')."


_folders: weakref.WeakKeyDictionary[Any, TrialsRuns] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def runs_of(trials: Any, store: str | None) -> TrialsRuns:
    """Return where this process keeps the runs of trials."""
    with _lock:
        runs = _folders.get(trials)
        if runs is None:
            runs = _folders[trials] = TrialsRuns(store)
            # In a thread of its own: what collects the trials may be the very thread that would be waited for.
            leave = threading.Thread(target=let_go, args=[runs], name="asyncsearch-leave", daemon=True)
            weakref.finalize(trials, leave.start).atexit = False
        return runs


def evaluators_for(
    domain: Any,
    space: Any,
    trials: Any,
    runs: TrialsRuns,
    settings: Workers,
    display: Display,
    *,
    wanted: int,
    pass_expr_memo_ctrl: bool | None,
) -> Evaluators:
    """Return the evaluators of points: workers that wait already, if they have the same objective, else new ones.

    Raises:
        NotPicklableError: the objective cannot be sent; nothing was started.
    """

    def threads() -> Evaluators:
        return ThreadEvaluators(domain, trials, min(settings.parallelism or cores(), wanted))

    if settings.backend == THREADS:
        let_go()
        return threads()
    objective = PointObjective(domain.fn, space, pass_expr_memo_ctrl)
    try:
        with sending(trials):
            return _workers(objective, runs, settings, display, wanted)
    except NotPicklableError as error:
        words = _cannot_be_sent(domain.fn, error)
        if "of Spark" not in words:
            raise NotPicklableError(
                f"{words} Or evaluate the points in threads of this process: {_IN_THREADS}"
            ) from error
        display.warn([f"{words} The points are evaluated in threads of this process instead, as by {_IN_THREADS}"])
        return threads()


def _workers(
    objective: PointObjective, runs: TrialsRuns, settings: Workers, display: Display, wanted: int
) -> WorkerPool:
    """Return the workers that wait, or new ones."""
    launcher = choose(settings.backend)
    # No more than points. None means as many as the cluster turns out to have.
    number = launcher.workers_now() if settings.parallelism is None else settings.parallelism
    number = None if number is None else min(number, wanted)
    key = key_of(runs, pack(objective), settings.parallelism)
    waiting = taken(key, number)
    if waiting is not None:
        assert isinstance(waiting, WorkerPool), "its key says whose it is"
        waiting.display = display
        return waiting
    search = search_of(objective, runs.next(objective.__name__), settings.backend)
    search._runnable = search._with_trainable(search._described("run"), display)
    pool = WorkerPool(key, number, kept_s(launcher))
    pool.start(search, display)
    return pool


def _cannot_be_sent(function: Callable[..., Any], error: NotPicklableError) -> str:
    """Return why an objective cannot be sent, in words on the program's own function."""
    try:
        pack(function)
    except NotPicklableError as own:
        error = own
    return str(error).replace(", or load it there with trial.once(...)", "")

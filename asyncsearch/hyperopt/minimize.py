"""``fmin``: Hyperopt's own arguments, and a search whose points are evaluated on workers."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hyperopt
from hyperopt import progress
from hyperopt.base import validate_loss_threshold, validate_timeout

from asyncsearch.checked_calls import answering
from asyncsearch.errors import UsageError
from asyncsearch.hyperopt.asked import add_points, annotated, default_rstate, has_own_fmin, new_trials
from asyncsearch.hyperopt.drawn_points import Points, cancel_left, require_rstate
from asyncsearch.hyperopt.evaluation import PointEvaluation, SearchOptions
from asyncsearch.hyperopt.evaluators import evaluators_for, runs_of
from asyncsearch.hyperopt.pool import LinesDisplay, WorkerPool
from asyncsearch.hyperopt.refusals import require_algo, require_max_evals, require_trials
from asyncsearch.hyperopt.settings import present
from asyncsearch.hyperopt.worker_trials import is_on_worker, searching
from asyncsearch.launch import choose, is_spark_active
from asyncsearch.launch.machine import cores
from asyncsearch.programs.waiting_run import keep
from asyncsearch.programs.workers import THREADS
from asyncsearch.report.live.display import open_display

_logger = logging.getLogger("hyperopt.fmin")


@answering("fmin", "fmin(objective, space, algo=tpe.suggest, max_evals=100)")
def fmin(
    fn: Callable[..., Any],
    space: Any,
    algo: Any = None,
    max_evals: int | None = None,
    timeout: float | None = None,
    loss_threshold: float | None = None,
    trials: Any = None,
    rstate: Any = None,
    allow_trials_fmin: bool = True,
    pass_expr_memo_ctrl: bool | None = None,
    catch_eval_exceptions: bool = False,
    verbose: bool = True,
    return_argmin: bool = True,
    points_to_evaluate: list[dict[str, Any]] | None = None,
    max_queue_len: int = 1,
    show_progressbar: Any = True,
    early_stop_fn: Callable[..., Any] | None = None,
    trials_save_file: str = "",
) -> Any:
    """Minimize a function over a space, as ``hyperopt.fmin`` does, on workers.

    Args:
        fn: the objective, which is called on the workers.
        space: of Hyperopt, or ``"annotated"``.
        algo: draws points, on the driver. None means ``tpe.suggest``.
        max_evals: how many points the trials have in the end. None means until something else ends the search.
        timeout: seconds after which no point begins; ``SparkTrials`` cancel those that run.
        loss_threshold: a loss below which the search ends.
        trials: hold what was found, and go on. None means new ones.
        rstate: a ``Generator`` or a ``RandomState``, from which algo gets its seeds.
        allow_trials_fmin: whether ``fmin`` of a class of trials that has its own is called.
        pass_expr_memo_ctrl: whether fn gets the expression, a memo and a ``Ctrl``.
        catch_eval_exceptions: whether a search goes on after the exception of an objective.
        verbose: whether to show progress at all.
        return_argmin: whether to return the values by label; otherwise the point of the space is returned.
        points_to_evaluate: points that come first, where the trials are empty.
        max_queue_len: how many points are drawn at a time.
        show_progressbar: whether to show a bar, or what shows it.
        early_stop_fn: called after each point with the trials that have ended.
        trials_save_file: where the trials are pickled after each point, and read from where ``trials`` is None.

    Raises:
        Exception: what the objective raised, unless the search goes on after it.
        UsageError: an argument breaks its rule, or the objective cannot be sent to workers.
    """
    if algo is None:
        algo = hyperopt.tpe.suggest
        _logger.warning("TPE is being used as the default algorithm.")
    require_algo(algo)
    if not callable(fn):
        raise UsageError(f"fmin({fn!r}, ...): the first argument is the function to minimize, fmin(fn=objective, ...).")
    total = sys.maxsize if max_evals is None else require_max_evals(max_evals)
    validate_timeout(timeout)
    validate_loss_threshold(loss_threshold)
    if isinstance(space, str) and space == "annotated":
        fn, space = annotated(fn)
    is_own = trials is None
    if trials is None:
        trials = new_trials(points_to_evaluate, trials_save_file)
    else:
        require_trials(trials)
        if points_to_evaluate is not None:
            add_points(trials, points_to_evaluate)
    draws = require_rstate(default_rstate() if rstate is None else rstate)
    given = {
        "timeout": timeout,
        "loss_threshold": loss_threshold,
        "rstate": draws.rstate,
        "pass_expr_memo_ctrl": pass_expr_memo_ctrl,
        "catch_eval_exceptions": catch_eval_exceptions,
        "verbose": verbose,
        "return_argmin": return_argmin,
        "max_queue_len": max_queue_len,
        "show_progressbar": show_progressbar,
        "early_stop_fn": early_stop_fn,
        "trials_save_file": trials_save_file,
    }
    if allow_trials_fmin and has_own_fmin(trials):
        return trials.fmin(fn, space, algo=algo, max_evals=total, **given)
    if is_on_worker():  # a search that an objective makes for itself
        return hyperopt.fmin(fn, space, algo, total, trials=trials, allow_trials_fmin=False, **given)
    is_spark = isinstance(trials, hyperopt.SparkTrials)
    options = SearchOptions(
        timeout_s=_first(getattr(trials, "timeout", None), timeout),
        loss_threshold=_first(loss_threshold, getattr(trials, "loss_threshold", None)),
        goes_on_after_errors=catch_eval_exceptions or is_spark,
        cancels=is_spark,
        early_stop_fn=early_stop_fn,
        trials_save_file=trials_save_file,
        retries_lost=present().retries_lost,
    )
    domain = hyperopt.Domain(fn, space, pass_expr_memo_ctrl=pass_expr_memo_ctrl)
    bar = _bar(show_progressbar) if verbose else progress.no_progress_callback
    with searching():
        _search(
            domain,
            space,
            trials,
            algo,
            draws,
            options,
            bar,
            total=total,
            max_queue_len=max_queue_len,
            pass_expr_memo_ctrl=pass_expr_memo_ctrl,
            is_own=is_own,
        )
    if return_argmin:
        if len(trials.trials) == 0:
            raise Exception("There are no evaluation tasks, cannot return argmin of task losses.")
        return trials.argmin
    return hyperopt.space_eval(space, trials.argmin) if len(trials) > 0 else None


def _search(
    domain: Any,
    space: Any,
    trials: Any,
    algo: Any,
    draws: Any,
    options: SearchOptions,
    bar: Callable[..., Any],
    *,
    total: int,
    max_queue_len: int,
    pass_expr_memo_ctrl: bool | None,
    is_own: bool,
) -> None:
    """Evaluate points until there are enough."""
    settings = present()
    if options.cancels:
        settings = _settings_of(trials, settings)
        if trials.parallelism is not None and trials.parallelism > total:
            words = f"SparkTrials(parallelism={trials.parallelism}) are more than max_evals={total}"
            _logger.warning("%s: every point is drawn before any has ended, as by random search.", words)
    display = (
        LinesDisplay()
        if settings.display == "none" and settings.logs
        else open_display(settings.display, logs=settings.logs)
    )
    runs = runs_of(trials, settings.store)
    cancel_left(trials)
    if not trials._dynamic_trials or all(one["state"] == hyperopt.JOB_STATE_NEW for one in trials._dynamic_trials):
        display.warn(runs.load(trials))
    points = Points(trials, domain, algo, draws, max_evals=total, max_queue_len=max_queue_len)
    if points.wanted <= 0 and not (options.cancels and not points.is_round_over):
        return
    while runs.draws:  # of an earlier process, with this seed
        draws.next()
        runs.draws -= 1
    evaluators = evaluators_for(
        domain,
        space,
        trials,
        runs,
        settings,
        display,
        wanted=points.to_be_given,
        pass_expr_memo_ctrl=pass_expr_memo_ctrl,
    )
    evaluation = PointEvaluation(points, evaluators, options, display.warn)
    try:
        evaluation.run(bar, total)
    finally:
        if options.cancels:
            trials._fmin_cancelled = bool(evaluation.cancelled_by)
            trials._fmin_cancelled_reason = evaluation.cancelled_by or None
        if evaluation.is_cancelled or is_own or not isinstance(evaluators, WorkerPool):
            evaluators.close(now=evaluation.is_cancelled)
        else:
            keep(evaluators)
        display.close()
        trials.refresh()


def _first(one: Any, other: Any) -> Any:
    return other if one is None else one


def _settings_of(trials: Any, settings: Any) -> Any:
    """Return where ``SparkTrials`` evaluate their points."""
    session = getattr(trials, "_session", None) or getattr(trials, "_spark", None)
    backend = settings.backend
    if backend == "auto":
        backend = "spark"
        if session is not None:
            from asyncsearch.launch.spark.launcher import SparkLauncher

            backend = SparkLauncher(session)
    parallelism = _first(trials.parallelism, settings.parallelism)
    if trials.parallelism is not None and (there := _slots(backend)) is not None:
        parallelism = min(there, trials.parallelism)  # as in Hyperopt it is a maximum
    return replace(settings, backend=backend, parallelism=parallelism)


def _slots(backend: Any) -> int | None:
    """Return how many slots the workers have. None if that is not known before they are started."""
    if backend in (THREADS, "inline"):
        return None
    there = choose(backend).workers_now()
    return cores() if there is None and not is_spark_active() else there  # the session will be one of this machine


def _bar(show_progressbar: Any) -> Callable[..., Any]:
    if show_progressbar is True:
        return progress.default_callback  # type: ignore[no-any-return]  # not typed there
    return show_progressbar or progress.no_progress_callback  # type: ignore[no-any-return]  # the program's own

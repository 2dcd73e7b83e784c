"""One ``optimize``: a run of asyncsearch whose trials ask the study."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec
import optuna
from optuna.study import StudyDirection

from asyncsearch.arguments import workers_of
from asyncsearch.errors import NotPicklableError
from asyncsearch.launch.bundle import pack
from asyncsearch.launch.machine import cores
from asyncsearch.optuna.answering import OptimizeOptions, StudyAnswerer
from asyncsearch.optuna.messages import ValueCodec
from asyncsearch.optuna.objective import METRIC, Objective, sent_study
from asyncsearch.optuna.refusals import require_supported
from asyncsearch.optuna.settings import present
from asyncsearch.optuna.study_runs import StudyRuns
from asyncsearch.programs.workers import THREADS, Workers
from asyncsearch.report.live.display import Display, open_display
from asyncsearch.space import Space
from asyncsearch.study import study as searches

RUNS = "_asyncsearch_runs"
"""The attribute of a study that holds its ``StudyRuns``."""
_ENDLESS = 10**9
"""The number of trials of a run that ends otherwise."""


def optimize(
    study: Any,
    func: Callable[..., Any],
    *,
    n_trials: int | None,
    timeout: float | None,
    n_jobs: int | None,
    catch: Iterable[type[Exception]] | type[Exception],
    callbacks: Iterable[Callable[..., None]] | None,
    gc_after_trial: bool,
    show_progress_bar: bool,
) -> None:
    """Run an objective on workers; see ``study.Study.optimize``."""
    if study._thread_local.in_optimize_loop:
        raise RuntimeError("Nested invocation of `Study.optimize` method isn't allowed.")
    settings = present()
    options = OptimizeOptions(
        n_trials=n_trials,
        timeout_s=None if timeout is None else float(timeout),
        catch=tuple(catch) if isinstance(catch, Iterable) else (catch,),
        callbacks=tuple(callbacks or ()),
        gc_after_trial=gc_after_trial,
        show_progress_bar=show_progress_bar,
        retries_lost=settings.retries_lost,
    )
    if n_jobs is not None and n_jobs != -1:
        settings = replace(settings, parallelism=workers_of("n_jobs", n_jobs))
    require_supported(study)
    display = open_display(settings.display, logs=settings.logs)
    if settings.backend == THREADS or not _is_run(study, func, settings, options, display):
        _optimize_in_threads(study, func, settings, options)


def _is_run(
    study: Any, func: Callable[..., Any], settings: Workers, options: OptimizeOptions, display: Display
) -> bool:
    """Run it on workers; return False, before anything was started, if it needs Spark's own objects."""
    runs = getattr(study, RUNS, None) or StudyRuns(study, settings.store)
    setattr(study, RUNS, runs)
    options = options._replace(n_trials=runs.trials_left(options.n_trials))
    if options.n_trials is not None and options.n_trials <= 0:
        return True
    key = secrets.token_bytes(32)
    search = _search(study, Objective(func, study, key), runs, settings)
    token = sent_study.set(study)
    try:
        runnable = search._described("run")
        search._runnable = search._with_trainable(runnable, display)
    except NotPicklableError as error:
        words = _cannot_be_sent(func, error)
        if "of Spark" not in words:
            raise NotPicklableError(f"{words} Or run the trials in threads of this process: {_IN_THREADS}") from error
        display.warn([f"{words} The trials run in threads of this process instead, as by {_IN_THREADS}"])
        return False
    finally:
        sent_study.reset(token)
    study._stop_flag = False
    answerer = StudyAnswerer(study, ValueCodec(key), options)
    try:
        searches.run_shown(search, options.n_trials or _ENDLESS, settings.parallelism, None, display, answerer=answerer)
    finally:
        answerer.finish()
    if answerer.error is not None:
        raise answerer.error
    display.warn(answerer.notes())
    return True


_IN_THREADS = "optuna.workers(backend='threads')."


def _cannot_be_sent(func: Callable[..., Any], error: NotPicklableError) -> str:
    """Return why an objective cannot be sent, in words on the program's own function."""
    try:
        pack(func)
    except NotPicklableError as own:
        error = own
    return str(error).replace(", or load it there with trial.once(...)", "")


def _optimize_in_threads(study: Any, func: Callable[..., Any], settings: Workers, options: OptimizeOptions) -> None:
    """Run it as Optuna does, in this process."""
    optuna.study.Study.optimize(
        study,
        func,
        n_trials=options.n_trials,
        timeout=options.timeout_s,
        n_jobs=settings.parallelism or cores(),
        catch=options.catch,
        callbacks=options.callbacks,
        gc_after_trial=options.gc_after_trial,
        show_progress_bar=options.show_progress_bar,
    )


def _search(study: Any, objective: Objective, runs: StudyRuns, settings: Workers) -> searches.Study:
    """Return the search that runs the objective."""
    search = searches.Study(
        objective,
        space=Space.open(),
        metric=METRIC,
        mode="max" if study.directions[0] is StudyDirection.MAXIMIZE else "min",
        share=False,
        store=runs.next(objective.__name__),
        name=study.study_name,
        backend=settings.backend,
    )
    # What a failure means is the study's to say; a trial that is lost before it has begun is given to another worker.
    search.config = msgspec.structs.replace(search.config, ends_on_failures=False)
    runnable = search._described("run")
    runnable.definition = msgspec.structs.replace(runnable.definition, config=search.config)
    return search

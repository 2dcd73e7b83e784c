"""One ``optimize``: a run of asyncsearch whose trials ask the study."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec
from optuna.study import StudyDirection

from asyncsearch.arguments import workers_of
from asyncsearch.optuna.answering import OptimizeOptions, StudyAnswerer
from asyncsearch.optuna.messages import ValueCodec
from asyncsearch.optuna.objective import METRIC, Objective, sent_study
from asyncsearch.optuna.runs import StudyRuns
from asyncsearch.optuna.settings import Workers, present
from asyncsearch.report.live.display import open_display
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
    options = OptimizeOptions(
        n_trials=n_trials,
        timeout_s=None if timeout is None else float(timeout),
        catch=tuple(catch) if isinstance(catch, Iterable) else (catch,),
        callbacks=tuple(callbacks or ()),
        gc_after_trial=gc_after_trial,
        show_progress_bar=show_progress_bar,
        retries_lost=present().retries_lost,
    )
    settings = present()
    if n_jobs is not None and n_jobs != -1:
        settings = replace(settings, parallelism=workers_of("n_jobs", n_jobs))
    run(study, func, settings, options)


def run(study: Any, func: Callable[..., Any], settings: Workers, options: OptimizeOptions) -> None:
    """Run it with checked arguments."""
    runs = getattr(study, RUNS, None) or StudyRuns(study, settings.store)
    setattr(study, RUNS, runs)
    options = options._replace(n_trials=runs.trials_left(options.n_trials))
    if options.n_trials is not None and options.n_trials <= 0:
        return
    key = secrets.token_bytes(32)
    search = _search(study, Objective(func, study, key), runs, settings)
    study._stop_flag = False
    answerer = StudyAnswerer(study, ValueCodec(key), options)
    display = open_display(settings.display, logs=settings.logs)
    token = sent_study.set(study)
    try:
        searches.run_shown(search, options.n_trials or _ENDLESS, settings.parallelism, None, display, answerer=answerer)
    finally:
        sent_study.reset(token)
        answerer.finish()
    if answerer.error is not None:
        raise answerer.error


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
    # A lost trial has failed, and what a failure means is the study's to say.
    losses = search.config.max_losses if settings.retries_lost else 0
    search.config = msgspec.structs.replace(search.config, max_losses=losses, ends_on_failures=False)
    runnable = search._described("run")
    runnable.definition = msgspec.structs.replace(runnable.definition, config=search.config)
    return search

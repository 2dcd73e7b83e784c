"""One ``optimize``: a run of asyncsearch whose trials ask the study."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec
import optuna
from optuna.study import StudyDirection

from asyncsearch.arguments import workers_of
from asyncsearch.errors import NotPicklableError
from asyncsearch.launch import choose
from asyncsearch.launch.base_launcher import Launcher
from asyncsearch.launch.bundle import Bundle, pack, with_sources
from asyncsearch.launch.machine import cores
from asyncsearch.launch.value_pickler import OR_IN_THREADS
from asyncsearch.optuna.answering import StudyAnswerer
from asyncsearch.optuna.kept_run import KeptRun
from asyncsearch.optuna.messages import ValueCodec
from asyncsearch.optuna.objective import Objective, sent_study
from asyncsearch.optuna.refusals import require_judging, require_own_sampler
from asyncsearch.optuna.settings import present
from asyncsearch.optuna.study_runs import OpenRun, StudyRuns
from asyncsearch.optuna.trial_ends import OptimizeOptions
from asyncsearch.optuna.units import METRIC
from asyncsearch.programs.endless_run import ENDLESS, key_of
from asyncsearch.programs.same_line import outlives_failures
from asyncsearch.programs.waiting_run import keep, kept_s, let_go, taken
from asyncsearch.programs.workers import THREADS, Workers
from asyncsearch.report.live.display import Display, open_display
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.space import Space
from asyncsearch.study import study as searches
from asyncsearch.study.kept.definition import Code
from asyncsearch.study.threads_option import is_in_threads

RUNS = "_asyncsearch_runs"
"""The attribute of a study that holds its ``StudyRuns``."""


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
    scheduler: Scheduler | None = None,
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
    require_own_sampler(study)
    require_judging(scheduler, study, func, n_trials, is_in_threads=settings.backend == THREADS)
    display = open_display(settings.display, logs=settings.logs)
    if settings.backend == THREADS or not _is_run(study, func, settings, options, display, scheduler):
        _optimize_in_threads(study, func, settings, options)


def _is_run(
    study: Any,
    func: Callable[..., Any],
    settings: Workers,
    options: OptimizeOptions,
    display: Display,
    scheduler: Scheduler | None,
) -> bool:
    """Run it on workers; return False, before anything was started, if it needs Spark's own objects."""
    runs = getattr(study, RUNS, None) or StudyRuns(study, settings.store)
    setattr(study, RUNS, runs)
    earlier = runs.take_open(study, options.n_trials, is_scheduled=scheduler is not None)
    if earlier is None:
        options = options._replace(n_trials=runs.trials_left(options.n_trials))
    if options.n_trials is not None and options.n_trials <= 0:
        return True
    objective = Objective(func, study, None if scheduler is None else scheduler.pauses)
    token = sent_study.set(study)
    try:
        packed = None if is_in_threads(settings.backend) else pack(objective)
    except NotPicklableError as error:
        words = _cannot_be_sent(func, error)
        if "of Spark" not in words or scheduler is not None:
            raise NotPicklableError(f"{words} Or run the trials in threads of this process: {_IN_THREADS}") from error
        display.warn([f"{words} The trials run in threads of this process instead, as by {_IN_THREADS}"])
        return False
    finally:
        sent_study.reset(token)
    study._stop_flag = False
    launcher = choose(settings.backend)
    is_kept = launcher.transport is None and packed is not None and scheduler is None and earlier is None
    answerer = StudyAnswerer(
        study, ValueCodec(), options, is_scheduled=scheduler is not None, is_kept=is_kept, earlier=earlier
    )

    def search() -> searches.Study:
        return _search(study, objective, packed, runs, settings, scheduler, earlier, display)

    try:
        if is_kept:
            assert packed is not None
            _serve(answerer, search, settings, launcher, display, key=key_of(runs, packed, settings.parallelism))
        else:
            let_go()
            searches.run_shown(
                search(), options.n_trials or ENDLESS, settings.parallelism, None, display, answerer=answerer
            )
    finally:
        answerer.finish()
    if answerer.error is not None:
        raise answerer.error
    display.warn(answerer.notes())
    return True


def _serve(
    answerer: StudyAnswerer,
    search: Callable[[], searches.Study],
    settings: Workers,
    launcher: Launcher,
    display: Display,
    *,
    key: tuple[Any, ...],
) -> None:
    """Let the trials run on workers that wait already, if these have got the same, else on new ones."""
    number = launcher.workers_now() if settings.parallelism is None else settings.parallelism
    if number is not None and answerer.n_trials is not None:
        number = min(number, answerer.n_trials)
    run = taken(key, number)
    assert run is None or isinstance(run, KeptRun), "its key says whose it is"
    if run is None:
        run = KeptRun(key, number, kept_s(launcher))
        run.start(search(), display)
    try:
        run.serve(answerer, display)
    except BaseException:
        run.close(now=True)
        raise
    finally:
        display.close()
    if answerer.error is None:
        keep(run)
    else:
        run.close()


_IN_THREADS = "optuna.workers(backend='threads')."


def _cannot_be_sent(func: Callable[..., Any], error: NotPicklableError) -> str:
    """Return why an objective cannot be sent, in words on the program's own function."""
    try:
        pack(func)
    except NotPicklableError as own:
        error = own
    return str(error).replace(", or load it there with trial.once(...)", "").replace(OR_IN_THREADS, "")


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


def _search(
    study: Any,
    objective: Objective,
    packed: Bundle | None,
    runs: StudyRuns,
    settings: Workers,
    scheduler: Scheduler | None,
    earlier: OpenRun | None,
    display: Display,
) -> searches.Study:
    """Return the search that runs the objective; ``packed``: as it is sent. None if it is not."""
    search = searches.Study(
        objective,
        space=Space.open(),
        metric=METRIC,
        mode="max" if study.directions[0] is StudyDirection.MAXIMIZE else "min",
        scheduler=scheduler,
        share=False,
        store=runs.next(objective.__name__) if earlier is None else earlier.folder,
        name=study.study_name if earlier is None else earlier.name,
        resume=earlier is not None,
        backend=settings.backend,
    )
    outlives_failures(search)
    runnable = search._described("run")
    runnable.code = msgspec.structs.replace(Code.of(objective.function), name=objective.__name__)
    if packed is not None:
        runnable.definition = msgspec.structs.replace(runnable.definition, trainable=with_sources(packed))
        display.warn(packed.warnings)
    return search

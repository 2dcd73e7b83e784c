"""``Study``, ``create_study`` and ``load_study``: Optuna's own, whose ``optimize`` runs on workers.

All other names of ``optuna.study`` are the same objects there and here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import optuna
from optuna.trial import FrozenTrial, Trial

from asyncsearch.checked_calls import answering, require_fit
from asyncsearch.optuna.copied_study import copy_of
from asyncsearch.optuna.driver_line import is_on_worker
from asyncsearch.optuna.objective import sent_study
from asyncsearch.optuna.refusals import require_storage
from asyncsearch.optuna.running import RUNS, optimize
from asyncsearch.optuna.settings import present
from asyncsearch.optuna.study_runs import StudyRuns
from asyncsearch.optuna.worker_trial import WorkerStudy
from asyncsearch.schedulers.base_scheduler import Scheduler


class OptunaStudy(optuna.study.Study):  # type: ignore[misc]  # not typed here
    """A study of Optuna whose trials run on workers. All else is Optuna's: after ``optimize`` it is read as ever."""

    @answering("study.optimize", "study.optimize(objective, n_trials=100)")
    def optimize(
        self,
        func: Callable[[Trial], Any],
        n_trials: int | None = None,
        timeout: float | None = None,
        n_jobs: int | None = None,
        catch: Iterable[type[Exception]] | type[Exception] = (),
        callbacks: Iterable[Callable[[OptunaStudy, FrozenTrial], None]] | None = None,
        gc_after_trial: bool = False,
        show_progress_bar: bool = False,
        *,
        scheduler: Scheduler | None = None,
    ) -> None:
        """Run the objective on workers until ``n_trials`` more trials have run.

        Args:
            func: the objective, which is called on the workers with a trial.
            n_trials: how many more trials. None means until ``timeout``, ``study.stop()`` or an interrupt.
            timeout: seconds after which no further trial begins; those that run come to their ends.
            n_jobs: how many trials run at a time; None or -1: one for each worker, see ``asyncsearch.optuna.workers``.
            catch: exceptions of the objective after which the study goes on.
            callbacks: called on the driver after each trial, one at a time, with the study and the trial.
            gc_after_trial: whether the driver collects garbage after each trial.
            show_progress_bar: whether to show Optuna's progress bar.
            scheduler: of asyncsearch, such as ``ASHA(max_resource=27)``: it judges the reports in place of a pruner.
                Trials that it pauses go on from what they name by ``trial.checkpoint(...)``.

        Raises:
            Exception: what the objective or a callback raised, once the trials that run have ended.
            UsageError: the objective cannot be sent to workers; the message names what in it.
        """
        if is_on_worker():  # a study that an objective makes for itself
            super().optimize(func, n_trials, timeout, n_jobs or 1, catch, callbacks, gc_after_trial, show_progress_bar)
            return
        optimize(
            self,
            func,
            n_trials=n_trials,
            timeout=timeout,
            n_jobs=n_jobs,
            catch=catch,
            callbacks=callbacks,
            gc_after_trial=gc_after_trial,
            show_progress_bar=show_progress_bar,
            scheduler=scheduler,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if sent_study.get() is self:
            return WorkerStudy, (self.study_name, self._study_id, self._directions)
        if sent_study.get() is not None:
            return copy_of(self)
        # A pickle that is loaded where asyncsearch is not installed.
        state: Any = self.__getstate__()
        state.pop(RUNS, None)
        return optuna.study.Study.__new__, (optuna.study.Study,), state


def _adopted(study: optuna.study.Study, *, may_add: bool) -> OptunaStudy:
    """Make a study of Optuna one of ours, with what earlier processes have found; see ``study_runs``."""
    require_storage(study)
    made = OptunaStudy.__new__(OptunaStudy)
    made.__dict__.update(study.__dict__)
    runs = StudyRuns(made, present().store, goes_on=may_add)
    runs.load(made, may_add=may_add)
    setattr(made, RUNS, runs)
    return made


def create_study(*arguments: Any, **options: Any) -> OptunaStudy:
    """Create a study, as ``optuna.create_study`` does, whose ``optimize`` runs on workers."""
    example = "optuna.create_study(direction='maximize')"
    signature = inspect.signature(optuna.create_study)
    require_fit(signature, "optuna.create_study", arguments, options, example=example)
    made = optuna.create_study(*arguments, **options)
    return _adopted(made, may_add=bool(options.get("load_if_exists")))


def load_study(*arguments: Any, **options: Any) -> OptunaStudy:
    """Load a study, as ``optuna.load_study`` does, whose ``optimize`` runs on workers."""
    return _adopted(optuna.load_study(*arguments, **options), may_add=True)


__path__: list[str] = []  # so that Optuna's modules inside its own are found; see ``submodules``


def __getattr__(name: str) -> Any:
    return OptunaStudy if name == "Study" else getattr(optuna.study, name)

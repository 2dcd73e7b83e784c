"""``Tuner`` and ``tune.run``: how a program begins its search, and how it goes on with one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.ray.folders import is_cut_off, last_run
from asyncsearch.ray.program_search import ProgramSearch
from asyncsearch.ray.proposals import Variants
from asyncsearch.ray.recorded_trials import RecordedTrial, TuneError, recorded_trials
from asyncsearch.ray.registry import registered
from asyncsearch.ray.requests import RunConfig, SearchRequest, TuneConfig, request_of_run
from asyncsearch.ray.results import SearchAnalysis, SearchResults, read_search
from asyncsearch.ray.running import run as run_search
from asyncsearch.ray.running import search, study_of, without_effect
from asyncsearch.ray.space.configurations import ParamSpace, leaves, name_of
from asyncsearch.ray.workers import present
from asyncsearch.report.live.display import open_display
from asyncsearch.study import study as searches


class Tuner:
    """A search of a trainable's configurations."""

    def __init__(
        self,
        trainable: Any = None,
        *,
        param_space: Mapping[str, Any] | None = None,
        tune_config: TuneConfig | None = None,
        run_config: RunConfig | None = None,
    ) -> None:
        """Describe it; nothing runs yet.

        Raises:
            UsageError: a value breaks its rule.
        """
        self._request: SearchRequest | None = SearchRequest(
            tune=tune_config or TuneConfig(), run=run_config or RunConfig(), param_space=param_space
        )
        if trainable is None:
            raise UsageError("Tuner() needs a trainable: a function of a configuration, or a tune.Trainable class.")
        self._trainable = registered(trainable)
        self._folder: str | None = None
        self._results: SearchResults | None = None

    @classmethod
    def restore(
        cls,
        path: str,
        trainable: Any = None,
        resume_unfinished: bool = True,
        resume_errored: bool = False,
        restart_errored: bool = False,
        param_space: Any = None,
        storage_filesystem: Any = None,
    ) -> Tuner:
        """Return the tuner of a folder, to go on with ``fit`` or to read ``get_results``.

        Raises:
            UsageError: there is no search in the folder, or what is asked cannot be done.
        """
        if storage_filesystem is not None:
            raise UsageError("Tuner.restore(storage_filesystem=...) is not known here: give the URL as path.")
        if not resume_unfinished:
            raise UsageError(
                "Tuner.restore(resume_unfinished=False): fit() goes on with the trials that had begun. Leave it out, "
                "or read the results as they are by get_results()."
            )
        made = cls.__new__(cls)
        made._request, made._results = None, None
        made._folder = last_run(path)
        made._trainable = None if trainable is None else registered(trainable)
        study, trials = read_search(made._folder)
        assert isinstance(study.searcher, Variants)
        _require_space(param_space, study.searcher.param_space)
        failed = [trial.trial_id for trial in trials if trial.error is not None]
        if failed and (resume_errored or restart_errored):
            raise UsageError(
                f"{', '.join(failed[:3])} of {path} failed, and failed trials are not begun again: give "
                "FailureConfig(max_failures=...) to the search, or search once more in another folder."
            )
        made._results = SearchResults(study, trials, *_compared(study))
        return made

    @classmethod
    def can_restore(cls, path: Any, storage_filesystem: Any = None) -> bool:
        """Return whether there is a search in a folder."""
        try:
            last_run(path)
        except UsageError:
            return False
        return True

    def fit(self) -> SearchResults:
        """Run the search, and return its results."""
        if self._request is not None:
            study, plan = search(self._trainable, self._request)
            trials = _recorded(study, plan)
            mode = None if plan.metric is None else plan.mode
            self._results = SearchResults(study, trials, plan.metric, mode)
        elif self._folder is not None and is_cut_off(self._folder):
            self._results = _gone_on(self._folder, self._trainable)
        assert self._results is not None
        return self._results

    def get_results(self) -> SearchResults:
        """Return the results of a search that has run."""
        if self._results is None:
            raise UsageError("The search has not run yet: call fit() first, or Tuner.restore(path).")
        return self._results


def _recorded(study: searches.Study, plan: ProgramSearch) -> list[RecordedTrial]:
    """Return the trials of a run, once it was said what could not act in it.

    Raises:
        TuneError: a trial has failed, and the program asked for its error, ``fail_fast="raise"``.
    """
    trials = recorded_trials(study, plan.param_space)
    plan.display.warn(without_effect(plan, trials))
    failures = plan.request.run.failure_config
    failed = next((trial.error for trial in trials if trial.error is not None), None)
    if failed is not None and failures is not None and failures.fail_fast == "raise":
        raise TuneError(str(failed)) from failed
    return trials


def _compared(study: searches.Study) -> tuple[str | None, str | None]:
    assert isinstance(study.searcher, Variants)
    metric = study.searcher.settings.metric
    return (metric, study.config.mode) if metric else (None, None)


def _gone_on(folder: str, trainable: Any) -> SearchResults:
    """Go on with a search that was cut off, by a program's trainable as it is now, as the program itself would."""
    earlier = searches.Study.resume(folder, backend=present().backend)
    searcher = earlier.searcher
    assert isinstance(searcher, Variants)
    if trainable is None:
        raise UsageError(f"{folder} was cut off, and is to go on: give what it trains, Tuner.restore(path, train).")
    request = SearchRequest.unpacked(searcher.program, searcher.param_space.space)
    if request is None:
        raise UsageError(
            f"{folder} has callbacks, stoppers or others that no pickle brings here, so that only its program can go "
            "on with it: run that once more as it was, with tune.Tuner(...).fit()."
        )
    plan = ProgramSearch(trainable, request)
    study = study_of(plan, folder, earlier.name, resume=True)
    run_search(study, plan, plan.display)
    return SearchResults(study, _recorded(study, plan), *_compared(study))


def _require_space(given: Any, known: ParamSpace) -> None:
    """Refuse another space than that of the search; the same one, which Ray asks for, has no effect."""
    names = [[name_of(place) for place, _ in leaves(one)] for one in (given, known.space)]
    if given is not None and set(names[0]) != set(names[1]):
        raise UsageError(
            f"Tuner.restore(param_space=...) has {', '.join(names[0]) or 'nothing'} to draw, and the search has "
            f"{', '.join(names[1]) or 'nothing'}: give the space of the search, or leave it out."
        )


def run(run_or_experiment: Any, *, raise_on_failed_trial: bool = True, **named: Any) -> SearchAnalysis:
    """Search as former programs do, all in one call; the arguments are those of ``TuneConfig`` and ``RunConfig``.

    Raises:
        TuneError: trials have failed, unless ``raise_on_failed_trial`` is False.
        UsageError: an argument is not known.
    """
    request, notes = request_of_run(named)
    choice = present()
    open_display(choice.display, logs=choice.logs).warn(notes)
    study, plan = search(registered(run_or_experiment), request)
    trials = _recorded(study, plan)
    failed = [trial for trial in trials if trial.error is not None]
    if failed and raise_on_failed_trial:
        names = ", ".join(trial.trial_id for trial in failed[:5])
        raise TuneError(f"Trials did not complete: {names}. The first one: {failed[0].error}")
    mode = None if plan.metric is None else plan.mode
    return SearchAnalysis(default_metric=plan.metric, default_mode=mode, study=study, trials=trials)


def run_experiments(*_given: Any, **_named: Any) -> Any:
    """Refuse the form of several searches in one call."""
    raise UsageError("tune.run_experiments is not known here: call tune.run for each experiment.")

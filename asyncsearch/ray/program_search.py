"""The parts of a study that a program's request comes to, checked before anything starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.journal.opening import read_records, read_study_file
from asyncsearch.launch import is_spark_active
from asyncsearch.launch.machine import cores
from asyncsearch.ray.answering import ProgramAnswerer
from asyncsearch.ray.callbacks.driver import called_callbacks, without_state
from asyncsearch.ray.milestones import ITERATION
from asyncsearch.ray.own_classes import require_known_algorithm, require_known_scheduler, without_reporter
from asyncsearch.ray.population import PopulationBasedTraining
from asyncsearch.ray.requests import CheckpointConfig, FailureConfig, SearchRequest
from asyncsearch.ray.resources import cpus_of, resources_of, without_counterpart
from asyncsearch.ray.runtime import asked_cpus
from asyncsearch.ray.scheduling import FIFOScheduler, TuneScheduler, create_scheduler
from asyncsearch.ray.space.configurations import ParamSpace, leaves, name_of
from asyncsearch.ray.space.search_algorithms import ConcurrencyLimiter, algorithm_of
from asyncsearch.ray.space.spaces import DrawnByFunction
from asyncsearch.ray.stoppers import stopper_of
from asyncsearch.ray.trial.session import RETURNED
from asyncsearch.ray.trial.settings import TrialSettings
from asyncsearch.ray.trial.trainables import require_trainable, unwrapped
from asyncsearch.ray.workers import present
from asyncsearch.report.live.display import Display, open_display
from asyncsearch.store import open_store
from asyncsearch.study import study as searches

_CONFIGS = 16
"""Of so many configurations the resources are looked at, where a function tells them."""


class ProgramSearch:
    """A search that a program asks for."""

    def __init__(self, trainable: Any, request: SearchRequest) -> None:
        self.request = request
        self.notes: list[str] = []
        self.trainable, resources = unwrapped(trainable)
        require_trainable(self.trainable)
        if not isinstance(self.trainable, type):
            _require_own_checkpoints(self.trainable, request.checkpoints)
        self.label = getattr(self.trainable, "__name__", None) or type(self.trainable).__name__
        self.scheduler = self._scheduler()
        self.algorithm = algorithm_of(request.tune.search_alg)
        self.limit: int | None = request.tune.max_concurrent_trials or None
        self.limit = self._with_limit(self.algorithm)
        while isinstance(self.algorithm, ConcurrencyLimiter):
            self.algorithm = self.algorithm.searcher
            self.limit = self._with_limit(self.algorithm)
        require_known_algorithm(self.algorithm)
        self.metric, self.mode = self._metric_and_mode()
        space = self.algorithm.space_of(request.param_space)
        if space is not None and not isinstance(space, Mapping):
            raise UsageError(f"param_space={space!r} is no dictionary: write param_space={{'lr': tune.uniform(0, 1)}}.")
        if isinstance(self.scheduler, PopulationBasedTraining):
            space = self.scheduler.filled(space or {})
        samples = None if request.tune.num_samples == -1 else request.tune.num_samples
        self.param_space = ParamSpace(
            {} if space is None else space,
            samples,
            tuple(flat_preset(one) for one in self.algorithm.points_to_evaluate or ()),
            self.algorithm.is_grid_constant,
        )
        given = resources if resources is not None else request.resources
        self.resources = resources_of(given, self.trainable, self._first_configs)
        self.learner = self.algorithm.learner()
        self.notes += self.algorithm.notes
        self.stopper = stopper_of(request.run.stop)
        self.callbacks = called_callbacks(request.run.callbacks)
        self.fails_fast = bool((request.run.failure_config or FailureConfig()).fail_fast)
        self._note_sizes()

    def _with_limit(self, algorithm: Any) -> int | None:
        """Return the limit of trials at a time, where an algorithm may have its own; 0 is none, as in Ray."""
        found = [one for one in (self.limit, getattr(algorithm, "max_concurrent", None)) if one]
        return min(found) if found else None

    def _first_configs(self) -> list[Any]:
        """Return some configurations; none where the program's own functions draw, which are called once for each."""
        space, seed = self.param_space, self.algorithm.seed
        if any(isinstance(leaf, DrawnByFunction) for _, leaf in leaves(space.space)):
            return []
        drawn = [space.draw(number, seed) for number in range(_CONFIGS)]
        return [space.config(params) for params in drawn if params is not None]

    @property
    def asks_driver(self) -> bool:
        """Whether objects of the program take part on the driver."""
        is_population = isinstance(self.scheduler, PopulationBasedTraining)
        return bool(self.stopper is not None or self.callbacks or is_population or self.fails_fast)

    def answerer(self, study: searches.Study) -> ProgramAnswerer | None:
        """Return the driver's half. None if nothing of the program takes part there."""
        if not self.asks_driver:
            return None
        is_begun = read_study_file(study.store) is not None
        return ProgramAnswerer(
            self.param_space,
            stopper=self.stopper,
            callbacks=self.callbacks,
            population=self.population,
            metric=self.metric or "",
            seed=self.algorithm.seed,
            experiment=study.name,
            folder=study.store.shown,
            fails_fast=self.fails_fast,
            records=read_records(study.store) if is_begun else (),
        )

    @property
    def population(self) -> PopulationBasedTraining | None:
        """The rules of a population, with the mode that the program has named. None if there is none."""
        if not isinstance(self.scheduler, PopulationBasedTraining):
            return None
        return replace(self.scheduler, metric=self.metric, mode=self.mode)

    def _scheduler(self) -> TuneScheduler:
        given = self.request.tune.scheduler
        if given is None:
            return FIFOScheduler()
        if isinstance(given, str):
            return create_scheduler(given)
        if not isinstance(given, TuneScheduler):
            raise UsageError(
                f"scheduler={given!r} is not known here: use ASHAScheduler, HyperBandScheduler, MedianStoppingRule, "
                "PopulationBasedTraining or FIFOScheduler of ray.tune.schedulers."
            )
        require_known_scheduler(given)
        return given

    def _metric_and_mode(self) -> tuple[str | None, str]:
        """Return the metric and mode of the program, from any of its places."""
        places = {
            "TuneConfig": self.request.tune,
            type(self.scheduler).__name__: self.scheduler,
            type(self.algorithm).__name__: self.algorithm,
        }
        metric, mode = one_of("metric", places), one_of("mode", places)
        if metric is None and mode is not None:
            metric = RETURNED
        if metric is None and (self.scheduler.compares or self.algorithm.learner() is not None):
            who = self.scheduler.name if self.scheduler.compares else type(self.algorithm).__name__
            raise UsageError(f"{who} compares trials by a metric: name it, TuneConfig(metric='loss', mode='min').")
        if metric is not None and mode is None:
            raise UsageError(f"metric={metric!r} needs a direction beside it: mode='min' or mode='max'.")
        return metric, mode or "max"

    def _note_sizes(self) -> None:
        self.notes += [*self.request.without_effect, *without_counterpart(self.resources)]
        self.notes += [*without_state(self.callbacks), *without_reporter(self.request.run.progress_reporter)]
        count, grid = self.param_space.length(), self.param_space.grid
        if grid and self.param_space.num_samples not in (1, None):
            names = ", ".join(name_of(place) for place, _ in grid)
            self.notes.append(
                f"The grid of {names} is tried num_samples={self.param_space.num_samples} times: {count} trials in all."
            )
        most = self.request.checkpoints.num_to_keep
        if most is not None and isinstance(self.scheduler, PopulationBasedTraining):
            self.notes.append(
                f"num_to_keep={most} is not obeyed in a population: a trial may go on from any checkpoint of another "
                "one, so that all are kept until you remove the folder of the search."
            )
        if getattr(self.scheduler, "log_config", None):
            self.notes.append("log_config=True writes no files here: results.study.explain(trial) tells its schedule.")
        if self.metric is None:
            self.notes.append(
                "The program names no metric before it reads the results: the table while it runs ranks "
                "by the number of "
                "reports. TuneConfig(metric=, mode=) lets it rank by yours."
            )

    @property
    def varying(self) -> list[str]:
        """The names of the places that vary."""
        return [name_of(place) for place, _ in leaves(self.param_space.space)] or ["config"]

    @property
    def display(self) -> Display:
        """Where the search is shown; nowhere with ``verbose=0``, unless the program has chosen."""
        choice = present()
        kind = "none" if choice.display == "auto" and self.request.run.verbose == 0 else choice.display
        return open_display(kind, logs=choice.logs)

    @property
    def parallelism(self) -> int | None:
        """How many trials run at a time. None means as many as there are slots."""
        choice = present()
        most = [one for one in (choice.parallelism, self.limit) if one is not None]
        cpus, there = cpus_of(self.resources), asked_cpus()
        is_here = choice.backend == "processes" or (choice.backend == "auto" and not is_spark_active())
        if choice.parallelism is None and is_here and (cpus > 1 or there is not None):
            most.append(max(1, int((cores() if there is None else there) // cpus)))
        return min(most) if most else None

    def settings(self, folder: str, name: str) -> TrialSettings:
        """Return the settings that the trials need."""
        checkpoints, stop = self.request.checkpoints, self.request.run.stop
        is_population = isinstance(self.scheduler, PopulationBasedTraining)
        return TrialSettings(
            store=open_store(folder),
            experiment_name=name,
            function_name=self.label,
            metric=self.metric or "",
            time_attr=self.scheduler.time_attr if self.scheduler.judges else ITERATION,
            stop=dict(stop) if isinstance(stop, Mapping) else {},
            num_to_keep=None if is_population else checkpoints.num_to_keep,
            score_attribute=checkpoints.checkpoint_score_attribute,
            score_order=checkpoints.checkpoint_score_order or "max",
            checkpoint_frequency=checkpoints.checkpoint_frequency or 0,
            checkpoint_at_end=bool(checkpoints.checkpoint_at_end),
            changes_folder=self.request.tune.chdir_to_trial_dir
            and os.environ.get("RAY_CHDIR_TO_TRIAL_DIR", "1") != "0",
            home=os.getcwd(),
            arguments=tuple(sys.argv),
            resources=self.resources,
            asks_driver=self.asks_driver,
            perturbation=(
                (self.scheduler.time_attr, self.scheduler.perturbation_interval)
                if isinstance(self.scheduler, PopulationBasedTraining)
                else ("", 0.0)
            ),
            burn_in=getattr(self.scheduler, "burn_in_period", 0.0),
            is_strict=os.environ.get("TUNE_DISABLE_STRICT_METRIC_CHECKING", "0") != "1",
        )


def _require_own_checkpoints(function: Any, asked: CheckpointConfig) -> None:
    """Refuse checkpoints that nobody but the function could make, as Ray does."""
    if asked.checkpoint_frequency or asked.checkpoint_at_end:
        name = "checkpoint_frequency" if asked.checkpoint_frequency else "checkpoint_at_end"
        raise UsageError(
            f"{name}= is for classes, and {getattr(function, '__name__', 'the trainable')} is a function: let it "
            "report them, tune.report(metrics, checkpoint=Checkpoint.from_directory(folder))."
        )


def flat_preset(point: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of a point of ``points_to_evaluate`` by the names of their places."""
    found: dict[str, Any] = {}
    for key, value in point.items():
        found |= flat_preset(value, f"{prefix}{key}/") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def one_of(name: str, places: Mapping[str, Any]) -> str | None:
    """Return a setting that has several places.

    Raises:
        UsageError: two of them differ.
    """
    given = {place: value for place, one in places.items() if (value := getattr(one, name, None)) is not None}
    if len(set(given.values())) > 1:
        texts = " and ".join(f"{place}({name}={value!r})" for place, value in given.items())
        raise UsageError(f"{texts} differ: name it once, in TuneConfig.")
    return next(iter(given.values()), None)

"""``experiment.lagom``: the call of a program of Maggy, whose trials run on workers."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from asyncsearch.arguments import count_of, positive, text_of
from asyncsearch.checked_calls import require_fit
from asyncsearch.errors import NoTrialsError, UsageError
from asyncsearch.journal.opening import StudyFile
from asyncsearch.maggy import config as configs
from asyncsearch.maggy.ablation import AblationCall, parts_of, searcher_of_study
from asyncsearch.maggy.earlystop import BROADCAST, BroadcastStopping, policy_of
from asyncsearch.maggy.optimizer import Plan, optimizer_of
from asyncsearch.maggy.reporter import LagomFunction, require_arguments
from asyncsearch.maggy.result import result_of_trials
from asyncsearch.maggy.searchspace import Searchspace
from asyncsearch.maggy.settings import present
from asyncsearch.programs.same_line import SearchFolders, of_program
from asyncsearch.report.live.display import open_display
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.schedulers.fifo import FIFO
from asyncsearch.space import Space
from asyncsearch.study.study import Study, run_shown
from asyncsearch.trial import Params, TrialState

_EXAMPLE = "experiment.lagom(train_fn, searchspace=sp, optimizer='randomsearch', direction='max', num_trials=15)"


def lagom(train_fn: Any = None, config: Any = None, /, **named: Any) -> dict[str, Any]:
    """Run an experiment on workers, and return its result.

    Both ways of calling are Maggy's: ``lagom(train_fn, config)`` of 1.x, with ``HyperparameterOptConfig``,
    ``OptimizationConfig`` or ``AblationConfig``, and ``lagom(train_fn, searchspace=..., optimizer=..., ...)`` of 0.x,
    where the function may be called ``map_fun`` or ``map_fn``, too.

    Returns:
        ``best_id``, ``best_val``, ``best_config`` (``best_hp``), ``worst_...``, ``avg``, ``metric_list``,
        ``num_trials``, ``early_stopped``, ``num_epochs``.

    Raises:
        UsageError: an argument breaks its rule; the message says what to write.
        TrialsFailedError: the trials fail.
    """
    for name in ("train_fn", "map_fun", "map_fn"):
        if name in named and train_fn is None:
            train_fn = named.pop(name)
    config = named.pop("config", config)
    if isinstance(config, configs.LagomConfig):
        if named:
            raise UsageError(f"lagom(..., config=...): write {', '.join(named)} in the config, not beside it.")
        return _run(train_fn, config)
    if isinstance(config, str | Searchspace):  # the second argument of 0.4, and of ages before
        named, config = {"name" if isinstance(config, str) else "searchspace": config, **named}, None
    if config is not None:
        raise UsageError(
            f"lagom(train_fn, {config!r}): the second argument is a config of asyncsearch.maggy.config; all others "
            f"have names, {_EXAMPLE}."
        )
    require_fit(inspect.signature(_config_of_keywords), "lagom", (), named, example=_EXAMPLE)
    return _run(train_fn, _config_of_keywords(**named))


def launch(train_fn: Any = None, config: Any = None, /, **named: Any) -> dict[str, Any]:
    """Run an experiment by the name that ``lagom`` had in Maggy 0.1."""
    return lagom(train_fn, config, **named)


def _config_of_keywords(
    *,
    name: str = "no-name",
    experiment_type: str = "optimization",
    searchspace: Searchspace | None = None,
    optimizer: Any = None,
    direction: str = "max",
    num_trials: int = 1,
    ablation_study: Any = None,
    ablator: Any = None,
    optimization_key: str = "metric",
    hb_interval: float = 1,
    es_policy: Any = "median",
    es_interval: float = 300,
    es_min: int = 10,
    description: str = "",
) -> configs.LagomConfig:
    """Return the config of a call of Maggy 0.x.

    There ``es_interval`` is seconds between two looks at all trials; here a trial is judged at each of its broadcasts,
    which is never later.
    """
    kind = str(experiment_type).lower()
    if kind == "ablation":
        if searchspace is not None:
            raise UsageError("lagom(experiment_type='ablation'): leave searchspace= out.")
        return configs.AblationConfig(ablation_study, ablator, direction, name, description, hb_interval)
    if kind != "optimization" or ablation_study is not None or ablator is not None:
        raise UsageError(
            f"lagom(experiment_type={experiment_type!r}): write 'optimization', or 'ablation' with ablation_study= and "
            "ablator='loco'."
        )
    positive_seconds(es_interval)
    return configs.HyperparameterOptConfig(
        num_trials,
        optimizer,
        searchspace,
        optimization_key,
        direction,
        1,
        es_min,
        es_policy,
        name,
        description,
        hb_interval,
    )


def positive_seconds(es_interval: Any) -> None:
    """Check an ``es_interval`` of Maggy 0.x."""
    if isinstance(es_interval, bool) or not isinstance(es_interval, int | float) or not es_interval > 0:
        raise UsageError(f"es_interval={es_interval!r}: in Maggy 0.x it is seconds, write es_interval=1.")


def _run(function: Any, config: configs.LagomConfig) -> dict[str, Any]:
    if function is None:
        raise UsageError(f"lagom needs the function that trains: write {_EXAMPLE}.")
    name = text_of("name", config.name)
    hb_interval: Any = config.hb_interval
    if isinstance(hb_interval, bool) or not isinstance(hb_interval, int | float) or not hb_interval > 0:
        raise UsageError(f"hb_interval={hb_interval!r}: it is seconds, write hb_interval=1.")
    direction = _direction(getattr(config, "direction", "max"))
    key = str(getattr(config, "optimization_key", "metric"))
    if key == BROADCAST:
        raise UsageError(f"optimization_key={key!r} is the column of broadcasts: write another name.")
    given = {one: getattr(config, one) for one in ("model", "dataset") if hasattr(config, one)}
    plan, scheduler, sent = _searched(function, config, direction, key, given)
    description = text_of("description", config.description)
    if description:
        open_display(present().display).warn([f"{name}: {description}"])
    return _searching(
        name, sent, plan, scheduler, direction, key, is_ablation=isinstance(config, configs.AblationConfig)
    )


def _searched(
    function: Callable[..., Any], config: configs.LagomConfig, direction: str, key: str, given: dict[str, Any]
) -> tuple[Plan, Scheduler, LagomFunction]:
    """Return the plan, the scheduler that stops trials, and the function as it is sent."""
    hb_interval = float(config.hb_interval)
    if isinstance(config, configs.AblationConfig):
        searcher = searcher_of_study(config.ablation_study, config.ablator)
        call = AblationCall(config.ablation_study)
        names = ("dataset_function", "model_function", "ablations", "ablated_feature", "ablated_layer")
        require_arguments(function, (), (*given, *names))
        sent = LagomFunction(function, key=key, hidden=call.hidden, given=given, call=call, hb_interval=hb_interval)
        return Plan(Space({_STUDY: 0}), searcher, None), FIFO(), sent
    if isinstance(config, configs.HyperparameterOptConfig):
        space = Searchspace() if config.searchspace is None else config.searchspace
        if not isinstance(space, Searchspace):
            raise UsageError(f"searchspace={space!r}: give a Searchspace of asyncsearch.maggy.")
        plan = optimizer_of(config.optimizer).plan(space, positive("num_trials", config.num_trials), direction)
        scheduler = _scheduler(config, direction)
    else:
        plan, scheduler = optimizer_of("none").plan(Searchspace(), 1, direction), FIFO()
    params = tuple(name for name in plan.searcher.extended(plan.space).parameters if name not in plan.hidden)
    require_arguments(function, params, tuple(given))
    return plan, scheduler, LagomFunction(function, key=key, hidden=plan.hidden, given=given, hb_interval=hb_interval)


_STUDY = "study"
"""The one parameter of an ablation study, a constant: a space has at least one."""


def _scheduler(config: configs.HyperparameterOptConfig, direction: str) -> Scheduler:
    policy = policy_of(config.es_policy)
    interval, least = positive("es_interval", config.es_interval), count_of("es_min", config.es_min)
    if policy is None:
        return FIFO()
    return BroadcastStopping(policy=policy, es_min=least, es_interval=interval, direction=direction)


def _direction(given: Any) -> str:
    if isinstance(given, str) and given.lower() in ("min", "max"):
        return given.lower()
    raise UsageError(f"direction={given!r}: write 'min' or 'max'.")


def _searching(
    name: str, sent: LagomFunction, plan: Plan, scheduler: Scheduler, direction: str, key: str, *, is_ablation: bool
) -> dict[str, Any]:
    settings = present()
    display = open_display(settings.display, logs=settings.logs)
    space = plan.searcher.extended(plan.space).describe()

    def is_same(file: StudyFile) -> bool:
        known = (file.name, file.trainable, file.metric, file.mode, file.searcher, file.scheduler, file.space)
        return known == (name, sent.__qualname__, key, direction, plan.searcher.describe(), scheduler.describe(), space)

    folder = SearchFolders.next(name, settings.store, sent.function, is_same)
    study = Study(
        sent,
        space=plan.space,
        metric=key,
        mode=direction,
        searcher=plan.searcher,
        scheduler=scheduler,
        store=folder.path,
        name=name,
        resume=folder.goes_on,
        share=False,
        backend=settings.backend,
    )
    of_program(study, sent.function, sent.__qualname__, settings.store)
    if folder.goes_on:
        display.warn([f"The experiment in {folder.path} goes on: another name= would begin anew."])
    run_shown(study, plan.num_trials, settings.parallelism, None, display)
    trials = study.trials
    failed = sum(trial.state is TrialState.FAILED for trial in trials)
    hidden = (*plan.hidden, _STUDY)

    def config_of(params: Params) -> Params:
        return dict(parts_of(params)._asdict()) if is_ablation else {k: v for k, v in params.items() if k not in hidden}

    result = result_of_trials(
        trials, direction, config_of, lambda trial: sum(BROADCAST in metrics for _, metrics in study.history(trial))
    )
    if "best_id" not in result:
        raise NoTrialsError(
            f"No trial of {name!r} has a finite result: {failed} of {len(trials)} have failed. See asyncsearch logs "
            f"{folder.path}, and begin anew by another name=."
        )
    if failed:
        display.warn([f"{failed} of {len(trials)} trials have failed and are not in the result: see {folder.path}."])
    return result

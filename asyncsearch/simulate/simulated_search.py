"""``simulate``: a whole search on a virtual cluster, in one call. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from asyncsearch.arguments import checked, positive, workers_of, yes_or_no
from asyncsearch.checked_calls import answering, grouped
from asyncsearch.engine.config import search_config
from asyncsearch.engine.method_checks import require_target
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers.base_scheduler import Scheduler, require_scheduler
from asyncsearch.schedulers.fifo import FIFO
from asyncsearch.searchers import searcher_of
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.simulate.cluster import Simulation
from asyncsearch.simulate.options import Delays, Faults, TrainingModel, Until
from asyncsearch.simulate.result import SimulationObserver, SimulationResult
from asyncsearch.simulate.workloads import Workload
from asyncsearch.sizing.autoscale import Autoscale
from asyncsearch.sizing.gangs import Gang, gang_of
from asyncsearch.sizing.pack_strategies import PackStrategy
from asyncsearch.sizing.packing import Packing, packing_for
from asyncsearch.space import Space, uniform
from asyncsearch.stop_rules import StopProgress, StopRule, study_rule, trial_rule

_ANYWHERE = {"x": uniform(0.0, 1.0)}
_MOST_TRIALS = 200_000
"""Limit where only a target ends a search, which may never be met. They take about a minute."""
_UNTIL, _DELAYS, _FAULTS, _TRAINING = Until(), Delays(), Faults(), TrainingModel()


_GROUPS: dict[str, Any] = {"until": Until, "delays": Delays, "faults": Faults, "training": TrainingModel}


@answering(
    "simulate", "simulate(Curves(), scheduler=ASHA(max_resource=81), num_trials=100)", instead=grouped(**_GROUPS)
)
def simulate(
    workload: Workload,
    *,
    scheduler: Scheduler | None = None,
    searcher: Searcher | str | None = None,
    space: Space | Mapping[str, Any] | None = None,
    metric: str = "loss",
    mode: str = "min",
    workers: int = 1,
    num_trials: int | None = None,
    until: Until = _UNTIL,
    seed: int = 0,
    share: bool | None = None,
    max_failures: int = 0,
    delays: Delays = _DELAYS,
    faults: Faults = _FAULTS,
    training: TrainingModel = _TRAINING,
    pack: int | str | None = None,
    pack_opt: str | PackStrategy = "plan",
    pack_by: Sequence[str] | None = None,
    workers_per_trial: int | Gang | None = None,
    autoscale: Autoscale | None = None,
    stop_when: StopRule | Callable[[StopProgress], Any] | None = None,
    stop_trial_when: StopRule | Callable[[StopProgress], Any] | None = None,
) -> SimulationResult:
    """Search on a virtual cluster with the real engine, and return its result with the times.

    Example::

        simulate(Curves(seed=1), scheduler=ASHA(max_resource=81), workers=25, num_trials=1000)

    Args:
        workload: cost and value of trials.
        scheduler: as of a ``Study``; ``FIFO()`` by default. One under which trials train until their function returns
            needs a workload that says when that is, by a function ``units(trial)``.
        searcher: as of a ``Study``.
        space: as of a ``Study``; by default the workload's own ``space``, or one number that nothing depends on.
        metric: name of the metric.
        mode: ``"min"`` or ``"max"``.
        workers: slots of the cluster.
        num_trials: as in ``Study.run``. None goes on until the searcher or ``until`` ends it.
        until: a time, a value or a number of completed trials that ends the simulation.
        seed: of the proposals; ``Chance`` and workloads have their own.
        share: train common stages once. None does as a ``Study``: where two trials of the space may have something in
            common, or go on with the weights of others.
        max_failures: as of a ``Study``.
        delays: how long messages, launches and commits take.
        faults: workers that die, trials that raise, stragglers and dropped work.
        training: how the trainable reports and resumes, and the gain of packs.
        pack: how many alike trials a worker may get together, or ``"auto"``, as of a ``Study``. None trains each alone.
        pack_opt: how these are chosen, as of a ``Study``.
        pack_by: names of the hyper-parameters in which alike trials agree, as of a ``Trainer``.
        workers_per_trial: as of a ``Study``; ``training`` has their gain.
        autoscale: as of a ``Study``.
        stop_when: as of a ``Study``, by the virtual clock; ``until`` ends the simulation, this the search.
        stop_trial_when: as of a ``Study``.

    Raises:
        UsageError: a value breaks its rule, or the search would have no end.
    """
    for (name, kind), value in zip(_GROUPS.items(), (until, delays, faults, training), strict=True):
        checked(value, kind, name)
    _require_workload(workload)
    workers = workers_of("workers", workers)
    num_trials = None if num_trials is None else positive("num_trials", num_trials)
    scheduler = FIFO() if scheduler is None else require_scheduler(scheduler)
    searcher = searcher_of(searcher)
    space = Space.of(space if space is not None else getattr(workload, "space", _ANYWHERE))
    config = search_config(
        space,
        scheduler,
        share=None if share is None else yes_or_no("share", share),
        study="simulated",
        metric=metric,
        mode=mode,
        seed=seed,
        max_failures=max_failures,
        max_losses=faults.max_losses,
        can_save=not training.restarts,
        pack_by=None if pack_by is None else tuple(pack_by),
        stop_when=None if stop_when is None else study_rule(stop_when),
        stop_trial_when=None if stop_trial_when is None else trial_rule(stop_trial_when),
        max_relaunches=10**9,  # a worker that chance hits often is still a worker
    )
    proposals, decisions = searcher.begin(space, seed), scheduler.begin(space, seed)
    length = proposals.length()
    count = length if num_trials is None else num_trials
    scheduler.warnings(min((most for most in (count, length) if most is not None), default=None))
    if count is None and until == _UNTIL and stop_when is None:
        raise UsageError("Nothing would end this search: give num_trials= or until=Until(...).")
    require_target(scheduler, decisions)
    _require_end(scheduler, until, workload, is_endless=decisions.first_target(TrialId(0)) is None)
    packing, gang = packing_for(pack, pack_opt, pack_by), gang_of(workers_per_trial, autoscale)
    _require_gang(gang, packing, workers)
    state = StudyState(config, proposals, decisions, scheduler.max_resource, packing, gang)
    is_bounded = count is not None or until.seconds < math.inf
    observer = SimulationObserver(state, until, None if is_bounded else _MOST_TRIALS)
    simulation = Simulation(
        state, workload, workers=workers, delays=delays, faults=faults, training=training, watch=observer
    )
    observer.halt = simulation.clock.halt
    try:
        simulation.run(num_trials, until.seconds)
    except KeyError as error:
        _require_parameter(error.args[0], workload, space)
        raise
    return _result(simulation, observer, workers, until.seconds)


def _require_gang(gang: Gang | None, packing: Packing | None, workers: int) -> None:
    if gang is None:
        return
    if packing is not None:
        raise UsageError("pack= gives a worker several trials, workers_per_trial= a trial several: leave out one.")
    if workers < (gang.min_size or gang.size):
        raise UsageError(f"workers={workers} is less than one trial needs, by workers_per_trial={gang.size}: raise it.")


def _require_end(scheduler: Scheduler, until: Until, workload: Workload, *, is_endless: bool) -> None:
    label = f"{type(scheduler).__name__}()"
    if until.completed is not None and scheduler.max_resource is None:
        raise UsageError(
            f"completed={until.completed} counts trials that are trained to max_resource, and {label} has none: give "
            "it one, or end the search by num_trials= or another value of until=."
        )
    if is_endless and not hasattr(workload, "units"):
        raise UsageError(
            f"Under {label} a trial trains until its function returns, and {type(workload).__name__} does not say when "
            "that is: write max_resource=, as in FIFO(max_resource=81), or give the workload a function units(trial)."
        )


def _require_workload(workload: object) -> None:
    for name in ("value", "seconds"):
        if isinstance(workload, type) or not callable(getattr(workload, name, None)):
            raise UsageError(
                f"workload={workload!r} is no object with a function {name}: write one with "
                "value(trial, params, resource) and seconds(trial, params), e.g. Curves(seed=1)."
            )


def _require_parameter(name: object, workload: Workload, space: Space) -> None:
    """Refuse a space that lacks a parameter which the workload looked for."""
    if isinstance(name, str) and name not in space.names:
        raise UsageError(
            f"{type(workload).__name__} looked for the parameter {name!r}, and this space has only "
            f"{', '.join(sorted(space.names))}: add it in space=, or take a workload that does without it."
        ) from None


def _result(simulation: Simulation, observer: SimulationObserver, workers: int, until: float) -> SimulationResult:
    state, end = simulation.state, simulation.end
    cut = "time was up" if simulation.clock.now >= until else "no worker was left"
    return SimulationResult(
        workers=workers,
        wall_s=simulation.clock.now if simulation.ended_s is None else simulation.ended_s,
        busy_s=simulation.busy_s,
        held_s=simulation.held.seconds,
        trained=sum(trial.trained for trial in state.trials),
        is_complete=end is not None and end.is_complete,
        reason=observer.reason or (cut if end is None else end.reason),
        incumbents=tuple(observer.incumbents),
        arrivals=tuple(observer.arrivals),
        sizes=tuple(observer.sizes),
        promotions=observer.promotions,
        max_resource=state.max_resource,
        state=state,
    )

"""``simulate``: a whole search on a virtual cluster, in one call. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from asyncsearch.arguments import checked, finite_number, positive, seconds_of, yes_or_no
from asyncsearch.engine.config import EngineConfig
from asyncsearch.engine.method_checks import require_target
from asyncsearch.engine.state import StudyState
from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.schedulers.fifo import FIFO
from asyncsearch.searchers.base_searcher import Searcher
from asyncsearch.searchers.random import RandomSearch
from asyncsearch.simulate.cluster import Delays, Loss, Simulation
from asyncsearch.simulate.observer import SimulationObserver
from asyncsearch.simulate.random_faults import Chance
from asyncsearch.simulate.result import SimulationResult
from asyncsearch.simulate.workloads import Workload
from asyncsearch.space import Space, uniform

_ANYWHERE = {"x": uniform(0.0, 1.0)}
_LOOK_AHEAD = 10_000
_MOST_TRIALS = 200_000
"""Where nothing but a target ends a search, which may never be met. They take about a minute."""
_NO_DELAYS, _NO_CHANCE = Delays(), Chance()


def simulate(
    workload: Workload,
    *,
    scheduler: Scheduler | None = None,
    searcher: Searcher | None = None,
    space: Space | Mapping[str, Any] | None = None,
    metric: str = "loss",
    mode: str = "min",
    workers: int = 1,
    num_trials: int | None = None,
    until: float = math.inf,
    target: float | None = None,
    until_completed: int | None = None,
    seed: int = 0,
    delays: Delays = _NO_DELAYS,
    losses: Sequence[Loss] = (),
    failures: Mapping[TrialId, int] | None = None,
    chance: Chance = _NO_CHANCE,
    restarts: bool = False,
    report_every: int | None = 1,
    share: bool | None = None,
    max_failures: int = 0,
    max_losses: int = 3,
) -> SimulationResult:
    """Search on a virtual cluster with the engine as it is, and say what was found and when.

    Example::

        simulate(Curves(seed=1), scheduler=ASHA(max_resource=81), workers=25, num_trials=1000)

    Args:
        workload: what trials cost and are worth.
        scheduler: as of a ``Study``; ``FIFO()`` by default. One under which trials train until their function returns
            needs a workload that says when that is, by a function ``units(trial)``.
        searcher: as of a ``Study``.
        space: as of a ``Study``; by default the workload's own ``space``, or one number that nothing depends on.
        metric: name of the metric.
        mode: ``"min"`` or ``"max"``.
        workers: slots of the cluster.
        num_trials: as in ``Study.run``; None: until the searcher, the time or the target ends it.
        until: virtual seconds after which the simulation is over.
        target: a value of the metric; the simulation is over when one as good is reported.
        until_completed: the simulation is over when so many trials are trained to ``max_resource``. Where nothing but
            this or ``target`` ends it, it is over after 200,000 trials all the same.
        seed: of the proposals; ``chance`` and workloads have their own.
        delays: how long messages, launches and commits take.
        losses: which workers die when, and for how long they are away.
        failures: which trials raise, at which resource, once.
        chance: stragglers and dropped work.
        restarts: what is promoted trains again from 0.
        report_every: units between two reports; None: only where work is saved or ends, so that a scheduler which stops
            trials on their way never hears of them.
        share: train once what trials have in common; None: where the space has sequences, or trials go on with the
            weights of others.
        max_failures: as of a ``Study``.
        max_losses: attempts of a trial that may be lost before it counts as failed.

    Raises:
        UsageError: something cannot be as it is written, or the search would have no end.
    """
    _require_workload(workload)
    workers = positive("workers", workers)
    num_trials = None if num_trials is None else positive("num_trials", num_trials)
    until = until if until == math.inf else seconds_of("until", until)
    target = None if target is None else finite_number("target", target)
    until_completed = None if until_completed is None else positive("until_completed", until_completed)
    report_every = None if report_every is None else positive("report_every", report_every)
    chosen = checked(scheduler or FIFO(), Scheduler, "scheduler")
    begun = checked(searcher or RandomSearch(), Searcher, "searcher")
    checked(delays, Delays, "delays")
    checked(chance, Chance, "chance")
    declared = Space.of(space if space is not None else getattr(workload, "space", _ANYWHERE))
    if share is not None:
        share = yes_or_no("share", share)
    else:
        share = declared.has_sequences or chosen.branches
    config = EngineConfig(
        study="simulated",
        metric=metric,
        mode=mode,
        seed=seed,
        share=share,
        look_ahead=_LOOK_AHEAD if share and declared.has_sequences else 0,
        max_failures=max_failures,
        max_losses=max_losses,
        max_relaunches=10**9,  # a worker that chance hits often is still a worker
    )
    proposals = begun.begin(declared, seed)
    count = proposals.length() if num_trials is None else num_trials
    is_bounded = count is not None
    chosen.warnings(min((most for most in (count, proposals.length()) if most is not None), default=None))
    if not is_bounded and until == math.inf and target is None and until_completed is None:
        raise UsageError("Nothing would end this search: give num_trials=, until=, target= or until_completed=.")
    judge = chosen.begin(declared, seed)
    label = f"{type(chosen).__name__}()"
    if until_completed is not None and chosen.max_resource is None:
        raise UsageError(
            f"until_completed={until_completed} counts trials that are trained to max_resource, and {label} has none: "
            "give it one, or end the search by num_trials=, until= or target=."
        )
    require_target(chosen, judge)
    if judge.first_target(TrialId(0)) is None and not hasattr(workload, "units"):
        raise UsageError(
            f"Under {label} a trial trains until its function returns, and {type(workload).__name__} does not say when "
            "that is: write max_resource=, as in FIFO(max_resource=81), or give the workload a function units(trial)."
        )
    state = StudyState(config, proposals, judge, chosen.max_resource)
    is_ended = is_bounded or until < math.inf
    watch = SimulationObserver(state, target, until_completed, None if is_ended else _MOST_TRIALS)
    simulation = Simulation(
        state,
        workload,
        workers=workers,
        delays=delays,
        losses=losses,
        failures=failures,
        chance=chance,
        restarts=restarts,
        report_every=report_every,
        watch=watch,
    )
    watch.halt = simulation.clock.halt
    try:
        simulation.run(num_trials, until)
    except KeyError as error:
        _require_parameter(error.args[0], workload, declared)
        raise
    return _result(simulation, watch, workers, until)


def _require_workload(workload: object) -> None:
    for name in ("value", "seconds"):
        if isinstance(workload, type) or not callable(getattr(workload, name, None)):
            raise UsageError(
                f"workload={workload!r} is no object with a function {name}: write one with "
                "value(trial, params, resource) and seconds(trial, params), e.g. Curves(seed=1)."
            )


def _require_parameter(name: object, workload: Workload, space: Space) -> None:
    """Refuse a space that lacks what was looked for in vain."""
    if isinstance(name, str) and name not in space.names:
        raise UsageError(
            f"{type(workload).__name__} looked for the parameter {name!r}, and this space has only "
            f"{', '.join(sorted(space.names))}: add it in space=, or take a workload that does without it."
        ) from None


def _result(simulation: Simulation, watch: SimulationObserver, workers: int, until: float) -> SimulationResult:
    state, end = simulation.state, simulation.end
    cut = "time was up" if simulation.clock.now >= until else "no worker was left"
    return SimulationResult(
        workers=workers,
        wall_s=simulation.clock.now if simulation.ended_s is None else simulation.ended_s,
        busy_s=simulation.busy_s,
        trained=sum(trial.trained for trial in state.trials),
        is_complete=end is not None and end.is_complete,
        reason=watch.reason or (cut if end is None else end.reason),
        incumbents=tuple(watch.incumbents),
        arrivals=tuple(watch.arrivals),
        promotions=watch.promotions,
        max_resource=state.max_resource,
        state=state,
    )

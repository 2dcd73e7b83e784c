"""Population based training as Ray Tune does it: at intervals the worst trials go on from the checkpoints of the best.

Jaderberg et al., "Population Based Training of Neural Networks", 2017. A trial is compared where its ``time_attr`` has
grown by the interval, with the last such results of all others. Its new configuration is that of the one it takes the
checkpoint of, with some values changed: drawn anew, moved to a neighbour in a list, or multiplied by a factor.

Rule: ``TrialPopulation`` is pure; the driver's half asks it (``answering``), and what it answers is a fact of the
journal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from asyncsearch.arguments import above_zero, not_negative
from asyncsearch.errors import ResourceError, UsageError
from asyncsearch.randomness import generator
from asyncsearch.ray.scheduling import TuneScheduler, named_for, require_mode
from asyncsearch.ray.space.configurations import resolved, seeded
from asyncsearch.ray.space.spaces import ChoiceDomain, DrawnByFunction, TuneDomain
from asyncsearch.schedulers.base_scheduler import Scheduler
from asyncsearch.schedulers.fifo import FIFO


@dataclass
class PopulationBasedTraining(TuneScheduler):
    """PBT; the arguments are Ray's."""

    time_attr: str = "time_total_s"
    metric: str | None = None
    mode: str | None = None
    perturbation_interval: float = 60.0
    burn_in_period: float = 0.0
    hyperparam_mutations: Mapping[str, Any] = field(default_factory=dict)
    quantile_fraction: float = 0.25
    resample_probability: float = 0.25
    perturbation_factors: tuple[float, float] = (1.2, 0.8)
    custom_explore_fn: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    log_config: bool | None = None
    require_attrs: bool = True
    synch: bool = False

    name = "PopulationBasedTraining"
    judges = False

    def __post_init__(self) -> None:
        require_mode(self.mode, self.name)
        if not self.hyperparam_mutations and self.custom_explore_fn is None:
            raise UsageError(f"{self.name} changes nothing: name what, hyperparam_mutations={{'lr': [1e-3, 1e-2]}}.")
        with named_for(self.name):
            above_zero("perturbation_interval", self.perturbation_interval)
            not_negative("burn_in_period", self.burn_in_period)
            if not_negative("quantile_fraction", self.quantile_fraction) > 0.5:
                raise ResourceError(f"quantile_fraction={self.quantile_fraction!r} must be from 0 to 0.5.")
            if not_negative("resample_probability", self.resample_probability) > 1:
                raise ResourceError(f"resample_probability={self.resample_probability!r} must be from 0 to 1.")
        if self.synch:
            raise UsageError(f"{self.name}(synch=True) waits for all trials, and here none waits: leave it out.")
        for name, one in self.hyperparam_mutations.items():
            _require_mutation(name, one)

    @property
    def needed_reports(self) -> float:
        return max(self.perturbation_interval, self.burn_in_period)

    def rule(self) -> Scheduler:
        return FIFO()

    def filled(self, space: Mapping[str, Any]) -> dict[str, Any]:
        """Return a space with a domain for each value that is changed and that it lacks."""
        return _filled(space, self.hyperparam_mutations)


def _require_mutation(name: str, given: Any) -> None:
    if isinstance(given, Mapping) and "grid_search" not in given:
        for key, one in given.items():
            _require_mutation(f"{name}/{key}", one)
    elif isinstance(given, DrawnByFunction) or not (
        (isinstance(given, list | tuple) and given) or isinstance(given, TuneDomain) or callable(given)
    ):
        raise UsageError(
            f"hyperparam_mutations[{name!r}]={given!r}: give a list of values, a domain of tune or a function."
        )


def _filled(space: Mapping[str, Any], mutations: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(space)
    for key, one in mutations.items():
        if isinstance(one, Mapping):
            made[key] = _filled(made.get(key) or {}, one)
        elif key not in made:
            if isinstance(one, list | tuple):
                made[key] = ChoiceDomain(one)
            else:
                made[key] = one if isinstance(one, TuneDomain) else DrawnByFunction(_Call(one))
    return made


class _Call:
    """Calls a function of no argument, in the place of one of the configuration."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def __call__(self, _config: Any) -> Any:
        return self._function()


class Exploit(NamedTuple):
    """Which trial a trial goes on from, with which configuration."""

    donor: int
    """The trial that has reported the checkpoint."""
    iteration: int
    """Number of that report."""
    config: dict[str, Any]
    member: int
    """The trial that was taken over; it may itself have gone on from the donor."""
    since: float
    """When it was compared last: the next comparison is an interval later for both."""


class PastComparison(NamedTuple):
    """A trial as it was at a comparison."""

    time: float
    score: float
    checkpoint: tuple[int, int] | None
    """Trial and iteration of the checkpoint that it had then."""
    config: dict[str, Any]
    is_best: bool = False
    """Whether it was among the best: others go on from those alone, as in Ray, which saves no others."""


@dataclass
class ComparedTrial:
    """A trial, with its comparisons."""

    config: dict[str, Any]
    comparisons: list[PastComparison] = field(default_factory=list)
    is_finished: bool = False
    since: float = 0.0
    """When it was compared last, or the trial that it has taken over."""

    @property
    def checkpoint(self) -> tuple[int, int] | None:
        """The checkpoint that it had at its last comparison."""
        return self.comparisons[-1].checkpoint if self.comparisons else None

    def as_of(self, time: float, interval: float) -> PastComparison | None:
        """Return how it stands for another trial at a time of that one. None if it does not.

        One that has finished stands as it was at that time, as if both had trained side by side: who went on from its
        last checkpoint would have nothing left to train. Where it had finished by then it stands no more: a trial that
        went on from it again and again would have no end.
        """
        if self.is_finished and self.comparisons and self.comparisons[-1].time + interval <= time:
            return None
        known = [one for one in self.comparisons if one.time <= time or not self.is_finished]
        return known[-1] if known else None


class TrialPopulation:
    """All trials of a search."""

    def __init__(self, rules: PopulationBasedTraining, seed: int) -> None:
        self._rules, self._seed = rules, seed
        self._sign = 1.0 if rules.mode == "max" else -1.0
        self.members: dict[int, ComparedTrial] = {}
        self.decisions = 0

    def is_due(self, trial: int, time: float) -> bool:
        """Return whether a trial is to be compared at a time."""
        interval = self._rules.perturbation_interval
        return time >= self._rules.burn_in_period and time - self.members[trial].since >= interval

    def compare(self, trial: int, time: float, value: float, checkpoint: tuple[int, int] | None) -> Exploit | None:
        """Take the result of a trial that is due, and return what it goes on from. None if it goes on as it is."""
        member = self.members[trial]
        score = self._sign * value if math.isfinite(value) else -math.inf
        member.comparisons.append(PastComparison(time, score, checkpoint or member.checkpoint, member.config))
        member.since = time
        interval = self._rules.perturbation_interval
        at_that_time = {number: one.as_of(time, interval) for number, one in self.members.items()}
        present = {number: found for number, found in at_that_time.items() if found is not None}
        bottom, top = self.quantiles(present)
        member.comparisons[-1] = member.comparisons[-1]._replace(is_best=trial in top)
        source = generator(self._seed, "ray.pbt", self.decisions)
        self.decisions += 1
        if trial not in bottom:
            return None
        chosen = top[int(source.integers(len(top)))]
        donor, kept = self.members[chosen], present[chosen].checkpoint
        if kept is None or not (donor.is_finished or present[chosen].is_best):
            return None
        since = present[chosen].time if donor.is_finished else donor.since
        return Exploit(kept[0], kept[1], self.explored(present[chosen].config, source), chosen, since)

    def quantiles(self, present: Mapping[int, PastComparison]) -> tuple[list[int], list[int]]:
        """Return the worst and the best of the trials that are compared."""
        ranked = sorted((one.score, number) for number, one in present.items())
        if len(ranked) <= 1:
            return [], []
        count = math.ceil(len(ranked) * self._rules.quantile_fraction)
        count = len(ranked) // 2 if count > len(ranked) / 2 else count
        numbers = [number for _, number in ranked]
        return (numbers[:count], numbers[len(numbers) - count :]) if count else ([], [])

    def explored(self, config: Mapping[str, Any], source: np.random.Generator) -> dict[str, Any]:
        """Return a configuration with changed values."""
        copied = resolved(dict(config), lambda _place, leaf: leaf)
        with seeded(source):
            made = _explored(copied, self._rules.hyperparam_mutations, self._rules, source)
        if self._rules.custom_explore_fn is not None:
            changed = self._rules.custom_explore_fn(made)
            if not isinstance(changed, dict):
                raise UsageError(f"custom_explore_fn returned {changed!r}: let it return the configuration.")
            made = changed
        return made


def _explored(
    config: dict[str, Any], mutations: Mapping[str, Any], rules: PopulationBasedTraining, source: np.random.Generator
) -> dict[str, Any]:
    for key, one in mutations.items():
        if isinstance(one, Mapping):
            config[key] = _explored(dict(config[key]), one, rules, source)
        else:
            config[key] = _changed(config[key], one, rules, source)
    return config


def _changed(value: Any, mutation: Any, rules: PopulationBasedTraining, source: np.random.Generator) -> Any:
    is_resampled = source.random() < rules.resample_probability
    values = mutation.categories if isinstance(mutation, ChoiceDomain) else mutation
    if isinstance(values, list | tuple):
        if is_resampled or value not in values:
            return values[int(source.integers(len(values)))]
        at = values.index(value) + (1 if source.random() < 0.5 else -1)
        return values[min(max(at, 0), len(values) - 1)]
    if is_resampled:
        made = mutation.draw(source) if isinstance(mutation, TuneDomain) else mutation()
    else:
        made = value * rules.perturbation_factors[int(source.integers(len(rules.perturbation_factors)))]
    if isinstance(value, bool):
        return bool(made)
    return round(made) if isinstance(value, int) else made

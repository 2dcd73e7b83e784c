"""PBT: population based training.

Jaderberg et al., "Population Based Training of Neural Networks", 2017, with truncation selection::

    whenever a worker is free, and a member of the population is at a boundary:
        if it is one of the worst there:
            exploit: take over the weights, and the schedule up to there, of one of the best there
            explore: train on with other values of some of its parameters
        train on to the next boundary

Nothing of the exploited trial is copied: see ``asyncsearch.engine.branching``.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from asyncsearch.errors import ResourceError, SpaceError
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.randomness import generator
from asyncsearch.schedulers import reasons
from asyncsearch.schedulers.base_scheduler import Offspring, Promotion, RungForecast, Scheduler, SchedulerState
from asyncsearch.schedulers.explore import Explorer, perturbed_domains
from asyncsearch.schedulers.population import Population, Rules
from asyncsearch.schedulers.rungs import check_whole
from asyncsearch.sequences.exact_arithmetic import fraction
from asyncsearch.space import Space
from asyncsearch.trial import Params

_DONOR = "schedulers.pbt.donor"
_EXPLORE = "schedulers.pbt.explore"


@dataclass(frozen=True, kw_only=True, slots=True)
class PBT(Scheduler):
    """Train a population; at intervals its worst trials go on with the weights of its best, and with other values.

    The trainable must save and load, and read its values anew in each unit, as for sequences.

    Args:
        max_resource: Resource R at which a trial is complete.
        perturbation_interval: Trials are compared each time they have trained this many units.
        perturb: Dotted names of the parameters to change; None: all that can be changed. Parameters that shape the
            weights (layers, widths) must stay: name the others then.
        population: How many trials compete with each other; None: all that a run asks for, or all that the searcher
            has. More trials form further populations.
        quantile: Share of the population that is the worst, and that is the best; above 0, at most 0.5.
        resample_probability: Of drawing a new value instead of changing it a little, from 0 to 1.
        factors: Numbers are multiplied by one of these; the result is kept within the domain. Whole numbers and
            ``quniform`` move a step at least, choices of numbers to a neighbour, other choices are drawn anew.
        synchronous: Whether a boundary waits for all members; else each is compared with those that reached it before.

    Raises:
        ResourceError: values that are out of their range, or that do not fit together.
        SpaceError: ``perturb`` is no list of names.
    """

    max_resource: int = field()
    perturbation_interval: int = field()
    perturb: Sequence[str] | None = None
    population: int | None = None
    quantile: float = 0.25
    resample_probability: float = 0.25
    factors: Sequence[float] = (0.8, 1.2)
    synchronous: bool = False

    def __post_init__(self) -> None:
        check_whole("max_resource", self.max_resource, 2)
        check_whole("perturbation_interval", self.perturbation_interval, 1)
        if self.perturbation_interval >= self.max_resource:
            raise ResourceError(
                f"perturbation_interval={self.perturbation_interval} is not below max_resource={self.max_resource}: "
                f"no trial would ever be compared. Use perturbation_interval <= {max(1, self.max_resource // 2)}."
            )
        if self.population is not None:
            check_whole("population", self.population, 2)
        _check_number("quantile", self.quantile, 0.25)
        if not 0 < self.quantile <= 0.5:
            raise ResourceError(
                f"quantile={self.quantile!r} must be above 0 and at most 0.5: no trial is among the best and among the "
                "worst. Use quantile=0.25."
            )
        _check_number("resample_probability", self.resample_probability, 0.25)
        if not 0 <= self.resample_probability <= 1:
            raise ResourceError(
                f"resample_probability={self.resample_probability!r} is not a probability: use a number from 0 to 1."
            )
        if not isinstance(self.synchronous, bool):
            raise ResourceError(f"synchronous={self.synchronous!r} is neither True nor False. Use synchronous=True.")
        object.__setattr__(self, "perturb", _names(self.perturb))
        object.__setattr__(self, "factors", _factors(self.factors))

    @property
    def pauses(self) -> bool:
        return True

    @property
    def branches(self) -> bool:
        return True

    def begin(self, space: Space | None = None, seed: int = 0) -> PBTState:
        if space is None:
            raise SpaceError("PBT changes parameters and was given no space: write PBT(...).begin(space, seed).")
        domains = perturbed_domains(space, self.perturb)
        return self._state(Explorer(space, domains, self.factors, self.resample_probability), seed)

    def begin_reading(self) -> PBTState:
        return self._state(None, 0)

    def _state(self, explorer: Explorer | None, seed: int) -> PBTState:
        rules = Rules(self.perturbation_interval, self.max_resource, fraction(self.quantile), self.synchronous)
        return PBTState(rules, self.population, explorer, seed)

    def describe(self) -> str:
        options = [f"max_resource={self.max_resource}", f"perturbation_interval={self.perturbation_interval}"]
        defaults: dict[str, Any] = {"perturb": None, "population": None, "quantile": 0.25}
        defaults |= {"resample_probability": 0.25, "factors": (0.8, 1.2), "synchronous": False}
        for name, default in defaults.items():
            value = getattr(self, name)
            if value != default:
                options.append(f"{name}={list(value) if name == 'perturb' else value!r}")
        return f"PBT({', '.join(options)}): compares every {self.perturbation_interval}, up to {self.max_resource}"

    def forecast(self, num_trials: int) -> list[RungForecast]:
        return [RungForecast(0, self.max_resource, num_trials)]

    def warnings(self, num_trials: int | None) -> list[str]:
        size = self.population or num_trials
        if size is None:
            return []
        if num_trials is not None and size > num_trials:
            raise ResourceError(
                f"population={size} is larger than num_trials={num_trials}: its members would wait for trials that "
                f"nobody asks for. Use population={num_trials} or less, or num_trials={size} or more."
            )
        rest = 0 if num_trials is None else num_trials % size
        notes = [self._too_few(size, "A population")]
        if rest:
            notes.append(self._too_few(rest, "The last population"))
        return [note for note in notes if note]

    def _too_few(self, size: int, what: str) -> str:
        need = math.ceil(1 / fraction(self.quantile))
        if size >= need:
            return ""
        quantile = f" or quantile={math.ceil(100 / size) / 100}" if size > 1 else ""
        trials = "1 trial" if size == 1 else f"{size} trials"
        return (
            f"{what} has {trials}, fewer than 1/quantile = {need}, so that none is ever among the worst and takes "
            f"over another's weights. Use {need} trials or more{quantile}."
        )


class PBTState(SchedulerState):
    """Populations in the order in which they were opened. Only the last one may still take trials."""

    begins_all_first = True

    def __init__(self, rules: Rules, size: int | None, explorer: Explorer | None, seed: int) -> None:
        self._rules = rules
        self._size = size
        self._explorer = explorer
        self._seed = seed
        self._created = 0
        self._total: int | None = None  # num_trials of the present run; None: no end
        self._starts: list[int] = []  # first trial of each population
        self._populations: dict[int, Population] = {}  # by number; without those that are over
        self._ready: list[int] = []  # populations with a candidate, so that asking does not visit them all

    def first_target(self, trial: TrialId) -> int:
        return self._rules.after(0)

    def next_promotion(self) -> Promotion | None:
        if not self._ready:
            return None
        population = self._populations[self._ready[0]]
        trial = population.candidate
        assert trial is not None
        here = population.place(trial)
        rank, size = population.ranked(trial)
        place = reasons.place(rank, size, here)
        above = self._rules.after(here)
        donor = None
        if self._rules.is_worst(rank, size):
            donor = population.draw_best(trial, generator(self._seed, f"{_DONOR}/{here}", trial))
        reason = f"{place}, goes on to {above}"
        if donor is not None:
            end = self._rules.max_resource
            reason += f" by itself, since {trial_name(donor)} has no checkpoint from {here} to {end - 1} to take over"
        return Promotion(trial, here, above, reason, donor)

    def branch(self, promotion: Promotion, params: Params, resource: int) -> Offspring | None:
        if resource >= self._rules.max_resource or promotion.donor is None:
            return None
        assert self._explorer is not None
        here = promotion.from_resource
        source = generator(self._seed, f"{_EXPLORE}/{here}", promotion.trial)
        explored, changes = self._explorer.explore(params, resource, source)
        place = reasons.place(*self._populations[self._number(promotion.trial)].ranked(promotion.trial), here)
        reason = (
            f"exploited {trial_name(promotion.donor)} at resource {resource}: {place}, takes its weights; {changes}"
        )
        return Offspring(explored, self._rules.after(resource), reason)

    def position(self, trial: TrialId) -> str:
        population = self._population_of(trial, self._number(trial))
        if population is None:
            return ""
        here = population.place(trial)
        if not population.is_waiting(trial):
            return reasons.towards(here)
        return f"{reasons.place(*population.ranked(trial), here)}; it waits there"

    def run_requested(self, num_trials: int | None) -> None:
        self._total = num_trials
        population = self._filling()
        if population is None or num_trials is None:
            return
        # Else a run for fewer trials than the last one would wait for trials that will never be created.
        room = max(num_trials, self._created) - population.start
        if population.size is None or population.size > room:
            self._close(room)

    def no_more_trials(self) -> None:
        population = self._filling()
        if population is not None:
            self._close(population.created)

    def created(self, trial: TrialId, params: Params) -> None:
        population = self._filling() or self._open(trial)
        population.create(trial)
        self._created += 1
        self._update(len(self._starts) - 1)

    def paused(self, trial: TrialId, resource: int, score: float | None) -> None:
        number = self._number(trial)
        population = self._population_of(trial, number)
        if population is not None and not population.is_waiting(trial):
            population.pause(trial, resource, score)
            self._update(number)

    def promoted(self, trial: TrialId, from_resource: int, to_resource: int) -> None:
        self._leave(trial, to_resource)

    def branched(self, trial: TrialId, donor: TrialId, params: Params, resource: int, to_resource: int) -> None:
        self._leave(trial, to_resource)

    def stopped(self, trial: TrialId, resource: int, score: float | None) -> None:
        self.ended(trial, resource, None)

    def _leave(self, trial: TrialId, to_resource: int) -> None:
        number = self._number(trial)
        population = self._population_of(trial, number)
        if population is not None:
            population.leave(trial, to_resource)
            self._update(number)

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        number = self._number(trial)
        population = self._population_of(trial, number)
        if population is not None:
            population.end(trial, score)
            self._update(number)

    def _number(self, trial: TrialId) -> int:
        """Return the population of a trial. Trials are created in the order of their ids."""
        return bisect_right(self._starts, trial) - 1

    def _population_of(self, trial: TrialId, number: int) -> Population | None:
        """Return a population if the trial is a member of it that has not ended."""
        population = self._populations.get(number)
        return population if population is not None and population.has(trial) else None

    def _filling(self) -> Population | None:
        """Return the population that still takes trials."""
        last = self._populations.get(len(self._starts) - 1)
        return last if last is not None and not last.is_full else None

    def _open(self, trial: TrialId) -> Population:
        size = self._size
        if self._total is not None and self._total > self._created:
            room = self._total - self._created
            size = room if size is None else min(size, room)
        population = self._populations[len(self._starts)] = Population(self._rules, self._created, size)
        self._starts.append(trial)
        return population

    def _close(self, size: int) -> None:
        number = len(self._starts) - 1
        self._populations[number].close(size)
        self._update(number)

    def _update(self, number: int) -> None:
        """Note whether a population has a candidate; forget one that is over."""
        population = self._populations[number]
        place = bisect_left(self._ready, number)
        was_ready = place < len(self._ready) and self._ready[place] == number
        is_ready = population.candidate is not None
        if is_ready and not was_ready:
            insort(self._ready, number)
        elif was_ready and not is_ready:
            del self._ready[place]
        if population.is_over:
            del self._populations[number]

    def snapshot(self) -> dict[str, Any]:
        return {
            "created": self._created,
            "total": self._total,
            "starts": list(self._starts),
            "numbers": list(self._populations),
            "populations": [population.snapshot() for population in self._populations.values()],
        }

    def restore(self, snapshot: dict[str, Any]) -> None:
        self._created = snapshot["created"]
        self._total = snapshot["total"]
        self._starts = list(snapshot["starts"])
        found = (Population.restored(self._rules, population) for population in snapshot["populations"])
        self._populations = dict(zip(snapshot["numbers"], found, strict=True))
        self._ready = [number for number, its in self._populations.items() if its.candidate is not None]


def _check_number(name: str, value: object, example: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ResourceError(f"{name}={value!r} is not a finite number. Write e.g. {name}={example}.")


def _names(perturb: Any) -> tuple[str, ...] | None:
    if perturb is None:
        return None
    if isinstance(perturb, str) or not isinstance(perturb, Sequence) or not all(isinstance(n, str) for n in perturb):
        example = [perturb] if isinstance(perturb, str) else ["lr"]
        raise SpaceError(f"perturb={perturb!r} is not a list of names of parameters: write perturb={example!r}.")
    if not perturb:
        raise SpaceError("perturb=[] names no parameter: name those to change, or leave it out for all that can be.")
    return tuple(dict.fromkeys(perturb))


def _factors(factors: Any) -> tuple[float, ...]:
    is_list = isinstance(factors, Sequence) and not isinstance(factors, str) and len(factors) > 0
    for factor in factors if is_list else [factors]:
        _check_number("factors", factor, 1.2) if is_list else None
        if not is_list or factor <= 0 or factor == 1:
            raise ResourceError(
                f"factors={factors!r}: they are numbers above 0 other than 1 that values are multiplied by. "
                "Write factors=(0.8, 1.2)."
            )
    return tuple(factors)

"""The state of population based training: which trial goes on, and whose weights and values it takes over.

A trial belongs to the population that was open when it was created. It leaves each boundary by itself, or with the
weights of one of the best there; ``population`` ranks the members, ``explore`` changes their values.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Any

from asyncsearch.ids import TrialId, trial_name
from asyncsearch.randomness import generator
from asyncsearch.schedulers import reasons
from asyncsearch.schedulers.base_scheduler import Offspring, Promotion, SchedulerState
from asyncsearch.schedulers.explore import Explorer
from asyncsearch.schedulers.population import Population, Rules
from asyncsearch.trial import Params

_DONOR = "schedulers.pbt.donor"
_EXPLORE = "schedulers.pbt.explore"


class PBTState(SchedulerState):
    """Populations in the order in which they were opened. Only the last one may still take trials."""

    begins_all_first = True
    compares_saved = False

    def __init__(self, rules: Rules, size: int | None, explorer: Explorer | None, seed: int) -> None:
        self._rules = rules
        self._size = size
        self._explorer = explorer
        self._seed = seed
        self._created = 0
        self._total: int | None = None  # num_trials of the present run. None means no end
        self._starts: list[int] = []  # first trial of each population
        self._populations: dict[int, Population] = {}  # by number; without those that are over
        self._ready: list[int] = []  # populations with a candidate, so that asking does not visit them all

    def first_target(self, trial: TrialId) -> int:
        return self._rules.after(0)

    def next_promotion(self) -> Promotion | None:
        if not self._ready:
            return None
        population = self._populations[self._ready[0]]
        assert population.candidate is not None
        return self._promotion(population, population.candidate)

    def promotion_of(self, trial: TrialId) -> Promotion | None:
        population = self._population_of(trial, self._number(trial))
        return None if population is None or not population.may_leave(trial) else self._promotion(population, trial)

    def _promotion(self, population: Population, trial: TrialId) -> Promotion:
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
        return Promotion(trial, here, above, reason, donor, population.may_give(trial))

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
        return f"{reasons.place(*population.ranked(trial), here)}; {reasons.WAITS_THERE}"

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
        if (population := self._population_of(trial, number)) is not None:
            population.leave(trial, to_resource)
            self._update(number)

    def ended(self, trial: TrialId, resource: int, score: float | None) -> None:
        number = self._number(trial)
        if (population := self._population_of(trial, number)) is not None:
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

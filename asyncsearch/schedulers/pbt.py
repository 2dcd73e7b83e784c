"""PBT: population based training.

Jaderberg et al., "Population Based Training of Neural Networks", 2017, with truncation selection::

    whenever a worker is free, and a member of the population is at a boundary:
        if it is one of the worst there:
            exploit: take over the weights, and the schedule up to there, of one of the best there
            explore: train on with other values of some of its parameters
        train on to the next boundary

Nothing of the exploited trial is copied: see ``asyncsearch.engine.next_trials``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from asyncsearch.errors import ResourceError, SpaceError
from asyncsearch.schedulers.base_scheduler import RungForecast, Scheduler
from asyncsearch.schedulers.explore import Explorer, perturbed_domains
from asyncsearch.schedulers.pbt_state import PBTState
from asyncsearch.schedulers.population import Rules
from asyncsearch.schedulers.rungs import check_whole
from asyncsearch.sequences.formulas import fraction
from asyncsearch.space import Space


@dataclass(frozen=True, kw_only=True, slots=True)
class PBT(Scheduler):
    """Train a population; at intervals its worst trials go on with the weights of its best, and with other values.

    The trainable must save and load, and read its values anew in each unit, as for sequences.

    Args:
        max_resource: Resource R at which a trial is complete.
        perturbation_interval: Trials are compared each time they have trained this many units.
        perturb: Dotted names of the parameters to change. None means all that can be changed. Parameters that shape the
            weights (layers, widths) must stay: name the others then.
        population: How many trials compete with each other. None means all that a run asks for, or all that the
            searcher has. More trials form further populations.
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

"""How the trainings of a pack are chosen: by four strategies, or one of the user's own, which is checked. Pure.

plan            of the same group as the first one, in the order in which free workers would get them
nearest         the nearest neighbours of the first one (Understanding and Optimizing Packed Neural Network
                Training for Hyper-Parameter Tuning, section 5): the sum, over the hyper-parameters, of the distance
                of their places among the values for numbers, and of 0 or 1 for everything else
batch_size      with the same batch size, in that order
random          any, drawn anew for each lease
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from asyncsearch.errors import UsageError
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.plan.base_plan import Batch
from asyncsearch.randomness import below, generator


class PackCandidate(msgspec.Struct, frozen=True):
    """A training that may be packed; a ``pack_opt`` of your own chooses among some."""

    batch: Batch
    """The training; of no use to a strategy."""
    params: Mapping[str, Any]
    """Hyper-parameters of its first stage; read-only."""
    group: str
    """Trainings of one group are alike: their models have one structure."""

    def __post_init__(self) -> None:
        # They are those of the trial: a strategy that changed them would change what is trained.
        msgspec.structs.force_setattr(self, "params", MappingProxyType(self.params))

    @property
    def interval(self) -> tuple[int, int]:
        """The units that it trains: from, to."""
        return self.batch.stages[0].start, self.batch.stages[-1].stop

    @property
    def trial(self) -> TrialId:
        """The number of the trial that it is for, or of the first of these."""
        return self.batch.stages[0].trials[0]

    @property
    def is_urgent(self) -> bool:
        """Whether it is a promotion, or was begun before; its group may be another one than that of the first."""
        return self.batch.is_urgent


class PackChoice(msgspec.Struct, frozen=True):
    """The choice of a strategy.

    Example::

        def near_rate(choice: PackChoice) -> list[PackCandidate]:
            rate = choice.first.params["lr"]
            alike = [other for other in choice.others if other.group == choice.first.group]
            return sorted(alike, key=lambda other: abs(other.params["lr"] - rate))[: choice.count]

        Study(..., pack=8, pack_opt=near_rate)
    """

    first: PackCandidate
    """The training that the worker gets in any case, or one of those in the pack that others are to join."""
    others: Sequence[PackCandidate]
    """Those that may be chosen, in the order in which free workers would get them. For a new pack, all have the units
    left that ``first`` has; those that may join a pack are of its group, and have any."""
    count: int
    """How many of them are wanted, at most."""
    draw: int = 0
    """A number that differs from choice to choice, for strategies that draw."""


PackStrategy = Callable[[PackChoice], Sequence[PackCandidate]]
"""Chooses at most ``count`` of the others. A pure function: it gives the same answer to the same question."""


def in_order_of_plan(choice: PackChoice) -> list[PackCandidate]:
    """Choose trainings of the first one's group."""
    return [other for other in choice.others if other.group == choice.first.group][: choice.count]


def nearest_neighbours(choice: PackChoice) -> list[PackCandidate]:
    """Choose the trainings whose hyper-parameters are nearest to the first one's."""
    distance = distances(choice.first, choice.others)
    nearest = sorted(range(len(distance)), key=distance.__getitem__)[: choice.count]
    return [choice.others[index] for index in nearest]


def of_same_batch_size(choice: PackChoice) -> list[PackCandidate]:
    """Choose trainings with the first one's ``batch_size``."""
    size = choice.first.params.get("batch_size")
    return [other for other in choice.others if other.params.get("batch_size") == size][: choice.count]


def at_random(choice: PackChoice) -> list[PackCandidate]:
    """Choose any trainings, each equally likely."""
    source, left = generator(0, "plan.packing", choice.draw), list(choice.others)
    return [left.pop(below(source, len(left))) for _ in range(min(choice.count, len(left)))]


PACK_STRATEGIES: dict[str, PackStrategy] = {
    "plan": in_order_of_plan,
    "nearest": nearest_neighbours,
    "batch_size": of_same_batch_size,
    "random": at_random,
}


def require_strategy(strategy: object) -> None:
    """Require a name in ``PACK_STRATEGIES``, or a function of the user's own.

    Raises:
        UsageError: it is neither.
    """
    is_own = callable(strategy) and not isinstance(strategy, type)
    if not is_own and not (isinstance(strategy, str) and strategy in PACK_STRATEGIES):
        raise UsageError(
            f"pack_opt={strategy!r} is not known: write one of {', '.join(map(repr, PACK_STRATEGIES))}, or a function "
            "of a PackChoice that returns some of its others (docs/packing.md)."
        )


def strategy_name(strategy: str | PackStrategy) -> str:
    """Return the name of a strategy for people: of a function its own, of an object that of its class."""
    if isinstance(strategy, str):
        return strategy
    return str(getattr(strategy, "__name__", type(strategy).__name__))


def choose(strategy: str | PackStrategy, choice: PackChoice) -> list[PackCandidate]:
    """Return the choice of a strategy.

    Raises:
        UsageError: one of the user's own raised an error, or gave two answers, or chose what it may not.
    """
    if isinstance(strategy, str):
        return list(PACK_STRATEGIES[strategy](choice))
    found = _answer(strategy, choice)
    if [id(one) for one in _answer(strategy, choice)] != [id(one) for one in found]:
        raise UsageError(
            f"pack_opt={strategy_name(strategy)} gave two answers to one question: it must be a pure function of the "
            "choice. Take random numbers from random.Random(choice.draw)."
        )
    return found


def _answer(strategy: PackStrategy, choice: PackChoice) -> list[PackCandidate]:
    name = f"pack_opt={strategy_name(strategy)}"
    try:
        answer: Any = strategy(choice)
    except Exception as error:
        raise UsageError(f"{name} raised {type(error).__name__}: {error}. Mend it, then resume the study.") from error
    if not isinstance(answer, list | tuple):
        raise UsageError(f"{name} returned {answer!r}: it must return a list of some of choice.others.")
    _require_chosen(name, answer, choice)
    return list(answer)


def _require_chosen(name: str, answer: Sequence[object], choice: PackChoice) -> None:
    left = {id(other): other for other in choice.others}
    for one in answer:
        if left.pop(id(one), None) is None:
            raise UsageError(
                f"{name} returned {_shown(one)}, which is not one of choice.others, or was returned twice: return each "
                "of them at most once, and nothing else."
            )
    if len(answer) > choice.count:
        raise UsageError(
            f"{name} returned {len(answer)} candidates, and choice.count is {choice.count}: return at most as many, as "
            "in found[: choice.count]."
        )


def _shown(one: object) -> str:
    return trial_name(one.trial) if isinstance(one, PackCandidate) else repr(one)


def distances(first: PackCandidate, others: Sequence[PackCandidate]) -> list[int]:
    """Return the distance of each training's hyper-parameters from the first one's.

    Numbers differ by the number of places between them among all values of the parameter here; anything else by 1.
    """
    found = [0] * len(others)
    for name in sorted({name for one in (first, *others) for name in one.params}):
        values = [one.params.get(name) for one in (first, *others)]
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            place = {value: index for index, value in enumerate(sorted(set(values)))}  # type: ignore[type-var]
            steps = [abs(place[value] - place[values[0]]) for value in values[1:]]
        else:
            steps = [int(value != values[0]) for value in values[1:]]
        found = [total + step for total, step in zip(found, steps, strict=True)]
    return found

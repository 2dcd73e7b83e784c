"""Which trainings a free worker trains together, as one pack. Pure.

A pack is work with several lanes, each a batch of its own. It begins with trainings that have the same units left, so
that they end together; a strategy chooses among them. While it trains, others of the same group may join it between two
units, wherever these are.

    plan            of the same group as the first one, in the order in which free workers would get them
    nearest         the nearest neighbours of the first one (Understanding and Optimizing Packed Neural Network
                    Training for Hyper-Parameter Tuning, section 5): the sum, over the hyper-parameters, of the distance
                    of their places among the values for numbers, and of 0 or 1 for everything else
    batch_size      with the same batch size, in that order
    random          any, drawn anew for each lease
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from asyncsearch.errors import UsageError
from asyncsearch.plan.base_plan import Batch
from asyncsearch.plan.pack_curves import curve_of, units_alone
from asyncsearch.randomness import below, generator
from asyncsearch.trainers.pack_probe import FIRST_COUNTS, WARM_UP, fastest, is_rising, is_worth_timing
from asyncsearch.trial import Params

MAX_LANES = 1024
"""The most trainings that one worker may get together."""


class PackCandidate(msgspec.Struct, frozen=True):
    """A training that may be packed."""

    batch: Batch
    params: Params
    """Hyper-parameters of its first stage."""
    group: str
    """Trainings of one group are alike: their models have one structure."""

    @property
    def interval(self) -> tuple[int, int]:
        """The units that it trains: from, to."""
        return self.batch.stages[0].start, self.batch.stages[-1].stop


class PackChoice(msgspec.Struct, frozen=True):
    """What a strategy chooses from."""

    first: PackCandidate
    """The training that the worker gets in any case."""
    others: Sequence[PackCandidate]
    """Those with its units left that may begin now, in the order in which free workers would get them."""
    count: int
    """How many of them are wanted, at most."""
    draw: int = 0
    """Number of the draw, for strategies that draw."""


class KnownPacks(msgspec.Struct):
    """What is known of packs of one structure: facts that runners have told."""

    seconds: dict[int, float] = {}
    """Trainings together -> seconds of a unit of all of them."""
    device: str = ""
    """Where that was measured."""
    timed_by: str = ""
    """Name of the study that has measured it before this one; empty: this one did."""
    memory: int | None = None
    """How many have memory enough together, as those have shown that had not; None: not known."""
    fits: int | None = None
    """How many have memory enough together, as predicted from what one and two took; None: not known."""
    refusal: str = ""
    """Why they train one after another, and the line to change; empty: nobody has said so."""
    units: dict[int, int] = {}
    """Lanes of a pack -> units that its lanes have trained."""

    def note(self, seconds: Sequence[tuple[int, float]]) -> None:
        """Take in measured times; the least of each counts, since whatever else happens only adds to it."""
        for count, spent in seconds:
            self.seconds[count] = min(spent, self.seconds.get(count, spent))

    @property
    def best(self) -> int:
        """The number with the highest throughput; of two that hardly differ the smaller one. 1: nothing is known."""
        return fastest(self.seconds)

    @property
    def saved_s(self) -> float | None:
        """About how many seconds packs have saved, by the measured times; None: nothing was measured."""
        if not self.units or 1 not in self.seconds:
            return None
        each_s = {count: spent / count for count, spent in self.seconds.items()}
        return sum(
            units * (each_s[1] - min(spent for count, spent in each_s.items() if count <= lanes))
            for lanes, units in self.units.items()
        )

    def alone_s(self, pack_s: float, lanes: int) -> float:
        """Return about how long one of so many lanes would take alone, in what a pack of them takes ``pack_s``.

        Where nothing was measured, a pack is taken to gain nothing, so the time is its lane's share. One with more
        lanes than were measured trains in groups of the best number.
        """
        curve = {} if self.refusal else curve_of(self.seconds)
        whole, rest = divmod(lanes, self.best) if curve and lanes > max(curve) else (0, lanes)
        return pack_s / (whole * units_alone(curve, self.best) + (units_alone(curve, rest) if rest else 0.0))

    def most(self, packing: Packing, units_left: float = math.inf) -> int:
        """Return how many may train together next; ``units_left``: for the worker, of which timing may cost a share."""
        limits = [packing.limit if not packing.is_measured else self._most_measured(packing.limit, units_left)]
        limits += [most for most in (self.memory, self.fits) if most is not None]
        limits += [1] if self.refusal else []
        return max(1, min(limits))

    def _most_measured(self, limit: int, units_left: float) -> int:
        """Return enough to time twice the most, and the best number, while throughput rises; then the best number."""
        if not self.seconds:
            return min(limit, sum(FIRST_COUNTS) + WARM_UP)
        if not is_worth_timing(self.seconds, 2 * max(self.seconds), units_left):
            return self.best
        return max(self.best, min(limit, self.best + 2 * max(self.seconds)))

    def to_measure(self, packing: Packing, lanes: int) -> tuple[int, ...]:
        """Return how many lanes of a pack are to be timed together in its first unit, in turns; empty: none.

        Of more lanes than twice the most that were timed, the best number is timed again beside them, so that the pack
        goes on in groups of the faster one.
        """
        if not packing.is_measured or self.refusal or lanes < 2:
            return ()
        if not self.seconds:
            counts = [count for count in FIRST_COUNTS if sum(FIRST_COUNTS[: FIRST_COUNTS.index(count) + 1]) <= lanes]
            return tuple(counts)
        most = max(self.seconds)
        if lanes <= most or not is_rising(self.seconds):
            return ()
        return (lanes,) if lanes <= 2 * most else (min(lanes - self.best, 2 * most), self.best)


PackStrategy = Callable[[PackChoice], list[PackCandidate]]
"""Chooses at most ``count`` of the others; a pure function."""


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


class Packing(msgspec.Struct, frozen=True):
    """How a study packs.

    Raises:
        UsageError: the limit is no integer from 1 to ``MAX_LANES``, or the strategy is not known.
    """

    limit: int
    """How many trainings a worker gets together, at most; 1: each alone."""
    strategy: str = "plan"
    """A name in ``PACK_STRATEGIES``."""
    group: Callable[[Params], str] = msgspec.field(default_factory=lambda: group_of)
    """Returns the group of a training from the values of its hyper-parameters; must be a pure function."""
    is_measured: bool = False
    """Whether ``limit`` is a bound only, and measured times say how many."""
    takes_joiners: bool = True
    """Whether trainings may join a pack that trains already."""

    def __post_init__(self) -> None:
        if not _is_limit(self.limit):
            raise UsageError(
                f"pack={self.limit!r} is not a number of trainings: write an integer from 1 to {MAX_LANES}, as in "
                "pack=8, or pack='auto', which measures how many, or leave it out, so that each trains alone."
            )
        _require_strategy(self.strategy)


def _require_strategy(name: object) -> None:
    if not isinstance(name, str) or name not in PACK_STRATEGIES:
        raise UsageError(f"pack_opt={name!r} is not known: write one of {', '.join(map(repr, PACK_STRATEGIES))}.")


def _is_limit(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_LANES


def packing_for(pack: int | str | None, strategy: str) -> Packing | None:
    """Return how a study packs: so many trainings, or as many as train fastest, ``"auto"``; None: not at all.

    Raises:
        UsageError: one of both is not known, or a strategy is given and nothing is packed.
    """
    _require_strategy(strategy)
    if pack is None:
        if strategy != "plan":
            raise UsageError(
                f"pack_opt={strategy!r} says which trials to pack, and without pack= none are: write pack=8, too, or "
                "pack='auto'."
            )
        return None
    if isinstance(pack, str) and pack != "auto":
        raise UsageError(f"pack={pack!r}: write a number of trials, as in pack=8, or 'auto', which measures how many.")
    return Packing(MAX_LANES, strategy, is_measured=True) if isinstance(pack, str) else Packing(pack, strategy)


def mates(packing: Packing, choice: PackChoice) -> list[Batch]:
    """Return the batches that train together with the first one; ``others`` may have other units left."""
    alike = tuple(other for other in choice.others if may_join(choice.first, other))
    chosen = PACK_STRATEGIES[packing.strategy](msgspec.structs.replace(choice, others=alike))
    return [candidate.batch for candidate in chosen]


def joiners(packing: Packing, choice: PackChoice) -> list[Batch]:
    """Return the batches that join a running pack; ``first`` is of the pack, and the others' units may differ."""
    alike = tuple(other for other in choice.others if other.group == choice.first.group and may_join(other, other))
    chosen = PACK_STRATEGIES[packing.strategy](msgspec.structs.replace(choice, others=alike))
    return [candidate.batch for candidate in chosen]


def may_join(first: PackCandidate, other: PackCandidate) -> bool:
    """Return whether two trainings have the same units left, of which there must be at least one."""
    return first.interval == other.interval and first.interval[0] < first.interval[1]


def group_of(params: Mapping[str, Any]) -> str:
    """Return the group of a training whose trainable names none: the values that are neither floats nor sequences.

    A number with a fraction, such as a learning rate, may differ between members of a pack. Anything else, such as a
    width, may decide how the model is built.
    """
    return json.dumps({name: value for name, value in params.items() if not _may_differ(value)}, sort_keys=True)


def _may_differ(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, Mapping) and "sequence" in value)


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

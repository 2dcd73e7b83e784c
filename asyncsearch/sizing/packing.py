"""Which trainings a free worker trains together, as one pack. Pure.

A pack is work with several lanes, each a batch of its own. It begins with trainings that have the same units left, so
that they end together; a strategy of ``sizing.pack_strategies`` chooses among them. While it trains, others of the same
group may join it between two units, wherever these are. A group is the trainings that are alike enough for one
computation, told by the values of their hyper-parameters.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from asyncsearch.errors import UsageError
from asyncsearch.plan.base_plan import Batch
from asyncsearch.sizing.pack_probe import (
    FIRST_COUNTS,
    MANY_UNITS,
    SHORT_FIRST,
    WARM_UP,
    curve_of,
    fastest,
    group_size,
    is_worth_timing,
    units_alone,
)
from asyncsearch.sizing.pack_strategies import (
    PackCandidate,
    PackChoice,
    PackStrategy,
    choose,
    require_strategy,
    strategy_name,
)

Grouping = Callable[[Mapping[str, Any]], str]
"""Returns the group of a training from its values; a pure function."""


def group_of(params: Mapping[str, Any]) -> str:
    """Return the group of a training whose trainable names nothing: the values that are neither floats nor sequences.

    A number with a fraction, such as a learning rate, may differ between members of a pack. Anything else, such as a
    width, may decide how the model is built.
    """
    return _text({name: value for name, value in params.items() if not _may_differ(value)})


class GroupBy(msgspec.Struct, frozen=True):
    """Tells groups by the values of some hyper-parameters only."""

    names: tuple[str, ...]

    def __call__(self, params: Mapping[str, Any]) -> str:
        return _text({name: params.get(name) for name in self.names})


def grouping_by(names: Sequence[str] | None) -> Grouping:
    """Return the function that tells groups by these hyper-parameters; None for all others."""
    return group_of if names is None else GroupBy(tuple(names))


def _text(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)


def _may_differ(value: object) -> bool:
    return isinstance(value, float) or (isinstance(value, Mapping) and "sequence" in value)


MAX_LANES = 1024
"""The most trainings that one worker may get together."""
_SHORTEST_S, _LONGEST_S = 1e-9, 1e9
"""Of a unit: times beyond are no measures, and their sums and parts would be 0, infinite or NaN."""


class KnownPacks(msgspec.Struct):
    """The facts about packs of one structure, as runners have told them."""

    seconds: dict[int, float] = {}
    """Trainings together -> seconds of a unit of all of them."""
    device: str = ""
    """Where that was measured."""
    timed_by: str = ""
    """Name of the study that has measured it before this one; empty if this one did."""
    memory: int | None = None
    """How many have memory enough together, as those have shown that had not; None if not known."""
    fits: int | None = None
    """How many have memory enough together, as predicted from what one and two took; None if not known."""
    refusal: str = ""
    """Why they train one after another, and the line to change; empty if nobody has said so."""
    sequential: str = msgspec.field(default="", name="in_turn")  # so snapshots name it
    """Why some of a pack step one after another, and the line to change; empty if nobody has said so."""
    units: dict[int, int] = {}
    """Lanes of a pack -> units that its lanes have trained."""
    observed: dict[int, tuple[float, int]] = {}
    """Trainings together -> seconds that units took, and how many units these were, without the first of each lease."""

    def note(self, seconds: Sequence[tuple[int, float]]) -> None:
        """Take in measured times; the least of each counts, since whatever else happens only adds to it."""
        for count, spent in seconds:
            if 1 <= count <= MAX_LANES and _SHORTEST_S <= spent <= _LONGEST_S:
                self.seconds[count] = min(spent, self.seconds.get(count, spent))

    @property
    def best(self) -> int:
        """The number with the highest throughput; of two that hardly differ the smaller one. 1 if nothing is known."""
        return fastest(self.seconds)

    @property
    def has_been_packed(self) -> bool:
        """Whether this study has packed some, or has tried to."""
        is_known = bool(self.seconds or self.refusal or self.device or self.memory or self.fits)
        return bool(self.units) or (is_known and not self.timed_by)

    def observe(self, lanes: int, unit_s: float, units: int) -> None:
        """Take in how long units of one training took beside others; 1 for alone."""
        seconds, count = self.observed.get(lanes, (0.0, 0))
        self.observed[lanes] = seconds + unit_s * units, count + units

    @property
    def saved_s(self) -> float | None:
        """About how many seconds packs have saved, as was timed or else observed; None if nothing tells it."""
        if not self.units:
            return None
        return self._saved_as_observed if 1 not in self.seconds else self._saved_as_timed

    @property
    def _saved_as_observed(self) -> float | None:
        """By units that one trained alone, whatever was the reason; first units count as the others did."""
        packed = {lanes: found for lanes, found in self.observed.items() if lanes > 1}
        count = sum(units for _, units in packed.values())
        if 1 not in self.observed or not count:
            return None
        alone_s = self.observed[1][0] / self.observed[1][1]
        spent_s = sum(seconds / lanes for lanes, (seconds, _) in packed.items())
        return (alone_s - spent_s / count) * sum(self.units.values())

    @property
    def _saved_as_timed(self) -> float:
        each_s = {count: spent / count for count, spent in self.seconds.items()}
        return sum(
            units * (each_s[1] - min(spent for count, spent in each_s.items() if count <= lanes))
            for lanes, units in self.units.items()
        )

    def alone_s(self, pack_s: float, lanes: int) -> float:
        """Return about how long one of so many lanes would take alone, in what a pack of them takes ``pack_s``.

        Where nothing was measured, a pack is taken to gain nothing, so the time is its lane's share.
        """
        curve = {} if self.refusal else curve_of(self.seconds)
        together = group_size(self.seconds, lanes) if curve else lanes
        whole, rest = divmod(lanes, together)
        return pack_s / (whole * units_alone(curve, together) + (units_alone(curve, rest) if rest else 0.0))

    def most_measured(self, limit: int, units_left: float) -> int:
        """Return enough to time twice the most, and the best number, while throughput rises; then the best number."""
        if not self.seconds:
            return min(limit, SHORT_FIRST if units_left < MANY_UNITS else sum(FIRST_COUNTS) + WARM_UP)
        if not is_worth_timing(self.seconds, 2 * max(self.seconds), units_left):
            return self.best
        return max(self.best, min(limit, self.best + 2 * max(self.seconds)))

    def most_joined(self, most: int) -> int:
        """Return how many lanes a running pack is filled up to: the best number, or twice the most that were timed.

        ``most``: that a new pack may have, which is more than the best number where a larger one is worth timing.
        """
        return max(self.best, min(most, 2 * max(self.seconds))) if self.seconds and most > self.best else self.best

    def to_measure(self, packing: Packing, lanes: int, units_left: float = math.inf) -> tuple[int, ...]:
        """Return how many lanes of a pack are to be timed together in its first unit, in turns; empty for none.

        Of more lanes than twice the most that were timed, the best number is timed again beside them, so that the pack
        goes on in groups of the faster one. A pack that has timed its lanes times the next number when it has grown.
        """
        if not packing.is_measured or self.refusal or lanes < 2:
            return ()
        if not self.seconds and lanes > 2 and units_left < MANY_UNITS:
            return 1, lanes - 1
        if not self.seconds:
            counts = [count for count in FIRST_COUNTS if sum(FIRST_COUNTS[: FIRST_COUNTS.index(count) + 1]) <= lanes]
            return tuple(counts)
        most = max(self.seconds)
        if not is_worth_timing(self.seconds, 2 * most, units_left):
            return ()
        return (lanes,) if lanes <= 2 * most else (min(lanes - self.best, 2 * most), self.best)


class Packing(msgspec.Struct, frozen=True):
    """How a study packs.

    Raises:
        UsageError: the limit is no integer from 1 to ``MAX_LANES``, or the strategy is not known.
    """

    limit: int
    """How many trainings a worker gets together, at most; 1 for each alone."""
    strategy: str | PackStrategy = "plan"
    """A name in ``PACK_STRATEGIES``, or one of the user's own."""
    group: Grouping = msgspec.field(default_factory=lambda: group_of)
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
        require_strategy(self.strategy)


def _is_limit(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_LANES


def packing_for(
    pack: int | str | None, strategy: str | PackStrategy, names: Sequence[str] | None = None
) -> Packing | None:
    """Return how a study packs: so many trainings, or as many as train fastest, ``"auto"``; None if it does not.

    ``names``: of the hyper-parameters that tell which trainings are alike; None for all but floats and sequences.

    Raises:
        UsageError: one of both is not known, or a strategy is given and nothing is packed.
    """
    require_strategy(strategy)
    if pack is None:
        if strategy != "plan":
            shown = repr(strategy) if isinstance(strategy, str) else strategy_name(strategy)
            raise UsageError(
                f"pack_opt={shown} says which trials to pack, and without pack= none are: write pack=8, too, or "
                "pack='auto'."
            )
        return None
    if isinstance(pack, str) and pack != "auto":
        raise UsageError(f"pack={pack!r}: write a number of trials, as in pack=8, or 'auto', which measures how many.")
    is_measured, group = isinstance(pack, str), grouping_by(names)
    return Packing(MAX_LANES if isinstance(pack, str) else pack, strategy, group, is_measured)


def mates(packing: Packing, choice: PackChoice) -> list[Batch]:
    """Return the batches that train together with the first one; ``others`` may have other units left.

    Raises:
        UsageError: a strategy of the user's own failed; see ``choose``.
    """
    alike = tuple(other for other in choice.others if may_join(choice.first, other))
    chosen = choose(packing.strategy, msgspec.structs.replace(choice, others=alike))
    return [candidate.batch for candidate in chosen]


def joiners(packing: Packing, choice: PackChoice) -> list[Batch]:
    """Return the batches that join a running pack; ``first`` is of the pack, and the others' units may differ.

    Raises:
        UsageError: a strategy of the user's own failed; see ``choose``.
    """
    alike = tuple(other for other in choice.others if other.group == choice.first.group and may_join(other, other))
    chosen = choose(packing.strategy, msgspec.structs.replace(choice, others=alike))
    return [candidate.batch for candidate in chosen]


def may_join(first: PackCandidate, other: PackCandidate) -> bool:
    """Return whether two trainings have the same units left, of which there must be at least one."""
    return first.interval == other.interval and first.interval[0] < first.interval[1]

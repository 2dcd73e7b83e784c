"""Sequences made of sequences: ``warmup`` and ``chain``."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from asyncsearch.errors import SpaceError
from asyncsearch.sequences import parsing
from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.formulas import Piece, between
from asyncsearch.sequences.templates import Undecided
from asyncsearch.values.json_values import a_type, show


@dataclass(frozen=True, repr=False)
class Warmup(Sequence):
    """A line up to the first value of another sequence, then that sequence."""

    kind = "warmup"
    positional = 2

    duration: Annotated[Any, parsing.units_or_zero]
    then: Annotated[Any, parsing.sequence]
    start: Annotated[Any, parsing.number] = 0.0

    def pieces_from(self, origin: int) -> Iterator[Piece]:
        end = origin + self.duration
        if self.duration:
            yield Piece(origin, between(origin, self.start, end, self._goal(end)))
        yield from self.then.pieces_from(end)

    def span(self) -> int:
        return int(self.duration + self.then.span())

    def _goal(self, end: int) -> float:
        goal = self.then.first_value(end)
        if isinstance(goal, bool) or not isinstance(goal, int | float):
            raise SpaceError(
                f"warmup(then=...): {show(self.then)} begins with {show(goal)}, {a_type(goal)}: only numbers can be "
                "warmed up to; chain([...], boundaries=[...]) joins everything else."
            )
        return float(goal)


@dataclass(frozen=True, repr=False)
class Chain(Sequence):
    """Sequences one after the other."""

    kind = "chain"
    parts: Annotated[Any, parsing.items(parsing.sequence, "sequences")]
    boundaries: Annotated[Any, parsing.times]

    def _check(self) -> None:
        if isinstance(self.parts, Undecided) or isinstance(self.boundaries, Undecided):
            return
        if len(self.parts) != len(self.boundaries) + 1:
            raise SpaceError(
                f"{self!r} has {len(self.parts)} parts and {len(self.boundaries)} boundaries: write one part more than "
                "boundaries, the first one holds from the beginning."
            )

    def pieces_from(self, origin: int) -> Iterator[Piece]:
        starts = (0, *self.boundaries)
        stops = (*self.boundaries, None)
        for part, start, stop in zip(self.parts, starts, stops, strict=True):
            if stop is None:
                yield from part.pieces_from(max(start, origin))
            elif stop > origin:
                pieces = part.pieces_from(max(start, origin))
                yield from itertools.takewhile(lambda piece, stop=stop: piece.start < stop, pieces)  # type: ignore[misc]

    def span(self) -> int:
        last = int(self.boundaries[-1]) if self.boundaries else 0
        return int(last + self.parts[-1].span())


def warmup(duration: int | Undecided, then: Any, start: float | Undecided = 0.0) -> Warmup:
    """Return a line from ``start`` to the first value of ``then`` in ``duration`` units, then ``then``.

    The line has a value at each moment. Where values are read once a unit, the first unit is trained with
    ``start``: write ``start=value / duration`` if 0 is not wanted there.

    Args:
        duration: Units, from 0 (no warm-up) on.
        then: A sequence, or a number that stays. Its phase begins after the warm-up; its milestones are absolute:
            a warm-up does not move them.
        start: The number at the beginning.

    Raises:
        SpaceError: an argument is malformed, or ``then`` does not begin with a number.
    """
    return Warmup(duration, then, start)


def chain(parts: Iterable[Any], boundaries: Iterable[int | Undecided] | Undecided) -> Chain:
    """Return sequences one after the other, each from its boundary on.

    Args:
        parts: Sequences or constants, one more than boundaries. The phase of each begins at its boundary; milestones
            inside it are absolute, so those before the boundary have passed.
        boundaries: Units of training, whole, from 1 on, ascending; absolute times of the trial.

    Raises:
        SpaceError: the arguments are malformed, or their numbers do not fit.
    """
    return Chain(parts, boundaries)

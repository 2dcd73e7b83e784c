"""The base of sequences that change at regular times without end.

Their first ``MAX_PIECES`` pieces are separate, so they are shared with any equal pieces; the rest is one piece, shared
with the same sequence only. So the path of a trial without end is finite.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import dataclass

from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.formulas import Formula, Piece, Rest, text_of

MAX_PIECES = 256


@dataclass(frozen=True, repr=False)
class Periodic(Sequence):
    """A sequence of endlessly many pieces, each found by its number."""

    @abc.abstractmethod
    def index(self, time: float, origin: int) -> int:
        """Return the number of the piece that holds at a time."""

    @abc.abstractmethod
    def nth(self, index: int, origin: int) -> Piece:
        """Return a piece by its number; it may start before ``origin``."""

    def stays(self) -> bool:
        """Return whether it never changes."""
        return False

    def pieces_from(self, origin: int) -> Iterator[Piece]:
        first = self.index(origin, origin)
        stop = first + (1 if self.stays() else MAX_PIECES)
        for number in range(first, stop):
            start, formula = self.nth(number, origin)
            yield Piece(max(start, origin), formula)
        if not self.stays():
            yield Piece(self.nth(stop, origin).start, Rest(text_of(self.to_json()), origin, _Finder(self, origin)))


@dataclass(frozen=True)
class _Finder:
    sequence: Periodic
    origin: int

    def __call__(self, time: float) -> Formula:
        return self.sequence.nth(self.sequence.index(time, self.origin), self.origin).formula

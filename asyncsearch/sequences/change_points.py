"""The segments of a configuration: intervals in which none of its hyper-parameters changes its piece.

Two configurations share their first equal segments, and nothing else: a segment begins only where a piece begins, never
where work happens to be cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.decoding import replaced
from asyncsearch.sequences.formulas import Const, Piece, text_of


def segments(params: Mapping[str, Any], until: int) -> Iterator[tuple[int, str]]:
    """Yield (start, canonical text of all hyper-parameters from there on), ascending from 0, all below ``until``.

    Where a piece is constant the text is that of the constant: a constant sequence is the same as its bare value.

    Raises:
        SpaceError: a sequence is malformed.
    """
    tracks: list[_Track] = []

    def add_track(sequence: Sequence) -> _Track:
        tracks.append(_Track(sequence))
        return tracks[-1]

    tracked = replaced(params, add_track)
    start: int | None = 0
    while start is not None and start < until:
        for track in tracks:
            track.advance(start)
        yield start, text_of(tracked, _Track.current)
        start = min((track.next.start for track in tracks if track.next is not None), default=None)


class _Track:
    """The piece of one sequence that holds now, and the next one."""

    def __init__(self, sequence: Sequence) -> None:
        self._pieces = sequence.merged()
        self.now: Piece = next(self._pieces)
        self.next: Piece | None = next(self._pieces, None)

    def advance(self, time: int) -> None:
        while self.next is not None and self.next.start <= time:
            self.now, self.next = self.next, next(self._pieces, None)

    def current(self) -> Any:
        formula = self.now.formula
        # The text of a formula is not the kind of any sequence, so the two cannot be confused.
        return formula.value if isinstance(formula, Const) else {"sequence": formula.text}

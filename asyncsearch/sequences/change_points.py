"""The course of a configuration: at which moments which of its hyper-parameters change their pieces.

What two configurations have in common is the beginning of their courses, and nothing else: a course begins a new
step only where a piece begins, never where work happens to be cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.decoding import replaced
from asyncsearch.sequences.formulas import Const, Piece, text_of


def course(params: Mapping[str, Any], until: int) -> Iterator[tuple[int, str]]:
    """Yield (start, canonical text of all hyper-parameters from there on), ascending from 0, all below ``until``.

    Where a piece is constant the text is that of the constant: a constant sequence is the same as its bare value.

    Raises:
        SpaceError: a sequence is malformed.
    """
    tracks: list[_Track] = []

    def follow(sequence: Sequence) -> _Track:
        tracks.append(_Track(sequence))
        return tracks[-1]

    followed = replaced(params, follow)
    start: int | None = 0
    while start is not None and start < until:
        for track in tracks:
            track.go(start)
        yield start, text_of(_shown(followed))
        start = min((track.next.start for track in tracks if track.next is not None), default=None)


class _Track:
    """The piece of one sequence that holds now, and the next one."""

    def __init__(self, sequence: Sequence) -> None:
        self._pieces = sequence.merged()
        self.now: Piece = next(self._pieces)
        self.next: Piece | None = next(self._pieces, None)

    def go(self, time: int) -> None:
        while self.next is not None and self.next.start <= time:
            self.now, self.next = self.next, next(self._pieces, None)

    def shown(self) -> Any:
        formula = self.now.formula
        # A text in this place is no sequence of the user's: those have their tags only.
        return formula.value if isinstance(formula, Const) else {"sequence": formula.text}


def _shown(value: Any) -> Any:
    if isinstance(value, _Track):
        return value.shown()
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_shown(item) for item in value]
    return value

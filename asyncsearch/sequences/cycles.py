"""Sequences that change at regular times without end: their base, ``cosine_restarts`` and ``cyclic``.

Each wave and each side of a triangle is a piece of its own: until its first restart, a cosine with restarts is the
cosine without, and until its second triangle each mode of ``cyclic`` is the others.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from asyncsearch.sequences import parsing
from asyncsearch.sequences.base_sequence import Sequence
from asyncsearch.sequences.curves import wave
from asyncsearch.sequences.formulas import Const, Formula, Piece, Rest, ShrinkingTriangle, fraction, line, text_of
from asyncsearch.sequences.templates import Undecided

MAX_PIECES = 256


@dataclass(frozen=True, repr=False)
class Periodic(Sequence):
    """A sequence of endlessly many pieces, each found by its number.

    Its first ``MAX_PIECES`` pieces are separate, so they are shared with any equal pieces; the rest is one piece, which
    is shared with the same sequence only. So the path of a trial without end is finite.
    """

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


Mode = Literal["triangular", "triangular2", "exp_range"]
"""The height of the triangles: stays, is halved each time, or is multiplied by ``gamma`` in each unit."""


@dataclass(frozen=True, repr=False)
class CosineRestarts(Periodic):
    """Cosine waves, each from ``value`` to ``eta_min`` and ``T_mult`` times as long as the one before (SGDR)."""

    kind = "cosine_restarts"
    value: Annotated[Any, parsing.number]
    T_0: Annotated[Any, parsing.units]
    T_mult: Annotated[Any, parsing.units] = 1
    eta_min: Annotated[Any, parsing.number] = 0.0

    def index(self, time: float, origin: int) -> int:
        units = math.floor(time) - origin
        if self.T_mult == 1:
            return units // int(self.T_0)
        found = 0
        while self._begins(found + 1) <= units:
            found += 1
        return found

    def nth(self, index: int, origin: int) -> Piece:
        length = self.T_0 * self.T_mult**index
        return wave(origin + self._begins(index), self.value, self.eta_min, length)

    def stays(self) -> bool:
        return bool(self.value == self.eta_min)

    def span(self) -> int:
        return self._begins(3)

    def _begins(self, index: int) -> int:
        if self.T_mult == 1:
            return int(index * self.T_0)
        return int(self.T_0 * (self.T_mult**index - 1) // (self.T_mult - 1))


@dataclass(frozen=True, repr=False)
class Cyclic(Periodic):
    """Triangles between ``base`` and ``peak``."""

    kind = "cyclic"
    positional = 2

    base: Annotated[Any, parsing.number]
    peak: Annotated[Any, parsing.number]
    up: Annotated[Any, parsing.units]
    down: Annotated[Any, parsing.optional(parsing.units)] = None
    mode: Annotated[Any, parsing.one_of("triangular", "triangular2", "exp_range")] = "triangular"
    gamma: Annotated[Any, parsing.positive] = 1.0

    def index(self, time: float, origin: int) -> int:
        cycle, phase = divmod(math.floor(time) - origin, self.up + self._fall)
        return int(2 * cycle + (phase >= self.up))

    def nth(self, index: int, origin: int) -> Piece:
        cycle, falls = divmod(index, 2)
        start = origin + cycle * (self.up + self._fall) + falls * self.up
        low = fraction(self.base)
        high = low + (fraction(self.peak) - low) / (2**cycle if self.mode == "triangular2" else 1)
        first, last = (high, low) if falls else (low, high)
        return Piece(start, line(start, first, start + (self._fall if falls else self.up), last))

    def stays(self) -> bool:
        return bool(self.base == self.peak)

    def pieces_from(self, origin: int) -> Iterator[Piece]:
        if self.stays():
            yield Piece(origin, Const(self.base))
        elif self.mode == "exp_range" and self.gamma != 1:
            shape = ShrinkingTriangle(self.base, self.peak, self.up, self._fall, self.gamma, origin)
            yield Piece(origin, shape)
        else:
            yield from super().pieces_from(origin)

    def span(self) -> int:
        return 3 * int(self.up + self._fall)

    @property
    def _fall(self) -> int:
        return int(self.up if self.down is None else self.down)


def cosine_restarts(
    value: float | Undecided,
    T_0: int | Undecided,  # noqa: N803
    T_mult: int | Undecided = 1,  # noqa: N803
    eta_min: float | Undecided = 0.0,
) -> CosineRestarts:
    """Return cosine waves from ``value`` to ``eta_min``: of ``T_0`` units, then ``T_0 * T_mult`` and so on.

    Names and formula are those of SGDR (Loshchilov and Hutter, 2017), eq. 5.

    Raises:
        SpaceError: an argument is malformed.
    """
    return CosineRestarts(value, T_0, T_mult, eta_min)


def cyclic(
    base: float | Undecided,
    peak: float | Undecided,
    up: int | Undecided,
    down: int | Undecided | None = None,
    mode: Mode | Undecided = "triangular",
    gamma: float | Undecided = 1.0,
) -> Cyclic:
    """Return triangles: from ``base`` to ``peak`` in ``up`` units and back in ``down`` units (as many if None).

    It moves this parameter only. A momentum that cycles the other way is a parameter of its own:
    ``"momentum": cyclic(0.95, 0.85, up=20)``.

    Args:
        base: The number at the beginning, and between triangles.
        peak: The number at the top, above or below ``base``.
        up: Units from base to peak.
        down: Units from peak to base.
        mode: ``triangular``; ``triangular2`` halves the height after each triangle; ``exp_range`` multiplies it by
            ``gamma`` in each unit (Smith, 2017).
        gamma: Factor above 0, for ``exp_range``.

    Raises:
        SpaceError: an argument is malformed.
    """
    return Cyclic(base, peak, up, down, mode, gamma)

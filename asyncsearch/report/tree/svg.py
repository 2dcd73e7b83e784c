"""The few shapes that a stage tree needs, as SVG text without a library.

Rule: all text goes through ``escape``: names, parameters and errors are the user's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from asyncsearch.errors import UsageError
from asyncsearch.sequences.svg import INK, PAPER, escape

_FONT = "font-family='system-ui,-apple-system,Segoe UI,sans-serif'"


class Drawing:
    """A picture of shapes, with a title for readers that do not see it; ``save`` writes it."""

    def __init__(self, title: str, width: int, height: int, shapes: Sequence[str]) -> None:
        self.title = title
        # A white card under everything: dark ink stays readable on a dark page.
        self.svg = (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
            f"role='img' {_FONT}><title>{escape(title)}</title>"
            f"<rect width='{width}' height='{height}' rx='6' fill='{PAPER}'/>"
            f"{''.join(shapes)}</svg>"
        )

    def save(self, path: str | Path) -> Path:
        """Write the picture as an SVG file, and return its path.

        Raises:
            UsageError: the name has the ending of another format.
        """
        target = Path(path)
        if target.suffix.lower() not in ("", ".svg"):
            raise UsageError(
                f"{str(target)!r} ends with {target.suffix!r}, and a stage tree is written as SVG: "
                f"name it {str(target.with_suffix('.svg'))!r}."
            )
        target.write_text(f"{self.svg}\n", encoding="utf-8")
        return target


class Axis:
    """Maps values to pixels, and places ticks."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        if high <= low:
            pad = abs(low) * 0.05 or 0.5
            low, high = low - pad, high + pad
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        """Return round values inside the axis."""
        raw = (self.high - self.low) / about
        magnitude = 10.0 ** math.floor(math.log10(raw))
        step = next(magnitude * factor for factor in (1, 2, 5, 10) if magnitude * factor >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [round(index * step, 12) for index in range(first, math.floor(self.high / step + 1e-9) + 1)]


def text(
    x: float, y: float, words: str, *, size: int = 11, weight: int = 400, fill: str = INK, at: str = "start"
) -> str:
    """Return a text; ``at`` is the part of it that is placed at x: start, middle or end."""
    style = f"font-size='{size}' font-weight='{weight}' fill='{fill}' text-anchor='{at}'"
    return f"<text x='{x:.1f}' y='{y:.1f}' {style}>{escape(words)}</text>"


def line(points: Sequence[tuple[float, float]], colour: str, *, width: float = 1.0, opacity: float = 1.0) -> str:
    """Return a line through points."""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    style = f"fill='none' stroke='{colour}' stroke-width='{width}' stroke-opacity='{opacity}' stroke-linejoin='round'"
    return f"<polyline points='{path}' {style}/>"


def dot(x: float, y: float, colour: str, tip: str, *, radius: float = 3.0, is_hollow: bool = False) -> str:
    """Return a point with a tool tip."""
    fill = f"fill='{PAPER}' stroke='{colour}'" if is_hollow else f"fill='{colour}' fill-opacity='0.75'"
    return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius}' {fill}><title>{escape(tip)}</title></circle>"

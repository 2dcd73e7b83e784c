"""The few shapes that plots need, as SVG text without a library.

Rule: all text goes through ``escape``: names, parameters and errors are the user's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

INK, FAINT, GRID, CARD = "#24292f", "#6e7781", "#e4e7eb", "#ffffff"
_FONT = "font-family='system-ui,-apple-system,Segoe UI,sans-serif'"


class Plot:
    """A picture: shown by notebooks, saved by ``save``."""

    def __init__(self, title: str, width: int, height: int, shapes: Sequence[str]) -> None:
        self.title = title
        # A white card under everything: dark ink stays readable on a dark page.
        self.svg = (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' "
            f"role='img' {_FONT}><title>{escape(title)}</title>"
            f"<rect width='{width}' height='{height}' rx='6' fill='{CARD}'/>"
            f"{text(20, 26, title, size=15, weight=600)}{''.join(shapes)}</svg>"
        )

    def save(self, path: str | Path) -> Path:
        """Write the picture as an SVG file, and return its path."""
        target = Path(path)
        target.write_text(f"{self.svg}\n", encoding="utf-8")
        return target

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Plot {self.title!r}; .save('plot.svg') writes it>"


class Axis:
    """Maps values to pixels, linearly or by logarithm, and places ticks."""

    def __init__(self, low: float, high: float, start: float, end: float, *, is_log: bool = False) -> None:
        if high <= low:
            pad = abs(low) * 0.05 or 0.5
            low, high, is_log = low - pad, high + pad, False
        self.low, self.high, self.start, self.end, self.is_log = low, high, start, end, is_log

    def __call__(self, value: float) -> float:
        if self.is_log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self, about: int = 5) -> list[float]:
        """Return round values inside the axis."""
        if self.is_log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            if last > first:
                return [10.0**power for power in range(first, last + 1)]
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
    fill = f"fill='{CARD}' stroke='{colour}'" if is_hollow else f"fill='{colour}' fill-opacity='0.75'"
    return f"<circle cx='{x:.1f}' cy='{y:.1f}' r='{radius}' {fill}><title>{escape(tip)}</title></circle>"


def frame(x: Axis, y: Axis, x_label: str, y_label: str, x_ticks: Sequence[tuple[float, str]]) -> str:
    """Return grid, ticks and labels of a panel whose y axis runs upwards."""
    shapes = []
    for value in y.ticks():
        shapes.append(line([(x.start, y(value)), (x.end, y(value))], GRID))
        shapes.append(text(x.start - 8, y(value) + 4, f"{value:g}", fill=FAINT, at="end"))
    shapes.append(line([(x.start, y.start), (x.end, y.start)], FAINT))
    for value, words in x_ticks:
        shapes.append(line([(x(value), y.start), (x(value), y.start + 4)], FAINT))
        shapes.append(text(x(value), y.start + 17, words, fill=FAINT, at="middle"))
    shapes.append(text((x.start + x.end) / 2, y.start + 36, x_label, at="middle"))
    shapes.append(text(x.start - 8, y.end - 10, y_label))
    return "".join(shapes)

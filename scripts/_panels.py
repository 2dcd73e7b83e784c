"""Panels of curves side by side, drawn with the library's own SVG helpers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asyncsearch.report.plots.svg import Axis, Plot, dot, frame, line, text

WIDTH, HEIGHT, GAP, TOP, BOTTOM, LEFT = 250, 190, 70, 92, 50, 60
Point = tuple[float, float, float]
"""x, mean of y, standard deviation of y."""


@dataclass(frozen=True)
class Curve:
    """One line of a panel, with filled or hollow points."""

    label: str
    colour: str
    points: Sequence[Point]
    is_hollow: bool = False


@dataclass(frozen=True)
class Panel:
    """Curves on one pair of axes."""

    title: str
    curves: Sequence[Curve]


def draw(
    title: str,
    panels: Sequence[Panel],
    path: Path,
    *,
    x: str,
    y: str,
    width: int = WIDTH,
    x_log: bool = False,
    y_log: bool = False,
) -> None:
    """Write panels with common axes as one SVG, with a legend on top."""
    points = [point for panel in panels for curve in panel.curves for point in curve.points]
    xs = sorted({point[0] for point in points})
    low = min(mean for _, mean, _ in points) / 1.3 if y_log else 0.0
    high = max(mean if y_log else mean + sd for _, mean, sd in points) * (1.3 if y_log else 1.05)
    shapes, right = [_legend(panels[0])], LEFT
    for panel in panels:
        across = Axis(xs[0], xs[-1], right, right + width, is_log=x_log)
        up = Axis(low, high, TOP + HEIGHT, TOP, is_log=y_log)
        ticks = [(value, f"{value:g}") for value in xs]
        shapes.append(frame(across, up, x, y if panel is panels[0] else "", ticks))
        shapes.append(text(right + width / 2, TOP - 10, panel.title, at="middle", weight=600))
        shapes += [_curve(across, up, curve) for curve in panel.curves if curve.points]
        right += width + GAP
    Plot(title, right - GAP + 25, TOP + HEIGHT + BOTTOM, shapes).save(path)


def _curve(across: Axis, up: Axis, curve: Curve) -> str:
    shapes = [line([(across(x), up(mean)) for x, mean, _ in curve.points], curve.colour, width=1.8)]
    for x, mean, sd in curve.points:
        ends = [min(max(mean + way * sd, up.low), up.high) for way in (-1, 1)]
        shapes.append(line([(across(x), up(ends[0])), (across(x), up(ends[1]))], curve.colour, opacity=0.5))
        tip = f"{curve.label}: {mean:.4g} ± {sd:.2g} at {x:g}"
        shapes.append(dot(across(x), up(mean), curve.colour, tip, is_hollow=curve.is_hollow))
    return "".join(shapes)


def _legend(panel: Panel) -> str:
    shapes, right = [], float(LEFT)
    for curve in panel.curves:
        shapes.append(dot(right, 48, curve.colour, curve.label, is_hollow=curve.is_hollow))
        shapes.append(text(right + 9, 52, curve.label))
        right += 34 + 6.2 * len(curve.label)
    return "".join(shapes)

"""Panels of curves side by side, with a legend that names each curve; drawn by the library's charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from asyncsearch.report.plots.charts import load_altair, titled

alt = load_altair("The picture of a script")  # here, so that none fails for it after minutes of measuring

# Not "g": Vega shortens it to the digits that ticks at equal distances need, and 0.0025 becomes 0.003.
_NUMBER = ",.6~r"

Point = tuple[float, float, float]
"""x, mean of y, standard deviation of y."""


class Curve(NamedTuple):
    """One line of a panel: with filled points, or dashed with hollow ones."""

    label: str
    colour: str
    points: Sequence[Point]
    is_hollow: bool = False


class Panel(NamedTuple):
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
    width: int = 200,
    height: int = 260,
    x_log: bool = False,
    y_log: bool = False,
    apart: float = 0.0,
) -> None:
    """Write panels with common axes as one picture, with a legend on the right.

    ``apart``: pixels to the right from one curve to the next, so that curves of equal values are all seen.
    """
    points = [point for panel in panels for curve in panel.curves for point in curve.points]
    xs = sorted({point[0] for point in points})
    low = min(mean for _, mean, _ in points) / 1.3 if y_log else 0.0
    high = max(mean if y_log else mean + sd for _, mean, sd in points) * (1.3 if y_log else 1.05)
    pad = 10 + apart * max(len(panel.curves) for panel in panels) / 2
    across = alt.Scale(type="log" if x_log else "linear", domain=[xs[0], xs[-1]], nice=False, padding=pad)
    up = alt.Scale(type="log" if y_log else "linear", domain=[low, high], clamp=True, nice=False)
    x_axis = alt.X("x:Q", scale=across, title=x, axis=alt.Axis(values=xs, format=_NUMBER))
    drawn = []
    for panel in panels:
        label = (y or None) if panel is panels[0] else None
        y_axis = alt.Y("y:Q", scale=up, title=label, axis=alt.Axis(format=_NUMBER, **_ticks(low, high, is_log=y_log)))
        heading = alt.Title(panel.title, fontSize=11, frame="group")
        layers = _layers(panel, x_axis, y_axis, apart)
        drawn.append(layers.properties(width=width, height=height, title=heading))
    titled(alt.hconcat(*drawn, spacing=16), title).save(path)


def _ticks(low: float, high: float, *, is_log: bool) -> dict[str, Any]:
    """Return powers of ten as ticks of a logarithmic axis that has at least two of them."""
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1) if is_log else range(0)
    return {"values": [10.0**power for power in powers]} if len(powers) > 1 else {"tickCount": 6}


def _layers(panel: Panel, x: Any, y: Any, apart: float) -> Any:
    """Return for each curve its line, its bars of one standard deviation, and its points, which the legend shows."""
    names = [curve.label for curve in panel.curves]
    colours = alt.Scale(domain=names, range=[curve.colour for curve in panel.curves])
    fills = alt.Scale(domain=names, range=["white" if curve.is_hollow else curve.colour for curve in panel.curves])
    stroke, fill = (alt.Stroke("curve:N", scale=colours, title=None), alt.Fill("curve:N", scale=fills, title=None))
    layers = []
    for place, curve in enumerate(panel.curves):
        rows = [
            {"curve": curve.label, "x": at, "y": mean, "low": mean - sd, "high": mean + sd}
            for at, mean, sd in curve.points
        ]
        shift = apart * (place - (len(names) - 1) / 2)
        chart = alt.Chart(alt.Data(values=rows)).encode(x=x, y=y, stroke=stroke)
        bars = chart.mark_rule(opacity=0.5, xOffset=shift, x2Offset=shift).encode(
            y=alt.Y("low:Q", scale=y.to_dict()["scale"], title=y.to_dict()["title"]), y2="high:Q"
        )
        line = chart.mark_line(strokeWidth=1.8, xOffset=shift, strokeDash=[5, 3] if curve.is_hollow else [1, 0])
        dots = chart.mark_point(size=36, strokeWidth=1.4, opacity=1, xOffset=shift)
        layers += [bars, line, dots.encode(fill=fill, tooltip=["curve:N", "x:Q", "y:Q"])]
    return alt.layer(*layers)

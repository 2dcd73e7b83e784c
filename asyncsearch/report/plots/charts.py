"""Charts drawn by Vega-Altair: loading it, one style for all, and the picture that is shown and saved."""

from __future__ import annotations

import io
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from asyncsearch.errors import UsageError
from asyncsearch.sequences.svg import FAINT, GRID, INK, PAPER, notebook_html, plain

BLUE, ORANGE = "#2f7fd1", "#d9480f"
FORMATS = (".svg", ".png", ".html")
# Arial and Liberation Sans have the same widths: what is laid out with one is not cut where only the other is there.
_FONT = "Arial, Liberation Sans, sans-serif"
# Less than the smallest chart is wide and high: a text as long as a chart leaves the picture in a wider font.
_TITLE_LIMIT, _AXIS_TITLE_LIMIT = 680, 230
_PIXELS_PER_UNIT = 2.0


def load_altair(what: str) -> Any:
    """Import and return altair, which draws ``what``.

    Raises:
        UsageError: altair or vl-convert-python, which renders its charts, is not installed.
    """
    try:
        import_module("vl_convert")
        return import_module("altair")
    except ImportError as error:
        raise UsageError(
            f"{what} is drawn by altair and vl-convert-python, and importing them failed ({error}): "
            f"pip install 'asyncsearch[plots]'. study.tree() and study.incumbents() work without."
        ) from error


class Plot:
    """A chart: notebooks show it, ``save`` writes it, ``chart`` is the Altair chart, to change or to combine."""

    def __init__(self, title: str, chart: Any) -> None:
        self.title = title
        self.chart = chart

    @cached_property
    def svg(self) -> str:
        """The picture as SVG."""
        return str(self._rendered("svg"))

    def save(self, path: str | Path) -> Path:
        """Write the picture and return its path; the name's ending says how: .svg, .png, or .html with tool tips.

        Raises:
            UsageError: the name has another ending.
        """
        target = Path(path)
        match target.suffix.lower():
            case ".svg":
                target.write_text(f"{self.svg}\n", encoding="utf-8")
            case ".png":
                target.write_bytes(self._rendered("png", scale_factor=_PIXELS_PER_UNIT))
            case ".html":
                # Inline: a cluster's notebooks and browsers may not reach the address that Vega is loaded from.
                target.write_text(self._rendered("html", inline=True), encoding="utf-8")
            case other:
                raise UsageError(
                    f"{str(path)!r} ends with {other!r}, and a plot is written as {', '.join(FORMATS)}: "
                    f"write plot.save({str(target.with_suffix('.svg'))!r})."
                )
        return target

    def _rendered(self, form: str, **options: Any) -> Any:
        buffer: Any = io.BytesIO() if form == "png" else io.StringIO()
        self.chart.save(buffer, format=form, **options)
        return buffer.getvalue()

    def _repr_html_(self) -> str:
        return notebook_html(self.svg)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<Plot {self.title!r}; .save('plot.svg') writes it>"


def titled(chart: Any, title: str) -> Plot:
    """Return a chart in the common style as a plot with a title above it."""
    title = plain(title)
    heading = {"text": title, "anchor": "start", "fontSize": 15, "fontWeight": 600, "offset": 14, "limit": _TITLE_LIMIT}
    axis = {
        "gridColor": GRID,
        "domainColor": FAINT,
        "tickColor": FAINT,
        "labelColor": FAINT,
        "labelFontSize": 11,
        "titleColor": INK,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "titleLimit": _AXIS_TITLE_LIMIT,
        "titlePadding": 10,
    }
    styled = (
        chart.properties(title=heading, padding=20, background=PAPER)
        .configure(font=_FONT)
        .configure_view(stroke=None)
        .configure_axis(**axis)
        .configure_title(color=INK)
        .configure_legend(labelLimit=0, labelColor=INK, titleColor=INK, titleLimit=0, labelFontSize=11, symbolOpacity=1)
    )
    return Plot(title, styled)

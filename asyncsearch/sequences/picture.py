"""A small picture of a sequence, as SVG without any library. Rule: text from outside is escaped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from asyncsearch.errors import SpaceError
from asyncsearch.sequences.json_values import identity
from asyncsearch.sequences.svg import FAINT, INK, PAPER, escape, shortened, text_width

_WIDTH, _HEIGHT, _TOP, _BOTTOM = 360, 130, 30, 22
_NARROWEST_LEFT, _WIDEST_LEFT = 62, 130
_SIZE = 11
_POINTS = 240
_COLOUR = "#0969da"


def draw(title: str, at: Callable[[float], Any], until: int) -> str:
    """Return a picture of a function of time from 0 to ``until``: a curve of numbers, or levels of anything else."""
    if until < 1:
        raise SpaceError(f"until={until!r}: a picture shows at least 1 unit.")
    times = _times(until)
    values = [at(time) for time in times]
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    if numeric:
        levels = [float(value) for value in values]
        labels = {min(levels): f"{min(levels):.4g}", max(levels): f"{max(levels):.4g}"}
    else:
        names = dict.fromkeys(map(identity, values))
        places = {name: float(place) for place, name in enumerate(names)}
        levels = [places[identity(value)] for value in values]
        labels = {places[identity(value)]: str(value) for value in values}
    return _svg(title, times, levels, labels, until)


def _times(until: int) -> list[float]:
    """Return moments whose values show each jump: both sides of the beginnings of units, where these are few."""
    if until > _POINTS:
        return [until * place / _POINTS for place in range(_POINTS + 1)]
    parts = max(2, _POINTS // until)
    inside = [place / parts for place in range(parts)] + [1 - 1e-6]
    return [unit + part for unit in range(until) for part in inside]


def _svg(title: str, times: list[float], levels: list[float], labels: dict[float, str], until: int) -> str:
    low, high = min(levels), max(levels)
    widest = max(text_width(words, _SIZE) for words in labels.values())
    left = min(max(widest + 10, _NARROWEST_LEFT), _WIDEST_LEFT)

    def x(time: float) -> float:
        return left + (_WIDTH - left - 14) * time / until

    def y(level: float) -> float:
        share = 0.5 if low == high else level / (high - low) - low / (high - low)
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM - 6) * share

    points = " ".join(f"{x(time):.1f},{y(level):.1f}" for time, level in zip(times, levels, strict=True))
    beside = {level: shortened(words, left - 10, _SIZE) for level, words in labels.items()}
    bottom = _HEIGHT - _BOTTOM + 3
    shapes = [
        _text(10, 18, shortened(title, _WIDTH - 20, _SIZE), INK, "start"),
        f"<line x1='{left:.1f}' y1='{bottom}' x2='{_WIDTH - 14}' y2='{bottom}' stroke='{FAINT}'/>",
        _text(left, _HEIGHT - 5, "0", FAINT, "middle"),
        _text(_WIDTH - 14, _HEIGHT - 5, str(until), FAINT, "end"),
        *(_text(left - 6, y(level) + 4, words, FAINT, "end") for level, words in beside.items()),
        f"<polyline points='{points}' fill='none' stroke='{_COLOUR}' stroke-width='1.6' stroke-linejoin='round'/>",
    ]
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {_HEIGHT}' width='{_WIDTH}' height='{_HEIGHT}' "
        f"role='img' font-family='system-ui,sans-serif'><title>{escape(title)}</title>"
        f"<rect width='{_WIDTH}' height='{_HEIGHT}' rx='6' fill='{PAPER}'/>{''.join(shapes)}</svg>"
    )


def _text(x: float, y: float, words: str, fill: str, anchor: str) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' font-size='{_SIZE}' fill='{fill}' text-anchor='{anchor}'>{escape(words)}</text>"
    )

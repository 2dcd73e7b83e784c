"""Pictures as SVG without any library: text in them and its width, their width in a notebook, and that of a sequence.

Rule: all text from outside goes through ``escape``.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from asyncsearch.errors import SpaceError
from asyncsearch.values.json_values import identity

_UNREADABLE = re.compile("[^\t\n\r -~\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WIDTHS = (
    *(318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337),  # space to /
    *(636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531),  # 0 to ?
    *(1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787),  # @ to O
    *(603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500),  # P to _
    *(500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612),  # ` to o
    *(635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838),  # p to ~
)
"""Of the printable ASCII characters in DejaVu Sans, the widest of the usual fonts, in thousandths of the font size."""
_WIDEST = 1100  # other alphabets, symbols
_BOLD = 1.2
INK, FAINT, GRID, PAPER = "#24292f", "#6e7781", "#e4e7eb", "#ffffff"
"""Of saved pictures; a picture takes colours that change with the page from these alone."""
BESIDE = "#fffffe"
"""White that stays white: of text on bars."""
_OPACITY = {INK: 1.0, "#000": 1.0, FAINT: 0.68, GRID: 0.18}
_PAGE = "var(--jp-layout-color0,var(--vscode-editor-background,transparent))"
_LARGEST, _SMALLEST = 1.4, 0.65
"""Of the saved size: beyond these, text would be larger than the page's, or too small to read."""
_TAG = re.compile(r"""<(?P<name>[a-zA-Z]+)(?P<attributes>(?:\s+[\w:-]+=(?:"[^"]*"|'[^']*'))+)(?P<end>\s*/?)>""")
_CARD = re.compile(r"<rect width=(['\"])[\d.]+\1 height=\1[\d.]+\1[^<>]*?fill=\1(?:white|#ffffff)\1\s*(?:/>|></rect>)")
_ATTRIBUTE = re.compile(r"""\s+(?P<name>[\w:-]+)=(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)')""")


def escape(text: str) -> str:
    r"""Return text that markup may contain.

    A character that XML 1.0 forbids makes the whole picture unreadable; it is shown as Python writes it, ``\x1b``, and
    so are the other control characters, which are invisible.
    """
    return html.escape(plain(text))


def plain(text: str) -> str:
    r"""Return text in which control characters and lone surrogates are shown as Python writes them, ``\x1b``."""
    return _UNREADABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def text_width(words: str, size: float, *, is_bold: bool = False) -> float:
    """Return the width of a text in a font of ``size`` pixels, rather too much than too little.

    SVG does not break lines, and a text that leaves the picture is cut.
    """
    thousandths = sum(map(_width, unicodedata.normalize("NFD", words)))
    return thousandths * size * (_BOLD if is_bold else 1.0) / 1000


def shortened(words: str, width: float, size: float, *, is_bold: bool = False) -> str:
    """Return a text that is at most ``width`` pixels wide; one that is too long ends with "…"."""
    if text_width(words, size, is_bold=is_bold) <= width:
        return words
    room = width - text_width("…", size, is_bold=is_bold)
    ends = accumulate(text_width(char, size, is_bold=is_bold) for char in words)
    return f"{words[: sum(end <= room for end in ends)]}…"


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    place = ord(char) - ord(" ")
    return _WIDTHS[place] if 0 <= place < len(_WIDTHS) else _WIDEST


def notebook_html(svg: str) -> str:
    """Return a picture as HTML that follows the theme of a page and the width of a cell.

    A saved picture has dark ink on a white card. On a dark page that is a white rectangle; here ink becomes the page's
    own text colour, paler ink the same made fainter, and paper the page's background, where a front end names it. The
    preferences of the system are not asked: they are not those of the notebook.
    """
    bare = _CARD.sub("", svg, count=1)
    return f'<div style="overflow-x:auto;color:inherit">{_TAG.sub(_themed, bare)}</div>'


def _themed(tag: re.Match[str]) -> str:
    found = {one["name"]: one["double"] or one["single"] or "" for one in _ATTRIBUTE.finditer(tag["attributes"])}
    style = [found.pop("style")] if "style" in found else []
    for kind in ("fill", "stroke"):
        colour = found.get(kind, "")
        if colour in _OPACITY:
            found[kind] = "currentColor"
            share = _OPACITY[colour]
            if share < 1:
                found[f"{kind}-opacity"] = str(share)
        elif colour in ("white", PAPER):
            del found[kind]
            style.append(f"{kind}:{_PAGE}")
    if tag["name"] == "svg":
        width = float(found.pop("width"))
        found.pop("height", None)
        most, least = round(_LARGEST * width), round(_SMALLEST * width)
        style.append(f"display:block;width:100%;height:auto;max-width:{most}px;min-width:{least}px;color:inherit")
    written = "".join(f' {name}="{value}"' for name, value in found.items() if '"' not in value)
    written += "".join(f" {name}='{value}'" for name, value in found.items() if '"' in value)
    return f"<{tag['name']}{written}" + (f' style="{";".join(style)}"' if style else "") + f"{tag['end']}>"


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

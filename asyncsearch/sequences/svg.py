"""Pictures as SVG: text in them and its width, and their colours and width in a notebook.

Rule: all text from outside goes through ``escape``.
"""

from __future__ import annotations

import html
import re
import unicodedata
from itertools import accumulate

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

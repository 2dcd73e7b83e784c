"""How wide a text is in a picture, in pixels: SVG does not break lines, and what leaves the picture is cut.

The widths are those of DejaVu Sans, the widest of the usual fonts, so a text in any other one needs less.
"""

from __future__ import annotations

import unicodedata
from itertools import accumulate

_WIDTHS = (
    *(318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337),  # space to /
    *(636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531),  # 0 to ?
    *(1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787),  # @ to O
    *(603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500),  # P to _
    *(500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612),  # ` to o
    *(635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838),  # p to ~
)
"""Of the printable ASCII characters, in thousandths of the font size."""
_WIDEST = 1100  # other alphabets, symbols
_BOLD = 1.2


def text_width(words: str, size: float, *, is_bold: bool = False) -> float:
    """Return the width of a text in a font of ``size`` pixels, rather too much than too little."""
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

"""Renders pictures: what lies outside of a picture, and whether there is anything inside."""

from __future__ import annotations

import functools
import io
import re
import xml.etree.ElementTree as ET

FONTS = ("sans-serif", "DejaVu Sans")
"""vl-convert brings the first one, Liberation Sans, which is as wide as Arial; the other is as wide as text gets."""
SVG = "{http://www.w3.org/2000/svg}"
_MARGIN = 200
_FAMILY = re.compile(r"""font-family=(?:"[^"]*"|'[^']*')""")


def ink_outside(svg: str) -> list[str]:
    """Return where a picture, drawn on a larger sheet, goes beyond its own borders: "right, in DejaVu Sans"."""
    width, height = size(svg)
    found = []
    for font in filter(has_font, FONTS):
        left, top, right, bottom = _inked(_on_a_larger_sheet(svg, font))
        beyond = {
            "left": left < _MARGIN,
            "top": top < _MARGIN,
            "right": right > _MARGIN + width,
            "bottom": bottom > _MARGIN + height,
        }
        found += [f"{side}, in {font}" for side, is_crossed in beyond.items() if is_crossed]
    return found


def _on_a_larger_sheet(svg: str, font: str) -> str:
    width, height = size(svg)
    sheet = f"viewBox='{-_MARGIN} {-_MARGIN} {width + 2 * _MARGIN} {height + 2 * _MARGIN}'"
    larger = f"width='{width + 2 * _MARGIN}' height='{height + 2 * _MARGIN}'"
    head, tag, rest = svg.partition(">")
    head = re.sub(r"""\s(?:viewBox|width|height)=(?:"[^"]*"|'[^']*')""", "", head)
    return _FAMILY.sub(f"font-family='{font}'", f"{head} {sheet} {larger}{tag}{rest}")


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ET.fromstring(svg).iter(f"{SVG}text")]


def size(svg: str) -> tuple[int, int]:
    root = ET.fromstring(svg)
    return round(float(root.attrib["width"])), round(float(root.attrib["height"]))


@functools.cache
def has_font(font: str) -> bool:
    """Return whether a text in this font is drawn: in a font that the renderer does not have, it draws nothing."""
    word = f"<text y='15' font-family='{font}'>m</text>"
    try:
        _inked(f"<svg xmlns='http://www.w3.org/2000/svg' width='40' height='20'>{word}</svg>")
    except ValueError:
        return False
    return True


def _inked(svg: str) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom of what is drawn."""
    import vl_convert
    from PIL import Image

    with Image.open(io.BytesIO(vl_convert.svg_to_png(svg, scale=1))) as image:
        box: tuple[int, int, int, int] | None = image.getchannel("A").getbbox()
    if box is None:
        raise ValueError("nothing is drawn")
    return box

"""A picture as a notebook shows it: in the colours of the page around it, and as wide as the cell.

A saved picture has dark ink on a white card. On a dark page that is a white rectangle; here ink becomes the page's own
text colour, paler ink the same made fainter, and paper the page's background, where a front end names it. The
preferences of the system are not asked: they are not those of the notebook.
"""

from __future__ import annotations

import re

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


def notebook_html(svg: str) -> str:
    """Return a picture as HTML that follows the theme of a page and the width of a cell."""
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

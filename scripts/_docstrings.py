"""Docstrings in Google's style as Markdown. Pure."""

from __future__ import annotations

import re
import textwrap

SECTIONS = re.compile(r"^(Args|Raises|Returns|Yields):$")
ITEM = re.compile(r"^(\*{0,2}[\w.]+): (.*)$")


def as_markdown(docstring: str) -> list[str]:
    """Return the lines of a docstring as Markdown, with an empty line at the end if there are any."""
    lines = docstring.split("\n")
    found: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.endswith("::") or SECTIONS.match(line):
            block, at = _indented(lines, at)
            found += _section(line, block)
        else:
            found.append(_inline(line))
    while found and not found[-1]:
        found.pop()
    return [*found, ""] if found else []


def _indented(lines: list[str], at: int) -> tuple[list[str], int]:
    """Return the indented block that begins at a line, and where it ends."""
    end = at
    while end < len(lines) and (not lines[end] or lines[end].startswith(" ")):
        end += 1
    return textwrap.dedent("\n".join(lines[at:end])).strip("\n").split("\n"), end


def _section(title: str, block: list[str]) -> list[str]:
    if title.endswith("::"):
        return [_inline(title[:-1]), "", "```text", *block, "```", ""]
    items: list[str] = []
    for line in block:
        item = ITEM.match(line)
        if item:
            items.append(f"- `{item[1]}`: {_inline(item[2])}")
        elif line:
            items.append(f"  {_inline(line.strip())}" if items else _inline(line))
    return [f"*{title}*", "", *items, ""]


def _inline(text: str) -> str:
    return text.replace("``", "`")

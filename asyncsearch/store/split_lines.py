"""Lines of a file that comes in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def split_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of some blocks, each with its newline; the last may lack it."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest

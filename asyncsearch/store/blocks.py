"""The content of a file as it comes, in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, TypeVar

from asyncsearch.files.contents import Content, ContentCounter

BLOCK_BYTES = 1 << 20
T = TypeVar("T")


def begun(found: Iterator[T]) -> Iterator[T]:
    """Return an iterator whose first item has been read: a file that cannot be read is an error now, not later."""
    return chain(list(islice(found, 1)), found)


def split_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of some blocks, each with its newline; the last may lack it."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest


def texts_of(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield lines of a log as text, without their newlines."""
    return (line.decode(errors="replace").removesuffix("\n") for line in lines)


def counted(source: BinaryIO, counter: ContentCounter) -> Iterator[bytes]:
    """Yield the rest of a local file in blocks, each of which is counted."""
    while block := source.read(BLOCK_BYTES):
        yield counter.add(block)


def save_blocks(blocks: Iterable[bytes], local: Path) -> Content:
    """Write blocks to a local file, and return its content, which is hashed meanwhile."""
    counter = ContentCounter()
    with open(local, "wb") as target:
        target.writelines(counter.add(block) for block in blocks)
    return counter.content

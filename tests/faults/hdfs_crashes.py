"""Drivers on HDFS that die at a chosen record of their journal, with its segment left open.

One such process, started once, forks a child for each order that it reads, a line of JSON. The child runs a reference
search until its journal has so many records, and kills itself inside the append of the last of them; or it leaves files
open. The process prints ``died`` or ``ended``, and the URL of the order. It has no threads of its own: it may fork.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from types import TracebackType
from typing import Any

import msgspec

from asyncsearch.store.hdfs import files as hdfs_files
from asyncsearch.store.hdfs import segment
from asyncsearch.store.hdfs.files import HdfsFiles
from asyncsearch.store.hdfs.open_file import OpenFile
from asyncsearch.store.hdfs.segment import HdfsSegment
from tests.faults.reference_searches import run_reference


class DyingOrder(msgspec.Struct, kw_only=True):
    """The order of a child; the search comes first, then the files."""

    name: str = ""
    """Of the reference search."""
    url: str
    records: int = 0
    """How many records are durable when the driver dies."""
    cut: int = 0
    """Bytes at the end of the last record that were not written."""
    files: dict[str, bytes] = {}
    """Files to be left open with this content."""


class Undertaker:
    """The process, for the tests."""

    def __enter__(self) -> Undertaker:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.hdfs_crashes"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=60)

    def carry_out(self, order: DyingOrder) -> None:
        """Let a child die as ordered."""
        orders, answers = self._process.stdin, self._process.stdout
        assert orders is not None
        assert answers is not None
        orders.write(msgspec.json.encode(order) + b"\n")
        orders.flush()
        # A test that was broken off has left its answer here.
        own = (line for line in answers if line.split()[1].decode() == order.url)
        assert next(own, b"").startswith(b"died "), f"it did not die: {order.name} {order.url}"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(order: DyingOrder) -> None:
    """Let this process die inside the append that makes so many records."""
    segment.SHORTEST_S = math.inf
    append, left = HdfsSegment.append, order.records + 1  # a segment begins with a line about itself

    def counted(self: HdfsSegment, data: bytes) -> None:
        nonlocal left
        lines = data.splitlines(keepends=True)
        if len(lines) < left:
            left -= len(lines)
            append(self, data)
            return
        kept = b"".join(lines[:left])
        self._file.append(kept[: len(kept) - order.cut])
        die()

    HdfsSegment.append = counted  # type: ignore[method-assign]


def small_blocks(overwrite: bool = False) -> Any:
    """Return the options of a file for which the NameNode plans 1 MiB: a disk may lack room for hundreds of 128 MiB."""
    import hdfs_native

    return hdfs_native.WriteOptions(permission=0o644, overwrite=overwrite, create_parent=True, block_size=1 << 20)


def carry_out(order: DyingOrder) -> None:
    if order.name:
        die_at(order)
        run_reference(order.name, order.url)
        return
    hdfs_files._options = small_blocks
    files, opened = HdfsFiles(order.url), []
    for name, data in order.files.items():
        file = files.open_new(name)
        assert isinstance(file, OpenFile)
        file.append(data)
        opened.append(file)
    die()


def serve() -> None:
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=DyingOrder)
        child = os.fork()
        if child == 0:
            os.dup2(2, 1)  # the answers are the parent's
            carry_out(order)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        end = "died" if os.waitstatus_to_exitcode(status) == -signal.SIGKILL else "ended"
        sys.stdout.write(f"{end} {order.url}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()

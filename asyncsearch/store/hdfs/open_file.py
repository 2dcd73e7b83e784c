"""One file of HDFS, open for writing or for reading, by calls that answer or fail within a time.

hdfs-native waits for ever for a DataNode that has broken off a transfer. So a call runs in a thread of its own. One
that never ends keeps its thread; who called goes on with an error.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TypeVar

from asyncsearch.files.contents import Content, ContentCounter
from asyncsearch.store.blocks import BLOCK_BYTES
from asyncsearch.store.hdfs.client import note_closed, note_open

T = TypeVar("T")
ANSWER_S = 30.0
"""Longer than hdfs-native itself tries again: HDFS may take some 15 s to close a file."""
SYNC_S = 10.0
"""For an append that is synced: after the death of a server hdfs-native may wait for ever, and the journal can go on
in a new file."""
GIVE_UP_S = 1.0
"""For closing a file whose write has failed."""
EXIT_S = 10.0
"""For the calls that still run when the process ends: a thread that came back from hdfs-native while the interpreter is
taken down would abort the process."""
_IDLE_S = 60.0


class Call:
    """A call in a thread of its own, and its outcome."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function, self.arguments = function, arguments
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Event()

    def result_within(self, limit_s: float) -> Any:
        """Return the function's result, or raise its error.

        Raises:
            TimeoutError: it does not end in time.
        """
        if not self.done.wait(limit_s):
            raise TimeoutError("The call timed out")
        if self.error is not None:
            raise self.error
        return self.result


class _Threads:
    """Threads for calls; one that is idle is used again, since starting one takes longer than a call."""

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[Call]] = []
        self._running: set[Call] = set()

    def run(self, call: Call) -> None:
        self._running.add(call)
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._work, args=(inbox,), name="asyncsearch-hdfs", daemon=True).start()
        inbox.put(call)

    def _work(self, inbox: queue.SimpleQueue[Call]) -> None:
        while True:
            try:
                call = inbox.get(timeout=_IDLE_S)
            except queue.Empty:
                try:
                    self._idle.remove(inbox)
                except ValueError:  # it was taken at this moment: the call is on its way
                    continue
                return
            try:
                call.result = call.function(*call.arguments)
            except BaseException as error:
                call.error = error
            self._idle.append(inbox)
            self._running.discard(call)
            call.done.set()
            del call

    def drop(self) -> None:
        """Forget the threads in a forked child, which has none of them."""
        self._idle.clear()
        self._running.clear()

    def finish(self) -> None:
        """Wait for the calls that run."""
        deadline = time.monotonic() + EXIT_S
        for call in list(self._running):
            call.done.wait(max(0.0, deadline - time.monotonic()))


_threads = _Threads()
atexit.register(_threads.finish)


def begin(function: Callable[..., Any], *arguments: Any) -> Call:
    """Begin to call a function."""
    made = Call(function, arguments)
    _threads.run(made)
    return made


def call(function: Callable[..., T], *arguments: Any) -> T:
    """Call a function and return what it returns.

    Raises:
        TimeoutError: it has not ended within ``ANSWER_S``.
    """
    result: T = begin(function, *arguments).result_within(ANSWER_S)
    return result


class Bounded:
    """An object of hdfs-native, each method of which is called by ``call``."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial(call, getattr(self._inner, name))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.drop)


_log = logging.getLogger(__name__)
_FIRST_PAUSE_S, _LONGER, _LONGEST_PAUSE_S = 0.03, 4, 0.5
"""Between looks at a file that is being closed: each is a call of the NameNode, and most files are closed by the first:
its bytes, which still flow to the DataNodes, take longer than 10 ms where these or the network are busy."""


class OpenFile:
    """One writer of hdfs-native. After an error nothing more can be written into the file."""

    def __init__(self, writer: Any, finish: Callable[[int], bool]) -> None:
        """Take over a writer.

        Args:
            writer: of hdfs-native, of a new file.
            finish: closes the file at the NameNode if all of so many bytes can be read; returns whether it did.
        """
        self._raw, self._writer = writer, Bounded(writer)
        self._finish, self._size_bytes = finish, 0
        note_open(writer)

    def append(self, data: bytes) -> None:
        """Write, and return when every DataNode of the file has it on its disk, and the NameNode knows its length."""
        begin(self._write_and_sync, data).result_within(SYNC_S)

    def _write_and_sync(self, data: bytes) -> None:
        self._raw.write(data)
        self._size_bytes += len(data)
        self._raw.hsync()

    def write_and_close(self, data: bytes) -> None:
        """Write the whole rest of the file."""
        try:
            if data:
                self._writer.write(data)
                self._size_bytes += len(data)
        except BaseException:
            self.give_up()
            raise
        self.close()

    def copy_and_close(self, source: BinaryIO) -> Content:
        """Write the rest of a local file, each block of which is hashed while it is written; return its content."""
        counter = ContentCounter()
        try:
            while block := source.read(BLOCK_BYTES):
                writing = begin(self._raw.write, block)
                counter.add(block)
                writing.result_within(ANSWER_S)
        except BaseException:
            self.give_up()
            raise
        self._size_bytes += counter.content.size_bytes
        self.close()
        return counter.content

    def close(self) -> None:
        """Let the NameNode know that the file is complete."""
        close_at_once(self._close_writer, lambda: self._size_bytes > 0 and self._finish(self._size_bytes))

    def give_up(self) -> None:
        """Close what can be closed of it at once, and the rest in a thread; the content is unknown.

        A NameNode that no DataNode has told of the last block is asked by hdfs-native for 15 s, in which nobody learns
        that the write has failed.
        """
        with contextlib.suppress(Exception):
            begin(self._close_writer).result_within(GIVE_UP_S)

    def _close_writer(self) -> None:
        try:
            self._raw.close()
        finally:
            note_closed(self._raw)


def close_at_once(writer_close: Callable[[], None], finish: Callable[[], bool]) -> None:
    """Close a file without hdfs-native's wait; return when the NameNode has closed it.

    A NameNode refuses to close a file until a DataNode has reported the last block, which comes some milliseconds after
    the writer's own request. hdfs-native then waits for 0.5, 1, 2 s before it asks again. So, while it waits, the
    NameNode is asked here whether all of the file can be read, and then closes it by its call for leases that were
    left; hdfs-native's next request, in its thread, finds the file closed, which is no error.

    Args:
        writer_close: closes it, sooner or later.
        finish: closes it at the NameNode if all of it is there; returns whether it did.

    Raises:
        TimeoutError: it was not closed within ``ANSWER_S``.
    """
    closing = begin(writer_close)
    deadline = time.monotonic() + ANSWER_S
    pause_s = _FIRST_PAUSE_S
    while not closing.done.wait(pause_s) and time.monotonic() < deadline:
        try:
            if finish():
                return
        except Exception as error:  # whether it is closed is then for the first call to say
            _log.debug("Cannot finish a file: %s", error)
        pause_s = min(_LONGER * pause_s, _LONGEST_PAUSE_S)
    closing.result_within(0.0)


def read_ahead(reader: Any) -> Iterator[bytes]:
    """Yield the part of a file that can be read, in blocks of 1 MiB and more; the next one is already on its way.

    Args:
        reader: of hdfs-native. It sends the whole file in one stream; its ``read`` asks a DataNode anew each time.

    Raises:
        TimeoutError: a block has not come within ``ANSWER_S``.
    """
    chunks = reader.read_range_stream(0, reader.file_length())
    due = begin(_block, chunks)
    while block := due.result_within(ANSWER_S):
        due = begin(_block, chunks)
        yield block


def _block(chunks: Iterator[bytes]) -> bytes:
    found, size_bytes = [], 0
    for chunk in chunks:
        found.append(chunk)
        size_bytes += len(chunk)
        if size_bytes >= BLOCK_BYTES:
            break
    return b"".join(found)

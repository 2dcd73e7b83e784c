"""The rights on a store and the times of its operations: a small study is written into a folder of it, and removed."""

from __future__ import annotations

import contextlib
import os
import secrets
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from asyncsearch.errors import AsyncSearchError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.store import Store

CHECKPOINT_BYTES = 8 << 20
PROBE = "probe"
"""The small file that executors look for."""
_APPENDS = 20
_RECORD = b"x" * 199 + b"\n"
_CHECKPOINT = CheckpointRef(NodeKey("doctor"), 1)

SeenFromExecutors = Callable[[Store, bytes], None]
"""Lets executors look for ``PROBE`` with this content in a store."""


class StoreFacts(msgspec.Struct, kw_only=True):
    """Facts about a store. Durations are seconds; None if it did not come to that."""

    shown: str
    """Its URL without a password."""
    failed_step: str = ""
    """The step that could not be done: "write a checkpoint"; empty if all could."""
    failure: str = ""
    """The words of the error."""
    is_in_use: bool = False
    """Whether a driver runs a study there now."""
    is_exclusive: bool = True
    append_s: float | None = None
    """A durable record of the journal, median."""
    slowest_append_s: float | None = None
    write_s: float | None = None
    """A small file."""
    commit_s: float | None = None
    """A checkpoint of ``CHECKPOINT_BYTES``, until it is durable."""
    fetch_s: float | None = None
    ahead_s: float | None = None
    """How far its clock is ahead of this machine's, from the time of a file; None if it has no times of files."""
    free_bytes: int | None = None
    """Free space; None if it does not say."""


def store_facts(store: Store, seen_from_executors: SeenFromExecutors | None = None) -> StoreFacts:
    """Write and read a small study in a folder of the store, and remove it again.

    Args:
        store: where a study is, or would be; a running one is not disturbed.
        seen_from_executors: called while the folder is there.
    """
    facts = StoreFacts(shown=store.shown)
    name = f"doctor-{secrets.token_hex(6)}"
    try:
        for step, measure in _steps(store, store.child(name), facts, seen_from_executors):
            facts.failed_step = step
            measure()
        facts.failed_step = ""
    except (AsyncSearchError, OSError) as error:
        facts.failure = str(error).replace(f"/{name}", "")
    finally:
        with contextlib.suppress(AsyncSearchError, OSError):
            store.remove_tree(name)
    return facts


def _steps(
    store: Store, probe: Store, facts: StoreFacts, seen_from_executors: SeenFromExecutors | None
) -> Iterator[tuple[str, Callable[[], None]]]:
    yield "open it", lambda: _look(store, facts)
    yield "make folders", probe.prepare
    yield "write a journal", lambda: _journal(probe, facts)
    yield "write a small file", lambda: _small_file(probe, facts)
    yield "write and read a checkpoint", lambda: _checkpoint(probe, facts)
    if seen_from_executors is not None:
        content = secrets.token_hex(16).encode()
        yield "write a small file", lambda: probe.write(PROBE, content)
        yield "ask the executors", lambda: seen_from_executors(probe, content)


def _look(store: Store, facts: StoreFacts) -> None:
    facts.is_in_use, facts.is_exclusive = store.is_locked(), store.is_exclusive


def _journal(probe: Store, facts: StoreFacts) -> None:
    with probe.lock():
        segment = probe.open_segment()
        try:
            durations = [_seconds(lambda: segment.append(_RECORD)) for _ in range(_APPENDS)]
        finally:
            segment.close()
    facts.append_s, facts.slowest_append_s = statistics.median(durations), max(durations)


def _small_file(probe: Store, facts: StoreFacts) -> None:
    began = time.time()
    durations = [_seconds(lambda: probe.write("small", _RECORD)) for _ in range(5)]
    facts.write_s = statistics.median(durations)
    modified = [file.modified_s for name, file in probe.walk().items() if name == "small"]
    if modified and modified[0] is not None:
        # Within the time of writing, any moment is right.
        facts.ahead_s = modified[0] - min(max(modified[0], began), time.time())
    facts.free_bytes = probe.free_bytes()


def _checkpoint(probe: Store, facts: StoreFacts) -> None:
    staged = probe.stage(_CHECKPOINT)
    (staged / "weights").write_bytes(os.urandom(CHECKPOINT_BYTES))
    facts.commit_s = _seconds(lambda: probe.commit(_CHECKPOINT, staged))
    facts.fetch_s = _seconds(lambda: _read(probe.fetch(_CHECKPOINT)))


def _read(fetched: AbstractContextManager[Path]) -> None:
    with fetched as folder:
        (folder / "weights").read_bytes()


def _seconds(measured: Callable[[], object]) -> float:
    began = time.perf_counter()
    measured()
    return time.perf_counter() - began

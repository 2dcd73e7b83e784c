"""Facts about this machine and this Python, and about a store: what it permits, and how long its operations take."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import msgspec
import psutil

from asyncsearch._version import __version__
from asyncsearch.errors import AsyncSearchError
from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.launch.machine import cores
from asyncsearch.store import Store

_TENSORFLOWS = "tensorflow", "tensorflow-cpu", "tf-nightly", "tensorflow-intel", "tensorflow-rocm"
_TORCHES = ("torch",)
_TRITONS = "triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm"
"""Names of the packages; a build of torch for the CPU has no triton."""


class MachineFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The driver's machine, as this process sees it."""

    python: str
    """Path of the interpreter."""
    python_version: str
    """Such as "3.11.7"."""
    version: str
    """Version of asyncsearch."""
    home: str
    """Folder from which asyncsearch is imported."""
    cores: int
    """Cores that this process may use."""
    memory_bytes: int
    """Memory that is free."""
    descriptors: int
    """Files that one process may have open."""
    scratch: str
    """Folder of temporary files."""
    scratch_bytes: int
    """Free space there."""
    has_pyspark: bool
    has_java: bool
    clashing: tuple[str, ...] = ()
    """TensorFlow, torch and triton with their versions, if all three are installed; empty if one is not."""


def machine_facts() -> MachineFacts:
    """Return the facts that this process sees."""
    import resource

    scratch = tempfile.gettempdir()
    home = os.environ.get("JAVA_HOME")
    return MachineFacts(
        python=sys.executable,
        python_version=platform.python_version(),
        version=__version__,
        home=str(Path(__file__).parent.parent),
        cores=cores(),
        memory_bytes=psutil.virtual_memory().available,
        descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        scratch=scratch,
        scratch_bytes=shutil.disk_usage(scratch).free,
        has_pyspark=find_spec("pyspark") is not None,
        clashing=_clashing(),
        has_java=bool(shutil.which("java") or (home and (Path(home) / "bin" / "java").exists())),
    )


def _clashing() -> tuple[str, ...]:
    """Return the frameworks that abort in one process, by what is installed: to import them would abort this one."""
    found = tuple(filter(None, map(_installed, (_TENSORFLOWS, _TORCHES, _TRITONS))))
    return found if len(found) == 3 else ()


def _installed(names: tuple[str, ...]) -> str:
    for name in names:
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return ""


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
    facts.append_s = statistics.median(durations)


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

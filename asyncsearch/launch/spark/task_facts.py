"""The facts that a task of Spark finds on its machine: Python, packages, devices, the driver's clock, and the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec


class TaskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The environment of one task."""

    host: str
    python: str
    """Path of its interpreter."""
    python_version: str
    """Such as "3.11.7"."""
    packages: Mapping[str, str]
    """Versions of packages, by the names that install them; empty if it cannot be imported."""
    gpus: tuple[str, ...]
    """Addresses of the devices that Spark gave it."""
    visible_gpus: str | None
    """``CUDA_VISIBLE_DEVICES``; None if not set."""
    has_devices: bool
    """Whether its machine has a GPU, whoever may use it."""
    connection_error: str
    """Why it does not reach the driver; empty if it does."""
    round_trip_s: float
    """Time to the driver and back, the shortest of some; 0 without a connection."""
    ahead_s: float
    """How far its clock is ahead of the driver's, up to half of ``round_trip_s``."""
    scratch_bytes: int
    """Free space in its folder of temporary files."""


class StoreView(msgspec.Struct, frozen=True, kw_only=True):
    """A store as one task sees it. Durations are seconds, 0 where something is wrong."""

    host: str
    wrong: str = ""
    """The fault, in words; empty if there is none."""
    is_elsewhere: bool = False
    """Whether the driver's file is not there."""
    write_s: float = 0.0
    """A small file."""
    commit_s: float = 0.0
    """A checkpoint, while the other tasks save theirs."""
    fetch_s: float = 0.0


def task_facts(
    packages: Mapping[str, str], host: str, port: int, token: bytes
) -> Callable[[Iterable[Any]], list[dict[str, Any]]]:
    """Return the executors' function, whose results are the fields of ``TaskFacts``.

    A nested function is sent by value, because executors may lack asyncsearch.

    Args:
        packages: module -> package that installs it.
        host: where the driver's ``ClockServer`` is.
        port: its port.
        token: the bytes that it answers.
    """

    def look(rows: Iterable[Any]) -> list[dict[str, Any]]:
        import glob
        import importlib.metadata
        import importlib.util
        import os
        import platform
        import shutil
        import socket
        import struct
        import sys
        import tempfile
        import time

        del rows

        def version(module: str, package: str) -> str:
            try:
                spec = importlib.util.find_spec(module)
            except ImportError:
                return ""
            if spec is None or spec.origin is None:  # a folder without code counts as a namespace package
                return ""
            try:
                return importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                return "unknown"

        def look_at_clock() -> tuple[str, float, float]:
            best = (float("inf"), 0.0)
            try:
                with socket.create_connection((host, port), timeout=10) as connection:
                    for _ in range(5):
                        began, mark = time.time(), time.perf_counter()
                        connection.sendall(token)
                        data = connection.recv(8, socket.MSG_WAITALL)
                        trip = time.perf_counter() - mark
                        if len(data) < 8:
                            return "another program listens there", 0.0, 0.0
                        best = min(best, (trip, began + trip / 2 - struct.unpack("!d", data)[0]))
            except OSError as error:
                return str(error), 0.0, 0.0
            return "", *best

        def gpus() -> tuple[str, ...]:
            from pyspark import TaskContext

            context = TaskContext.get()
            given = None if context is None else context.resources().get("gpu")
            return () if given is None else tuple(given.addresses)

        error, round_trip_s, ahead_s = look_at_clock()
        return [
            {
                "host": socket.gethostname(),
                "python": sys.executable,
                "python_version": platform.python_version(),
                "packages": {package: version(module, package) for module, package in packages.items()},
                "gpus": gpus(),
                "visible_gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
                "has_devices": bool(glob.glob("/dev/nvidia[0-9]*")),
                "connection_error": error,
                "round_trip_s": round_trip_s,
                "ahead_s": ahead_s,
                "scratch_bytes": shutil.disk_usage(tempfile.gettempdir()).free,
            }
        ]

    return look


def store_view(
    url: str, name: str, content: bytes, checkpoint_bytes: int
) -> Callable[[Iterable[Any]], list[dict[str, Any]]]:
    """Return the executors' function that looks for a small file in a store, and writes and reads beside it.

    Its results are the fields of ``StoreView``.

    Args:
        url: the store, which is removed afterwards.
        name: the small file.
        content: the content that the driver has written.
        checkpoint_bytes: size of the checkpoint that each task saves and loads.
    """

    def look(rows: Iterable[Any]) -> list[dict[str, Any]]:
        import os
        import socket
        import time
        import uuid

        del rows
        host = socket.gethostname()
        try:
            from asyncsearch.ids import CheckpointRef, NodeKey
            from asyncsearch.store import open_store

            store = open_store(url)
            if store.read(name) != content:
                wrong = "it does not see what the driver has written: this is another folder there"
                return [{"host": host, "wrong": wrong, "is_elsewhere": True}]
            began = time.perf_counter()
            store.write(f"{name}-{host}-{os.getpid()}", content)
            written = time.perf_counter()
            checkpoint = CheckpointRef(NodeKey(f"doctor-{uuid.uuid4().hex}"), 1)
            staged = store.stage(checkpoint)
            (staged / "weights").write_bytes(os.urandom(checkpoint_bytes))
            ready = time.perf_counter()
            store.commit(checkpoint, staged)
            saved = time.perf_counter()
            with store.fetch(checkpoint) as folder:
                (folder / "weights").read_bytes()
            loaded = time.perf_counter()
        except Exception as error:
            return [{"host": host, "wrong": f"{type(error).__name__}: {error}"}]
        durations = {"write_s": written - began, "commit_s": saved - ready, "fetch_s": loaded - saved}
        return [{"host": host, **durations}]

    return look

"""Shared folders of every kind for tests, drivers in separate processes, and steps at which others can interrupt.

As a program it is such a driver: it answers each line of JSON on its input with one on its output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from asyncsearch.ids import CheckpointRef, NodeKey
from asyncsearch.shared.folder import SharedFolder
from asyncsearch.store import LocalStore, Store, open_store
from asyncsearch.store.far.store import FsspecStore
from asyncsearch.store.locks import lease_lock
from asyncsearch.testing.store_checkpoints import save

DAY_S = 86400.0

NODE = NodeKey("0123456789abcdef" * 2)
NODES = [NodeKey(f"{number:032x}") for number in range(12)]


def plan_at(url: str, **options: Any) -> SharedFolder:
    """Return a driver's access to a folder; ``file:`` uses fsspec here."""
    store: Store = open_store(url) if "hdfs://" in url else FsspecStore(url) if "://" in url else LocalStore(url)
    plan = SharedFolder(store, **options)
    plan.prepare()
    return plan


def commit(plan: SharedFolder, node: NodeKey = NODE, resource: int = 3, size: int = 10) -> CheckpointRef:
    """Commit a checkpoint as a worker does."""
    ref = CheckpointRef(node, resource)
    save(plan.store, ref, model=b"m" * size)
    return ref


def let_age(url: str, seconds: float, of: str = "") -> None:
    """Let the file system say that claims, holds and drivers were written into a folder so much earlier.

    Args:
        of: their token. Empty means all have.
    """
    if url.startswith("memory://"):
        found = MemoryFileSystem.store.items()
        for path, file in found:
            if path.startswith(url.removeprefix("memory:/")) and _is_of_drivers(path, of):
                file.created -= timedelta(seconds=seconds)
        return
    for path in Path(url.removeprefix("file://")).rglob("*.json"):
        if _is_of_drivers(str(path), of):
            then_s = path.stat().st_mtime - seconds
            os.utime(path, (then_s, then_s))


def _is_of_drivers(path: str, token: str) -> bool:
    return ("/drivers/" in path or "/claims/" in path or "/holds/" in path) and (not token or f"/{token}.json" in path)


def content(plan: SharedFolder) -> dict[str, bytes | None]:
    """Return every file below the folder, including the reserved ones of a store."""
    store = plan.store
    read = store._remote.read if isinstance(store, FsspecStore) else lambda name: Path(store.url, name).read_bytes()
    return {name: read(name) for name in sorted(store.walk())}


def age(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """Let days pass."""
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + days * DAY_S)


class Between:
    """Wraps an object and calls a function before the step with that number; all methods count together."""

    def __init__(self, step: int, action: Callable[[], object]) -> None:
        self._left = step
        self._action = action
        self.reached = False

    def before(self, target: Any) -> Any:
        return _Counted(target, self)

    def calling(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self.count()
            return function(*args, **kwargs)

        return call

    def count(self) -> None:
        if self._left == 0 and not self.reached:
            self.reached = True
            self._action()
        self._left -= 1


class _Counted:
    def __init__(self, target: Any, between: Between) -> None:
        self._target = target
        self._between = between

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        return self._between.calling(found) if callable(found) else found


def interrupted(plan: SharedFolder, step: int, action: Callable[[], object]) -> Between:
    """Let an action happen before a driver's access number ``step`` to the folder."""
    between = Between(step, action)
    plan.files.store = between.before(plan.files.store)
    return between


class Rival:
    """A driver in a separate process.

    Args:
        ahead_s: how far its clock is ahead; then it is as on another machine, whose processes nobody here can see.
    """

    def __init__(self, url: str, owner: str, ahead_s: float | None = None, **options: Any) -> None:
        command = [sys.executable, "-m", "tests.shared.tools", url, owner, json.dumps(options), json.dumps(ahead_s)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def order(self, **order: Any) -> None:
        """Send a command without waiting."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """Wait for the result."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, **order: Any) -> Any:
        self.order(**order)
        return self.answer()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def close(self) -> None:
        self.process.communicate(timeout=60)


def _move_elsewhere(ahead_s: float) -> None:
    clock = time.time
    time.time = lambda: clock() + ahead_s
    lease_lock.machine = lambda: "another machine"


def _serve(url: str, owner: str, options: str, ahead_s: str) -> None:
    if (seconds := json.loads(ahead_s)) is not None:
        _move_elsewhere(seconds)
    plan = plan_at(url, **json.loads(options))
    for line in sys.stdin:
        order = json.loads(line)
        match order["do"]:
            case "hello":
                found: Any = "ready"
            case "claim":
                found = plan.claim([NodeKey(node) for node in order["nodes"]], owner)
            case "contend":
                found = _contend(plan, owner, order["folder"], order["rounds"])
            case "publish":
                plan.publish(NODE, [(at, {"loss": 1 / at}) for at in order["at"]])
                found = None
            case unknown:
                raise AssertionError(unknown)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


def _contend(plan: SharedFolder, owner: str, folder: str, rounds: int) -> dict[str, int]:
    """Claim and release one node repeatedly; count how often we held it, and how often another held it too."""
    had, together = 0, 0
    inside = Path(folder) / "inside"
    for _ in range(rounds):
        if plan.claim([NODE], owner)[NODE] is None:
            had += 1
            try:
                os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                together += 1
            else:
                inside.unlink()
            plan.release([NODE])
    return {"had": had, "together": together}


if __name__ == "__main__":
    _serve(*sys.argv[1:])

"""Stores in memory, as far as logs need one: with appends that all see, with ones that others see late, and without.

Every call is counted, takes virtual time, and can fail before or behind what it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from asyncsearch.errors import BeingWrittenError, StoreError
from asyncsearch.store import layout
from asyncsearch.store.base_store import FileInfo

CALL_S = 0.045


class World:
    """A store and its clock."""

    is_far = True

    def __init__(self, kind: str) -> None:
        """Begin.

        Args:
            kind: "shown", a file that grows before everybody's eyes; "hidden", on HDFS, where others see a file once it
                is closed; "whole", an object store.
        """
        self.kind = kind
        self.files: dict[str, bytes] = {}
        self.open: set[str] = set()
        """The files that only their writer sees."""
        self.now_s = 0.0
        self.spent_s = 0.0
        """What calls took since somebody set it to 0."""
        self.calls = 0
        self.read_bytes = 0
        self.fails: list[str] = []
        """For the next calls that write: "" goes well, "before" or "behind": an error, before or behind the write."""
        self.old: dict[str, list[str]] = {}

    def clock(self) -> float:
        """Return the present time."""
        return self.now_s + self.spent_s

    @property
    def log_interval_s(self) -> float:
        return 0.5 if self.kind == "shown" else 5.0

    @property
    def log_open_s(self) -> float:
        return {"shown": 60.0, "hidden": 10.0, "whole": 0.0}[self.kind]

    @property
    def log_appends(self) -> bool:
        return self.kind != "whole"

    def begin_log(self, name: str) -> Grown | None:
        with_file = name not in self.files
        self.write(name, b"") if with_file else self.call()
        if with_file and self.kind == "hidden":
            self.open.add(name)
        return Grown(self, name) if with_file else None

    def create(self, name: str, data: bytes) -> bool:
        if name in self.files:
            self.call()
            return False
        self.write(name, data)
        return True

    def read_part(self, name: str, start: int, end: int | None = None) -> bytes | None:
        self.call()
        if name in self.open:
            raise BeingWrittenError(f"{name} is being written.")
        found = self.files[name][start:end] if name in self.files else None
        self.read_bytes += len(found or b"")
        return found

    def list(self, folder: str) -> Sequence[str]:
        self.call()
        return sorted(name.rpartition("/")[2] for name in self.files if name.startswith(f"{folder}/"))

    def walk(self, folder: str = "") -> Mapping[str, Any]:
        self.call()
        return {name.rpartition("/")[2]: FileInfo(len(data), None) for name, data in self.files.items()}

    def append_log(self, name: str, lines: Sequence[str]) -> None:
        raise AssertionError("it has none of its own")

    def read_old_log(self, name: str, skip: int) -> Iterator[str]:
        return iter(self.old.get(name, [])[skip:])

    def recover(self) -> None:
        """Close what a driver has left open, as a driver does that takes over."""
        self.open.clear()

    @property
    def segments(self) -> Sequence[str]:
        """The names of all segments, in order."""
        return sorted(name for name in self.files if name.startswith(f"{layout.LOG_SEGMENTS}/"))

    def call(self) -> None:
        """Count a call."""
        self.calls += 1
        self.spent_s += CALL_S

    def write(self, name: str, data: bytes) -> None:
        """Append to a file by one call."""
        self.call()
        fails = self.fails.pop(0) if self.fails else ""
        if fails == "before":
            raise StoreError("A DataNode does not answer.")
        self.files[name] = self.files.get(name, b"") + (data if fails != "half" else data[: len(data) // 2])
        if fails:
            raise StoreError("A DataNode has broken off the transfer.")


class Grown:
    """A file that grows."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name

    def append(self, data: bytes) -> None:
        self._world.write(self._name, data)

    def finish(self, data: bytes) -> None:
        self._world.write(self._name, data)
        self._world.open.discard(self._name)

    def give_up(self) -> None:
        self._world.open.discard(self._name)

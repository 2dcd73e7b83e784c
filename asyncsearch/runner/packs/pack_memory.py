"""The memory of the process of a pack, and its limit, while one lane and then two train: how many fit follows from it.

On an accelerator it is what torch has allocated there. Elsewhere it is the memory of the process, where Linux tells it,
and the limit is the narrowest of those of the machine, the cgroup and the process itself. The growth of other
processes is not foreseen.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from asyncsearch.events import PackMemory
from asyncsearch.runner.process.kernel_files import rooms, status
from asyncsearch.sizing.pack_probe import MEMORY_SHARE, most_that_fit

_SELF = Path("/proc/self")


class MemoryMeter(Protocol):
    """The memory of one device, as this process uses it."""

    def begin(self) -> None:
        """Begin to watch the peak anew."""

    def held(self) -> int:
        """Return the bytes that are held now; 0 if nobody tells."""

    def peak(self) -> int:
        """Return the most bytes that were held since ``begin``."""

    def room(self) -> tuple[int, str] | None:
        """Return how many more bytes may be held, and their limit; None if nobody tells."""

    def lane_at_most(self) -> int | None:
        """Return the most bytes of a lane, by a generous guess that costs nothing; None for no guess."""


class ProcessMemory:
    """The memory of this process, as Linux counts it."""

    def begin(self) -> None:
        with contextlib.suppress(OSError):  # without it the peak is that of all the time before, too
            (_SELF / "clear_refs").write_text("5")

    def held(self) -> int:
        return status().get("VmRSS", 0)

    def peak(self) -> int:
        return status().get("VmHWM", 0)

    def room(self) -> tuple[int, str] | None:
        return min(rooms(), default=None)

    def lane_at_most(self) -> int | None:
        return self.held()  # as much as the interpreter, the framework and the first lane together


class AcceleratorMemory:
    """The memory of torch's present accelerator."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda

    def begin(self) -> None:
        self._cuda.reset_peak_memory_stats()

    def held(self) -> int:
        return int(self._cuda.memory_allocated())

    def peak(self) -> int:
        return int(self._cuda.max_memory_allocated())

    def room(self) -> tuple[int, str] | None:
        reserved, (free, total) = self._cuda.memory_reserved(), self._cuda.mem_get_info()
        cached = reserved - self._cuda.memory_allocated()
        # With devices_per_trial=0.5 another process has the other half, though it may not have taken it yet.
        share = int(total * self._cuda.get_per_process_memory_fraction()) - reserved
        room, limit = min((int(free), "the accelerator"), (max(0, share), "this worker's share of the accelerator"))
        return room + int(cached), limit

    def lane_at_most(self) -> int | None:
        return None


def present_meter() -> MemoryMeter:
    """Return the meter of the device of this process: of an accelerator, if it has begun to use one."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        return AcceleratorMemory(torch.cuda)
    return ProcessMemory()


class PackMemoryProbe:
    """Watches how memory grows as lanes are built, and as one and two of them train."""

    def __init__(self, meter: MemoryMeter | None = None) -> None:
        self._meter = meter
        self._built: list[int] = []
        """The bytes that were held once each lane was built."""
        self._peaks: list[tuple[int, int, int]] = []
        """How many lanes trained, one and then more, how many were built then, and the most that was held."""

    def lane_built(self) -> None:
        """Note that one more lane was built."""
        self._built.append((self._meter or present_meter()).held())

    @contextlib.contextmanager
    def watched(self, lanes: int) -> Iterator[None]:
        """Watch the training of a unit of some lanes; only one and then more, mostly two, say something."""
        meter = self._meter or present_meter()
        meter.begin()
        yield
        if len(self._peaks) < 2 and (lanes > 1) == bool(self._peaks):
            self._peaks.append((lanes, len(self._built), meter.peak()))

    def is_plenty_for(self, lanes: int) -> bool:
        """Return whether so many lanes fit beyond doubt, or nobody tells, so that there is nothing to measure."""
        meter = self._meter or present_meter()
        room, each = meter.room(), meter.lane_at_most()
        if room is None or not meter.held():
            return True
        return each is not None and lanes * each <= MEMORY_SHARE * room[0]

    def found(self) -> PackMemory | None:
        """Return the measurement; None if no two have trained yet, or nobody tells the limit."""
        meter = self._meter or present_meter()
        room = meter.room()
        if len(self._peaks) < 2 or room is None or not meter.held():
            return None
        others = max(0, len(self._built) - 1)
        built = max(0, self._built[-1] - self._built[0]) // others if others else 0
        (_, first, one), (lanes, second, more) = self._peaks
        step = max(0, more - one - (second - first) * built) // (lanes - 1)
        return PackMemory(max(0, one - (first - 1) * built), built + step, meter.held() + room[0], room[1])


def waiting_words(memory: PackMemory, waiting: int) -> str:
    """Return why some trainings of a pack are not built yet, and the line to change."""
    most = most_that_fit(memory)
    one, each, limit = (round(size / 1e6) for size in (memory.one, memory.each, memory.limit))
    return (
        f"of this pack {most} train at once, and {waiting} wait until others end: one takes {one} MB and "
        f"each further one {each} MB, and a pack may take {MEMORY_SHARE:.0%} of the {limit} MB that "
        f"{memory.limited_by} leaves. Write pack={most}, or give the workers more memory."
    )

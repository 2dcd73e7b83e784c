"""How many trainings train fastest together: the first unit of a pack is trained in groups that are timed.

Each lane trains its unit once, so nothing is trained in vain. The fastest number of lanes is kept for the rest of the
work. A process that has trained nothing yet first trains a lane alone, and two together, once more: what that prepares
takes longer than ever after, so the shorter time counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from asyncsearch.events import PackCompiled, PackMemory, PackSeconds
from asyncsearch.runner.device import device_name
from asyncsearch.runner.pack_memory import PackMemoryProbe
from asyncsearch.runner.protocol import PackFindings
from asyncsearch.trainable import Trainer
from asyncsearch.trainers.pack_probe import WARM_UP, fastest, is_worth_timing, most_that_fit

_SCHEDSTAT = Path("/proc/thread-self/schedstat")
"""On Linux: nanoseconds on a processor, nanoseconds waiting for one, and how often."""
_warm: set[type[Trainer]] = set()
"""Trainer classes that have trained together in this process."""


class PackTiming:
    """Trains units of one pack.

    Args:
        trainer_class: has ``train_pack``.
        measured: how many lanes to time together in the first unit, group after group.
        memory: watches what one lane and two take.
    """

    def __init__(self, trainer_class: type[Trainer], measured: Sequence[int], memory: PackMemoryProbe) -> None:
        self._class, self._measured, self._memory = trainer_class, measured, memory
        self._together: int | None = None
        """How many lanes train together at most; None: all."""
        self._has_begun = False
        self._compiled: PackCompiled | None = None
        """What was told last."""

    def train(self, trainers: Sequence[Trainer]) -> PackFindings | None:
        """Train a unit of each; return what was found out, after the first one, if there is anything."""
        is_first, self._has_begun = not self._has_begun, True
        found = self._timed(trainers) if is_first and self._measured else self._in_groups(trainers)
        refusal = self._class.pack_refusal() if is_first else ""
        memory = self._memory.found() if found else None
        device = device_name(os.environ.get("CUDA_VISIBLE_DEVICES")) if found else ""
        compiled = self._newly_compiled()
        if not (found or refusal or compiled):
            return None
        return PackFindings(tuple(found), device, refusal, memory, compiled)

    def _newly_compiled(self) -> PackCompiled | None:
        """Return the compiled step that was used in this unit, unless it was told before."""
        found = self._class.pack_compiled()
        if found is None or found == self._compiled:
            return None
        self._compiled = found
        return found

    def _timed(self, trainers: Sequence[Trainer]) -> list[PackSeconds]:
        left = trainers
        spare = WARM_UP if self._class not in _warm and len(left) >= sum(self._measured) + WARM_UP else 0
        found: dict[int, float] = {}
        for count in self._measured:
            # Later numbers were weighed by the driver, which knows how much is left to train.
            if len(left) < count or (self._measured[0] == 1 and not is_worth_timing(found, count)):
                break
            if not _fits(self._memory.found(), count):
                break
            warming = min(spare, 1 if count == 1 else 2)
            taken = [self._seconds(left[:warming])] if warming else []
            left, spare = left[warming:], spare - warming
            group, left = left[:count], left[count:]
            with self._memory.watched(count):
                taken.append(self._seconds(group))
            found[count] = min(taken) if warming == count else taken[-1]
        self._together = fastest(found) if found else None
        self._in_groups(left)
        return [PackSeconds(*one) for one in found.items()]

    def _in_groups(self, trainers: Sequence[Trainer]) -> list[PackSeconds]:
        """Train a unit of each, as many together as train fastest; nothing is timed."""
        for group in _groups(trainers, self._together or max(1, len(trainers))):
            self._train(group)
        return []

    def _seconds(self, group: Sequence[Trainer]) -> float:
        """Train a unit of some lanes, and return the seconds that it took."""
        began = time.perf_counter() - waited_s()
        self._train(group)
        return max(time.perf_counter() - waited_s() - began, 1e-9)

    def _train(self, group: Sequence[Trainer]) -> None:
        if len(group) == 1:
            group[0].train()
        elif group:
            self._class.train_pack(group)
            _warm.add(self._class)


def _fits(memory: PackMemory | None, lanes: int) -> bool:
    return memory is None or lanes <= most_that_fit(memory)


def _groups(trainers: Sequence[Trainer], count: int) -> Iterator[Sequence[Trainer]]:
    for begin in range(0, len(trainers), count):
        yield trainers[begin : begin + count]


def waited_s() -> float:
    """Return how long this thread has waited for a processor; 0 where the system does not tell.

    On a machine with other work it is the larger part of the time, and varies more than packs of different size do.
    """
    try:
        return int(_SCHEDSTAT.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0

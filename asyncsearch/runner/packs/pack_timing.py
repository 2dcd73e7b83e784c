"""How many trainings train fastest together, and fit: the first unit of a pack is trained in groups that are measured.

Where memory might be too little, lanes are built as these groups need them, and later no more than fit.
Each lane trains its unit once, so nothing is trained in vain. The fastest number of lanes is kept for the rest of the
work; where twice as many have come together in it, they are timed in turn. A process that has trained nothing yet first
trains a lane alone, and two together, once more, where many sizes are timed: to prepare for that takes longer than ever
after, so the shorter time counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from asyncsearch.events import PackSeconds
from asyncsearch.runner.packs.pack_memory import PackMemoryProbe
from asyncsearch.runner.process.kernel_files import device_name
from asyncsearch.runner.protocol import PackFindings
from asyncsearch.sentences import warn_of_former_name
from asyncsearch.sizing.pack_probe import WARM_UP, GroupSizes, most_that_fit, most_worth
from asyncsearch.trainable import PackOutcome, Trainer
from asyncsearch.trainers.turns import train_or_fail

_SCHEDSTAT = Path("/proc/thread-self/schedstat")
"""On Linux: nanoseconds on a processor, nanoseconds waiting for one, and how often."""
_WATCHED = 1, 2
"""How many lanes train together while memory is watched."""
Built = Callable[[int], Sequence[Trainer]]
"""Builds up to so many more lanes, and returns their trainers at the beginning of their unit."""


class PackHistory:
    """The results of earlier packs of a runner, so that later ones measure less."""

    most_trained = 0
    """The most trainers that have trained together, and had memory enough; 0 if nothing is warm yet."""
    fits: int | None = None
    """How many were last predicted to have memory enough; None if all, or nobody knows."""


class PackTiming:
    """Trains units of one pack.

    Args:
        trainer_class: has ``train_pack``.
        history: of the packs that the runner has trained before; this one adds to it.
        measured: how many lanes to time together in the first unit, group after group.
        memory: watches what one lane and two take.
    """

    def __init__(
        self, trainer_class: type[Trainer], history: PackHistory, measured: Sequence[int], memory: PackMemoryProbe
    ) -> None:
        self._class, self._history, self._measured, self._memory = trainer_class, history, measured, memory
        self._sizes = GroupSizes()
        self._most: int | None = None
        """How many lanes train together at most, since more have too little memory; None for any number."""
        self._has_begun = False
        self._outcome = PackOutcome()
        """How the lanes have trained: the refusal of the last group, and why some were sequential, in the first unit
        in which some were."""
        self._watches: bool | None = None
        self.fits = history.fits
        """How many lanes have memory enough together, as predicted; None if all, or nobody knows."""

    def builds_in_turns(self, lanes: int) -> bool:
        """Return whether the first unit is one in which memory or time is measured, so that lanes are built for it."""
        if self._watches is None:
            self._watches = lanes > max(2, self._history.most_trained) and not self._memory.is_plenty_for(lanes)
        return not self._has_begun and (bool(self._measured) or self._watches)

    def train(self, trainers: Sequence[Trainer], build: Built, waiting: int) -> PackFindings | None:
        """Train a unit of each; return the findings, if there are any.

        Args:
            trainers: of the lanes that are built.
            build: builds more of those that wait.
            waiting: how many wait to be built.
        """
        lanes, is_first = len(trainers) + waiting, not self._has_begun
        known = self._outcome.sequential
        is_measured, self._has_begun = self.builds_in_turns(lanes), True
        found = self._timed(trainers, build, lanes) if is_measured else self._grown(trainers)
        refusal = self._outcome.refused if is_first else ""
        memory = self._memory.found() if is_measured else None
        if not self._measured and memory is not None and most_that_fit(memory) >= lanes:
            memory = None
        device = device_name(os.environ.get("CUDA_VISIBLE_DEVICES")) if found or memory else ""
        sequential = "" if known else self._outcome.sequential
        if not (found or refusal or memory or sequential):
            return None
        return PackFindings(tuple(found), device, refusal, memory, sequential)

    def _timed(self, trainers: Sequence[Trainer], build: Built, lanes: int) -> list[PackSeconds]:
        counts = [*self._counts()]
        left, built = list(trainers), len(trainers)
        is_roomy = self._memory.is_plenty_for(sum(_WATCHED) + WARM_UP)
        spare = WARM_UP if is_roomy and not self._history.most_trained and lanes >= sum(counts) + WARM_UP else 0
        found: dict[int, float] = {}

        def has(count: int) -> bool:
            nonlocal built
            wanted = count - len(left)
            if 0 < wanted <= self._fitting(lanes) - built:
                new = build(wanted)
                left.extend(new)
                built += len(new)
            return len(left) >= count

        while counts:
            wanted = counts.pop(0)
            # Later numbers were weighed by the driver, which knows how much is left to train.
            count = most_worth(found, wanted) if self._measured and self._measured[0] == 1 else wanted
            if count > 2 and found.keys() == {1} and self._fits() is None and not self._memory.is_plenty_for(count):
                # The first training has left less memory than there was: two say how many fit.
                counts.insert(0, wanted - 2)
                count = 2
            warming = min(spare, 1 if count == 1 else 2)
            if not count or not has(warming + count):
                break
            taken = [self._seconds(left[:warming])] if warming else []
            spare -= warming
            group = left[warming : warming + count]
            del left[: warming + count]
            with self._memory.watched(count):
                taken.append(self._seconds(group))
            found[count] = min(taken) if warming == count else taken[-1]
        for count, seconds in found.items() if self._measured else ():
            self._sizes.note(count, seconds)
        self.fits = self._fits()
        self._history.fits = self._history.fits if self.fits is None else self.fits
        most = self._fitting(lanes)
        if most < built:  # to measure took more than fit, which are to train in turns
            self._most = most
        left.extend(build(max(0, most - built)))
        self._in_groups(left)
        return [PackSeconds(*one) for one in found.items()] if self._measured else []

    def _counts(self) -> Sequence[int]:
        """Return how many lanes to time together in turns; two of them, too, where memory is watched."""
        if not self._measured or self._measured[0] != 1 or 2 in self._measured or not self._watches:
            return self._measured or _WATCHED
        return [*_WATCHED, *(count - _WATCHED[-1] for count in self._measured[1:] if count > 2 * _WATCHED[-1])]

    def _grown(self, trainers: Sequence[Trainer]) -> list[PackSeconds]:
        """Train a unit of each; where twice as many have come together as were timed, they are timed."""
        count = 0 if self._outcome.refused or self._most else self._sizes.to_time(len(trainers))
        found = [PackSeconds(count, self._seconds(trainers[:count]))] if count else []
        for one in found:
            self._sizes.note(*one)
        self._in_groups(trainers[count:])
        return found

    def _fitting(self, lanes: int) -> int:
        """Return how many of so many lanes fit, as far as that is known."""
        fits = self._fits()
        return lanes if fits is None else min(lanes, fits)

    def _fits(self) -> int | None:
        memory = self._memory.found()
        return None if memory is None else most_that_fit(memory)

    def _in_groups(self, trainers: Sequence[Trainer]) -> None:
        """Train a unit of each, as many together as train fastest; nothing is timed."""
        size = min(self._sizes.of(len(trainers)), self._most or len(trainers))
        for group in _groups(trainers, max(1, size)):
            self._train(group)

    def _seconds(self, group: Sequence[Trainer]) -> float:
        """Train a unit of some lanes, and return the seconds that it took."""
        began = time.perf_counter() - waited_s()
        self._train(group)
        return max(time.perf_counter() - waited_s() - began, 1e-9)

    def _train(self, group: Sequence[Trainer]) -> None:
        if len(group) == 1:
            train_or_fail(group[0])
        elif group:
            outcome = self._class.train_pack(group) or _former_outcome(self._class)
            self._outcome = outcome._replace(sequential=self._outcome.sequential or outcome.sequential)
            self._history.most_trained = max(len(group), self._history.most_trained)


def _former_outcome(kind: type[Trainer]) -> PackOutcome:
    """Return the outcome that a trainer tells by class methods, as it did before 0.2."""
    refused, sequential = (getattr(kind, name, str)() for name in ("pack_refusal", "pack_in_turn"))
    if refused:
        warn_of_former_name("Trainer.pack_refusal", "PackOutcome.refused", last="0.3")
    if sequential:
        warn_of_former_name("Trainer.pack_in_turn", "PackOutcome.sequential", last="0.3")
    return PackOutcome(refused, sequential)


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

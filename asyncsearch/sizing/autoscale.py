"""How many workers a training gets where some are free: as many as keep its scaling efficiency. Pure.

The higher a rung, the fewer trials train and the longer each, so that workers are free for those that are left (A
System for Massively Parallel Hyperparameter Tuning, section 5.2). What k workers gain is measured on the study's own
gangs, for each structure of a model apart: by trials that trained on k and on fewer, as trials differ in what a unit of
them costs. Until then an analytic prior says it, as in Paleo (Qi, Sparks, Talwalkar 2017): a unit takes its
computation, which the workers share, and the sums of its gradients in a ring.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

import msgspec

from asyncsearch.errors import UsageError

BANDWIDTH = 1.25e9
"""Bytes a second between two workers that the prior supposes: a network of 10 Gbit/s."""
LATENCY_S = 1e-4
"""Seconds of a message between two workers that the prior supposes."""
_START_S = 2.0
"""Seconds to start a gang, before one was measured."""
_KEPT = 15
"""So many of the last measures are kept of each number of workers; their median counts."""
_OWN = 3
"""The same for each trial that is not finished."""


class Autoscale(msgspec.Struct, frozen=True):
    """Let trials have more workers than ``workers_per_trial`` where some are free.

    Raises:
        UsageError: a number is out of its range.
    """

    efficiency: float = 0.75
    """The least scaling efficiency, in (0, 1]: a trial on k workers trains at least k times this as fast as on one, or
    as on ``workers_per_trial`` in proportion, and takes, with its start, at most 1 / ``efficiency`` as many
    worker-seconds."""
    max_size: int | None = None
    """The most workers of a trial; None for as many as the run has."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        limit, most = self.efficiency, self.max_size
        if not _is_share(limit):
            raise UsageError(
                f"efficiency={limit!r} must be above 0 and at most 1: with 0.75, 4 workers train a trial only if they "
                "are at least 3 times as fast as one."
            )
        if most is not None and not _is_count(most):
            raise UsageError(f"max_size={most!r} must be an integer from 1, or None: as many as the run has.")


class Volume(msgspec.Struct, frozen=True):
    """The amount that the workers of a training must tell each other, as its trainer knows."""

    steps: int
    """Sums of gradients in a unit."""
    gradient_bytes: int
    """Bytes of each of them."""
    device: str = ""
    """What it trains on."""

    def seconds(self, size: int) -> float:
        """Return how long the sums of a unit take in a ring of so many workers, by the prior."""
        sent = 2 * (size - 1) / size * self.gradient_bytes / BANDWIDTH
        return self.steps * (sent + 2 * (size - 1) * LATENCY_S)


class OwnUnits(msgspec.Struct):
    """How long the last units of one trial took, on one kind of device."""

    device: str = ""
    unit_s: dict[int, list[float]] = {}
    """Workers -> seconds of the last units."""

    def note(self, device: str, size: int, seconds: float) -> None:
        """Take in the time of a unit; those on another device say nothing any more."""
        if device != self.device:
            self.device, self.unit_s = device, {}
        self.unit_s[size] = [*self.unit_s.get(size, ()), seconds][-_OWN:]

    def on(self, device: str) -> dict[int, float]:
        """Return workers -> median seconds of a unit on a device."""
        return {size: median(times) for size, times in self.unit_s.items()} if device == self.device else {}


class KnownSpeed(msgspec.Struct):
    """How fast gangs train what has one structure on one kind of device: facts of the study's own trainings."""

    unit_s: dict[int, list[float]] = {}
    """Workers -> seconds of the last units."""
    first_s: dict[int, list[float]] = {}
    """Workers -> seconds from the assignment to the end of the first unit, of the last trainings."""
    volume: Volume | None = None
    """The volume that the workers tell each other; None if the trainer does not know."""
    ratios: dict[int, list[float]] = {}
    """Workers -> how many times as long as on ``workers_per_trial`` a unit of one and the same trial took."""

    def note_unit(self, size: int, seconds: float, base: int, own: Mapping[int, float]) -> None:
        """Take in the time of a unit.

        Args:
            size: workers of the trial.
            seconds: that the unit took.
            base: ``workers_per_trial``.
            own: workers -> seconds of earlier units of the same trial.
        """
        self.unit_s[size] = [*self.unit_s.get(size, ()), seconds][-_KEPT:]
        if size == base:
            for other, other_s in own.items():
                self._note_ratio(other, other_s, seconds, base)
            return
        known = [other for other in sorted(own) if other < size and self.ratio(base, other) is not None]
        if known:
            self._note_ratio(size, seconds, own[known[0]] / (self.ratio(base, known[0]) or 1.0), base)

    def _note_ratio(self, size: int, seconds: float, alone_s: float, base: int) -> None:
        if size > base and alone_s > 0:
            self.ratios[size] = [*self.ratios.get(size, ()), seconds / alone_s][-_KEPT:]

    def ratio(self, base: int, size: int) -> float | None:
        """Return how many times as long as on ``base`` workers a unit takes on others; None if no trial shows it."""
        return 1.0 if size == base else median(self.ratios[size]) if size in self.ratios else None

    def like(self, base: int) -> dict[int, float]:
        """Return workers -> seconds of a unit of a trial in the middle; empty if none trained on ``base``."""
        if base not in self.unit_s:
            return {}
        alone_s = median(self.unit_s[base])
        return {base: alone_s} | {size: alone_s * median(found) for size, found in self.ratios.items()}

    def pace(self, base: int, own: Mapping[int, float]) -> float | None:
        """Return how many times as long as of a trial in the middle a unit of one takes; None if it is not shown.

        Args:
            base: ``workers_per_trial``.
            own: workers -> seconds of units of that trial.
        """
        like = self.like(base)
        found = next((size for size in sorted(own) if like.get(size)), None)
        return None if found is None else own[found] / like[found]

    def note_first(self, size: int, seconds: float) -> None:
        """Take in the time from an assignment to the end of its first unit."""
        self.first_s[size] = [*self.first_s.get(size, ()), seconds][-_KEPT:]

    @property
    def measured(self) -> dict[int, float]:
        """Workers -> median seconds of a unit."""
        return {size: median(times) for size, times in self.unit_s.items()}

    def start_s(self, size: int) -> float:
        """Return how long it takes until so many workers train: where it was not measured, as long as any that was."""
        starts = self._starts
        return starts.get(size, max([_START_S, *starts.values()]))

    @property
    def _starts(self) -> dict[int, float]:
        """Workers -> median seconds of a start."""
        units = self.measured.items()
        return {size: max(0.0, median(self.first_s[size]) - unit) for size, unit in units if size in self.first_s}


class KnownSpeeds(msgspec.Struct):
    """How fast gangs train what has one structure."""

    on: dict[str, KnownSpeed] = {}
    """By the device, as its trainer names it; empty if it does not."""
    device: str = ""
    """The one that was told last, which is expected of workers that have not begun."""


class Sized(NamedTuple):
    """How many workers a training gets, and why."""

    size: int
    reason: str


def seconds_at(known: KnownSpeed, base: int, size: int) -> float | None:
    """Return the seconds of a unit of a trial in the middle on so many workers, measured or expected.

    None: none was measured on ``base``, nor on so many.
    """
    like = known.like(base)
    if not like:
        return known.measured.get(size)
    return like[size] if size in like else like[base] * base / size + _overhead(known, like, base, size)


def choose_size(
    scale: Autoscale, known: KnownSpeed, base: int, spare: int, units: int, own: Mapping[int, float]
) -> Sized | None:
    """Return how many workers a training gets; None for ``base``, since no more are free or worth it.

    Args:
        scale: the limits.
        known: what is known of trainings of this structure.
        base: workers that every training gets.
        spare: workers that it may have in all.
        units: units that it trains.
        own: workers -> seconds of units that it has trained. While there are none, it gets no more workers than others
            have shown what they gain by: else it would train on more, and never be compared with itself.
    """
    median_s, pace = seconds_at(known, base, base), known.pace(base, own)
    if median_s is None:
        return None
    alone = median_s * (pace or 1.0)
    for size in range(_most(scale, known, base, spare), base, -base):
        if pace is None and size > max(known.ratios, default=base):
            continue
        unit_s = (seconds_at(known, base, size) or 0.0) * (pace or 1.0)
        if efficiency(alone, unit_s, base, size) < scale.efficiency:
            continue
        is_shorter = units * (alone - unit_s) > known.start_s(size)
        if is_shorter and _spent(known, size, units, unit_s) * scale.efficiency <= _spent(known, base, units, alone):
            return Sized(size, _reason(scale, known, (base, alone), (size, unit_s), units))
    return None


def efficiency(alone: float, unit_s: float, base: int, size: int) -> float:
    """Return the scaling efficiency of ``size`` workers: seconds of a unit on ``base`` and on them, in proportion."""
    return alone * base / (unit_s * size) if unit_s > 0 else 1.0


def is_worth(left_s: float, next_s: float, start_s: float) -> bool:
    """Return whether a training should go on with other workers: it saves more than pausing and starting again cost."""
    return left_s - next_s > 2 * start_s


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _spent(known: KnownSpeed, size: int, units: int, unit_s: float) -> float:
    """Return the worker-seconds of a training with its start, in which none of its workers does anything else."""
    return size * (known.start_s(size) + units * unit_s)


def _most(scale: Autoscale, known: KnownSpeed, base: int, spare: int) -> int:
    """Return the most workers to think of: where nothing is known of the volume, twice as many as were measured."""
    tried = math.inf if known.volume is not None else 2 * max(known.ratios, default=base)
    most = int(min(spare, tried, math.inf if scale.max_size is None else scale.max_size))
    return most // base * base


def _overhead(known: KnownSpeed, measured: Mapping[int, float], base: int, size: int) -> float:
    """Return the expected seconds of a unit on ``size`` workers beyond its share of the computation."""

    def prior(workers: int) -> float:
        if known.volume is None:
            return (workers - 1) / workers - (base - 1) / base
        return known.volume.seconds(workers) - known.volume.seconds(base)

    largest = max(measured)
    if largest <= base or prior(largest) <= 0:
        return 0.0 if known.volume is None else max(0.0, prior(size))
    spent = max(0.0, measured[largest] - measured[base] * base / largest)
    return spent * prior(size) / prior(largest)


def _reason(
    scale: Autoscale, known: KnownSpeed, alone: tuple[int, float], chosen: tuple[int, float], units: int
) -> str:
    source = "measured" if chosen[0] in known.ratios else "expected"
    found = efficiency(alone[1], chosen[1], alone[0], chosen[0])
    words = "1 unit takes" if units == 1 else f"{units} units take"
    return (
        f"{chosen[0]} workers: {words} {units * alone[1]:.3g} s on {alone[0]} and {units * chosen[1]:.3g} s on "
        f"{chosen[0]} ({source}), an efficiency of {found:.2f}, at least {scale.efficiency:g}"
    )

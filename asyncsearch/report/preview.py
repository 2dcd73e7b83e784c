"""What a search would do, said before it runs."""

from __future__ import annotations

import textwrap

import msgspec

from asyncsearch.report.words import count, duration, many
from asyncsearch.schedulers.base import RungForecast, Scheduler

WIDTH = 100


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What an ideal search trains: ``str()`` of it is for people."""

    scheduler: str
    num_trials: int
    parallelism: int
    rungs: tuple[RungForecast, ...]
    warnings: tuple[str, ...] = ()
    total: int | None = None
    """Units of training of all trials together; None: not known, trials end when their function returns."""
    full: int | None = None
    """Units of training every trial to the end."""
    longest: int | None = None
    """Units that one trial trains from its beginning to its end: no number of workers makes the search shorter."""
    seconds_per_unit: float | None = None

    @property
    def seconds(self) -> float | None:
        """Expected wall time: all units shared by the workers, and never less than the longest trial."""
        if self.total is None or self.longest is None or self.seconds_per_unit is None:
            return None
        return max(self.total / self.parallelism, self.longest) * self.seconds_per_unit

    def __str__(self) -> str:
        lines = [self.scheduler, *self._rung_lines(), *self._sums(), *(f"note: {note}" for note in self.warnings)]
        return "\n".join(
            part
            for line in lines
            for part in textwrap.wrap(line, WIDTH, subsequent_indent="    ", drop_whitespace=False)
        )

    __repr__ = __str__

    def _rung_lines(self) -> list[str]:
        rows = [("from", "to", "trials", "units")]
        for rung in self.rungs:
            to = "its end" if rung.to_resource is None else count(rung.to_resource)
            units = "?" if rung.to_resource is None else count(_units(rung))
            rows.append((count(rung.from_resource), to, count(rung.trials), units))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return ["  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]

    def _sums(self) -> list[str]:
        if self.total is None or self.full is None or self.longest is None:
            return ["How much is trained is not known beforehand: every trial trains until its function returns."]
        share = f", {1 - self.total / self.full:.0%} less than" if self.total < self.full else ", as much as"
        to_the_end = f"training all {self.num_trials:,} to the end ({count(self.full)})"
        lines = [
            f"{many(self.total, 'unit')} of training{share} {to_the_end}",
            f"one trial alone takes {many(self.longest, 'unit')}, however many workers there are",
        ]
        if self.seconds is not None:
            lines.append(f"about {duration(self.seconds)} on {many(self.parallelism, 'worker')}")
        return lines


def preview(
    scheduler: Scheduler, num_trials: int, *, parallelism: int = 1, seconds_per_unit: float | None = None
) -> Preview:
    """Return what a search of ``num_trials`` trials would do if every rung passed on exactly its share.

    Raises:
        ResourceError: the search cannot work at all.
    """
    rungs = tuple(scheduler.forecast(num_trials))
    longest = scheduler.max_resource
    return Preview(
        scheduler=scheduler.describe(),
        num_trials=num_trials,
        parallelism=parallelism,
        rungs=rungs,
        warnings=tuple(scheduler.warnings(num_trials)),
        total=None if longest is None else sum(map(_units, rungs)),
        full=None if longest is None else longest * num_trials,
        longest=None if longest is None else max((r.to_resource or 0 for r in rungs if r.trials), default=0),
        seconds_per_unit=seconds_per_unit,
    )


def _units(rung: RungForecast) -> int:
    return 0 if rung.to_resource is None else rung.trials * (rung.to_resource - rung.from_resource)

"""What a search would do, said before it runs."""

from __future__ import annotations

import textwrap

import msgspec

from asyncsearch.report.expected import Cost, Expected
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
    """Units of training every trial to the end; None: there is no ``max_resource``."""
    longest: int | None = None
    """Units that one trial trains from its beginning to its end: no number of workers makes the search shorter."""
    cost: Cost | None = None
    """What a unit costs; None: not known."""
    expected: Expected | None = None
    """What a simulation of the search on ``parallelism`` workers did; None: it is too large, even in parts."""

    @property
    def seconds(self) -> float | None:
        """Expected wall time: as simulated, else all units shared by the workers, and at least the longest trial."""
        if self.cost is not None and self.expected is not None:
            return self.expected.wall_s
        if self.total is None or self.longest is None or self.cost is None:
            return None
        return max(self.total / self.parallelism, self.longest) * self.cost.unit_s

    def __str__(self) -> str:
        lines = [self.scheduler, *self._rung_lines(), *self._sums(), *(f"note: {note}" for note in self.warnings)]
        return "\n".join(
            part
            for line in lines
            for part in textwrap.wrap(line, WIDTH, subsequent_indent="    ", drop_whitespace=False)
        )

    __repr__ = __str__

    def _rung_lines(self) -> list[str]:
        rows: list[tuple[str, ...]] = [("from", "to", "trials", "units")]
        for rung in self.rungs:
            to = "its end" if rung.to_resource is None else count(rung.to_resource)
            units = "?" if rung.to_resource is None else count(_units(rung))
            rows.append((count(rung.from_resource), to, count(rung.trials), units))
        brackets = ["bracket", *(count(rung.bracket) for rung in self.rungs)]
        if len(set(brackets[1:])) > 1:
            rows = [(bracket, *row) for bracket, row in zip(brackets, rows, strict=True)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return ["  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]

    def _sums(self) -> list[str]:
        if self.total is None or self.longest is None:
            return ["How much is trained is not known beforehand: every trial trains until its function returns."]
        return [
            f"{many(self.total, 'unit')} of training{self._compared()}",
            f"one trial alone takes {many(self.longest, 'unit')}, however many workers there are",
            *self._simulated(),
            *self._time(),
        ]

    def _compared(self) -> str:
        if self.full is None or self.total is None:
            return ""
        share = f", {1 - self.total / self.full:.0%} less than" if self.total < self.full else ", as much as"
        return f"{share} training all {self.num_trials:,} to the end ({count(self.full)})"

    def _simulated(self) -> list[str]:
        if self.expected is None:
            return ["not simulated, since the search is too large: all of this is as if each rung passed on its share"]
        reached = ", ".join(f"{count(trials)} reach {count(level)}" for level, trials in self.expected.reached)
        busy, trained = self.expected.busy_share, many(self.expected.trained, "unit")
        on = many(self.parallelism, "worker")
        if self.expected.part is not None:
            trials, workers = self.expected.part
            on = f"{many(workers, 'worker')} with {many(trials, 'trial')} and scaled up to {on}"
        return [
            f"simulated on {on}, busy for {busy:.0%} of the time: {trained}",
            f"of its trials {reached}",
        ]

    def _time(self) -> list[str]:
        on = many(self.parallelism, "worker")
        if self.seconds is not None and self.cost is not None:
            where = f", as measured in {self.cost.source!r}" if self.cost.source else ""
            return [f"about {duration(self.seconds)} on {on}, at {self.cost.unit_s:.3g} s a unit{where}"]
        if self.expected is not None:
            return [f"takes as long on {on} as {self.expected.wall_s:,.0f} units on one"]
        return []


def preview(
    scheduler: Scheduler,
    num_trials: int,
    *,
    parallelism: int = 1,
    cost: Cost | None = None,
    expected: Expected | None = None,
) -> Preview:
    """Return what a search of ``num_trials`` trials would do if every rung passed on exactly its share.

    Args:
        scheduler: of the search.
        num_trials: in all.
        parallelism: how many workers.
        cost: of a unit of training, if it is known.
        expected: how a simulation went.

    Raises:
        ResourceError: the search cannot work at all.
    """
    rungs = tuple(scheduler.forecast(num_trials))
    is_known = all(rung.to_resource is not None for rung in rungs)
    return Preview(
        scheduler=scheduler.describe(),
        num_trials=num_trials,
        parallelism=parallelism,
        rungs=rungs,
        warnings=tuple(scheduler.warnings(num_trials)),
        total=sum(map(_units, rungs)) if is_known else None,
        full=None if scheduler.max_resource is None else scheduler.max_resource * num_trials,
        longest=max((rung.to_resource or 0 for rung in rungs if rung.trials), default=0) if is_known else None,
        cost=cost,
        expected=expected,
    )


def _units(rung: RungForecast) -> int:
    return 0 if rung.to_resource is None else rung.trials * (rung.to_resource - rung.from_resource)

"""A preview of a search: what it would train and cost."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import msgspec

from asyncsearch.errors import ResourceError
from asyncsearch.report.formatting import UNIT, aligned, duration, many, share
from asyncsearch.report.what_if.expected import Cost, Expected
from asyncsearch.schedulers.base_scheduler import RungForecast, Scheduler, SchedulerState

WIDTH = 100
_NO_SHORTER = ", and more workers do not shorten it"


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """The training of an ideal search; ``str()`` of it is for people."""

    scheduler: str
    num_trials: int
    parallelism: int
    rungs: tuple[RungForecast, ...]
    warnings: tuple[str, ...] = ()
    """Sentences for the user about the scheduler, the searcher and the trials that exist."""
    assumption: str = ""
    """Why the number of workers is what it is; empty if the user named it."""
    total: int | None = None
    """Units of training of all trials together; None if unknown, trials end when their function returns."""
    full: int | None = None
    """Units of training every trial to the end; None if there is no ``max_resource``."""
    longest: int | None = None
    """Units of the longest trial: no number of workers makes the search shorter than that."""
    cost: Cost | None = None
    """The cost of a unit; None if unknown."""
    expected: Expected | None = None
    """A simulation on ``parallelism`` workers; None if the search is too large, even in parts."""
    alone: Expected | None = None
    """The same if each trial trains alone and none gets more workers than others; None if it is so, what packs gain is
    not known, or it was not simulated."""
    packed: str = ""
    """How many trials train together, and by what that is reckoned, in words; empty if each trains alone."""
    scaled: str = ""
    """The gain of more workers for a trial of the last rung, in words; empty if all trials have as many."""

    @property
    def saved(self) -> float | None:
        """The share of time packs or more workers save, from 0 to 1, negative where they cost it; None if unknown."""
        if self.alone is None or self.expected is None or not self.alone.wall_s:
            return None
        return 1 - self.expected.wall_s / self.alone.wall_s

    @property
    def seconds(self) -> float | None:
        """Expected seconds: as simulated, else all units shared among workers; at least those of the longest trial."""
        if self.total is None or self.longest is None or self.cost is None:
            return None
        if self.expected is not None:
            # In a part that is scaled up, fewer trials may reach their end.
            least = 0 if self.scaled else self.longest
            return max(self.expected.wall_s, least * self.cost.unit_s)
        return max(self.total / self.parallelism, self.longest) * self.cost.unit_s

    def __str__(self) -> str:
        notes = [f"note: {note}" for note in (self.assumption, *self.warnings) if note]
        lines = [self.scheduler, *self._rung_lines(), *self._sums(), *notes]
        return "\n".join(
            part
            for line in lines
            for part in textwrap.wrap(line, WIDTH, subsequent_indent="    ", drop_whitespace=False)
        )

    __repr__ = __str__

    def _rung_lines(self) -> list[str]:
        rows: list[tuple[str, ...]] = [("from", "to", "trials", "units")]
        for rung in self.rungs:
            to = "its end" if rung.to_resource is None else f"{rung.to_resource:,}"
            units = "?" if rung.to_resource is None else f"{rung.units:,}"
            rows.append((f"{rung.from_resource:,}", to, f"{rung.trials:,}", units))
        brackets = ["bracket", *(f"{rung.bracket:,}" for rung in self.rungs)]
        if len(set(brackets[1:])) > 1:
            rows = [(bracket, *row) for bracket, row in zip(brackets, rows, strict=True)]
        return [f"  {line}" for line in aligned(rows)]

    def _sums(self) -> list[str]:
        if self.total is None or self.longest is None:
            return ["The amount of training is not known in advance: every trial trains until its function returns."]
        return [
            f"{many(self.total, 'unit')} of training{self._compared()}",
            f"the longest trial takes {many(self.longest, 'unit')}{'' if self.scaled else _NO_SHORTER}",
            *self._simulated(),
            *self._time(),
            *self._packs(),
            *self._scaled(),
            f"({UNIT})",
        ]

    def _compared(self) -> str:
        if self.full is None or self.total is None:
            return ""
        less = f", {share(1 - self.total / self.full)} less than" if self.total < self.full else ", as much as"
        return f"{less} training all {self.num_trials:,} to the end ({self.full:,})"

    def _simulated(self) -> list[str]:
        if self.expected is None:
            return [
                "not simulated, since the search is too large: the figures assume that each rung promotes its share"
            ]
        reached = ", ".join(f"{trials:,} reach {level:,}" for level, trials in self.expected.reached)
        busy, trained = self.expected.busy_share, many(self.expected.trained, "unit")
        on = many(self.parallelism, "worker")
        if self.expected.part is not None:
            trials, workers = self.expected.part
            on = f"{many(workers, 'worker')} with {many(trials, 'trial')} and scaled up to {on}"
        lines = [f"simulated on {on}, busy for {busy:.0%} of the time: {trained}", f"of its trials {reached}"]
        if self.expected.shared:
            asked = many(self.expected.trained + self.expected.shared, "unit")
            lines.append(
                f"sharing is counted in the simulation, not in the table: its trials ask for {asked}, and what their "
                f"schedules have in common is trained once, which spares {self.expected.shared:,}"
            )
        return lines

    def _time(self) -> list[str]:
        on = many(self.parallelism, "worker")
        if self.seconds is not None and self.cost is not None:
            where = f", as measured in {self.cost.source!r}" if self.cost.source else ""
            return [f"about {duration(self.seconds)} on {on}, at {self.cost.unit_s:.3g} s a unit{where}"]
        if self.expected is not None:
            least = 0 if self.scaled else self.longest or 0
            return [f"{on}: {_faster(self.expected.trained, max(self.expected.wall_s, least), self.parallelism)}"]
        return []

    def _packs(self) -> list[str]:
        if not self.packed or self.expected is None:
            return []
        if self.alone is None or self.saved is None:
            return [self.packed]
        return [f"{self.packed} That {self._saves()}: if each trained alone, it would take about {self._without()}."]

    def _scaled(self) -> list[str]:
        if not self.scaled or self.alone is None or self.saved is None:
            return [self.scaled] if self.scaled else []
        return [f"{self.scaled} Autoscaling {self._saves()}: without it, it would take about {self._without()}."]

    def _saves(self) -> str:
        saved = self.saved or 0.0
        return f"saves {saved:.0%} of the time" if saved >= 0 else f"costs {-saved:.0%} more time"

    def _without(self) -> str:
        wall_s = 0.0 if self.alone is None else self.alone.wall_s
        return f"{wall_s:,.0f} units of one worker" if self.cost is None else duration(wall_s)


def _faster(units: int, wall_s: float, workers: int) -> str:
    """Return how much faster than one worker, which takes a second a unit, workers are."""
    factor = min(units / wall_s, workers) if wall_s > 0 else 1.0
    return "as fast as one worker" if factor < 1.05 else f"about {factor:.1f} times faster than one worker"


def preview(
    scheduler: Scheduler,
    num_trials: int,
    *,
    parallelism: int = 1,
    cost: Cost | None = None,
    expected: Expected | None = None,
    alone: Expected | None = None,
    packed: str = "",
    scaled: str = "",
    warnings: Sequence[str] | None = None,
    assumption: str = "",
) -> Preview:
    """Return the training of a search of ``num_trials`` trials if every rung promoted exactly its share.

    ``warnings``: sentences to show; None means the warnings of the scheduler. ``assumption``: why there are so many
    workers. ``alone``, ``packed`` and ``scaled`` are as of ``Preview``.

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
        warnings=tuple(scheduler.warnings(num_trials) if warnings is None else warnings),
        total=sum(rung.units for rung in rungs) if is_known else None,
        full=None if scheduler.max_resource is None else scheduler.max_resource * num_trials,
        longest=max((rung.to_resource or 0 for rung in rungs if rung.trials), default=0) if is_known else None,
        cost=cost,
        expected=expected,
        alone=alone,
        packed=packed,
        scaled=scaled,
        assumption=assumption,
    )


def warnings_of(
    scheduler: Scheduler, num_trials: int | None, proposals: int | None, *, is_begun: bool = False
) -> list[str]:
    """Return a scheduler's warnings about a search with the number of trials that it will really have.

    Args:
        num_trials: as requested; None means as many as the searcher proposes.
        proposals: how many the searcher has; None means no limit, or unknown.
        is_begun: whether the search has begun; then it continues however few proposals there are.

    Raises:
        ResourceError: the search cannot work at all.
    """
    if proposals is None or (num_trials is not None and num_trials <= proposals):
        return scheduler.warnings(num_trials)
    try:
        return scheduler.warnings(proposals)
    except ResourceError as error:
        if is_begun:
            return scheduler.warnings(num_trials)
        only = f"the searcher has only {many(proposals, 'proposal')}, however many trials are requested"
        raise ResourceError(f"{error} Note that {only}.") from None


def workers_note(workers: int | None) -> str:
    """Return a sentence about the number of workers that nobody has named; None if it is not known either."""
    if workers is None:
        return (
            "How many workers the run will have is not known before it starts, so these figures are for 1: write e.g. "
            "preview(..., parallelism=8)."
        )
    return f"{many(workers, 'worker')}: as many as a run without parallelism= would have here."


def notes_of(requested: int, num_trials: int, already: int, scheduler: SchedulerState) -> list[str]:
    """Return sentences about the number of trials in a preview.

    Args:
        requested: by the user.
        num_trials: of the preview, at most the number of proposals.
        already: how many the study has.
    """
    notes = []
    if num_trials < requested:
        proposals, trials = many(num_trials, "proposal"), many(num_trials, "trial")
        notes.append(f"The searcher has only {proposals}: this is a search of {trials}, not of {requested:,}.")
    if already:
        more = max(0, num_trials - already)
        verb = "exists" if already == 1 else "exist"
        whole = f"{many(already, 'trial')} {verb} already; these figures are for the whole search from its beginning."
        adds = f"would add {more:,}" if more else "would add 0: no new trial begins"
        notes.append(f"{whole} A run of {many(num_trials, 'trial')} {adds}.")
        if more and scheduler.closes_brackets:
            notes.append(
                "No bracket takes more trials than its run requested: the additional trials of a later run open new "
                "brackets and compete only there, while these figures assume one run for all trials."
            )
    return notes

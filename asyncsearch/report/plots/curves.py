"""The numbers that plots of a study show, as plain values: curves, axes, and the best value over the time of a search.

In the best value so far intermediate values of trials count (ASHA paper, section 3.3). Rule: nothing here draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from asyncsearch.ids import TrialId, trial_name
from asyncsearch.journal.format import Record
from asyncsearch.journal.projection import Projection
from asyncsearch.report.dataframe import dataframe
from asyncsearch.trial import Trial
from asyncsearch.values import finite

if TYPE_CHECKING:
    import pandas


MOST_LEVELS = 12

PlottedPoint = tuple[TrialId, int, float]
"""Trial, resource, and finite value of the metric."""
Curve = list[tuple[int, float]]
"""(Resource, value), in the order of reports."""


def value_range(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis for all values but far outliers: one diverged trial must not flatten the others."""
    ranked = sorted(values)
    low, high = ranked[0], ranked[-1]
    quarter, three_quarters = ranked[len(ranked) // 4], ranked[-1 - len(ranked) // 4]
    reach = 4 * (three_quarters - quarter)
    if reach > 0:
        low, high = max(low, quarter - reach), min(high, three_quarters + reach)
    pad = 0.04 * (high - low) if high > low else abs(low) * 0.05 or 0.5
    return low - pad, high + pad


def whole_ticks(low: int, high: int) -> list[int]:
    """Return about 6 whole numbers from ``low`` to ``high`` at a round distance; resources have no fractions."""
    raw = max(1.0, (high - low) / 6)
    magnitude = 10 ** math.floor(math.log10(raw))
    step = next(magnitude * factor for factor in (1, 2, 5, 10) if magnitude * factor >= raw)
    return [tick for tick in range(low - low % step, high + 1, step) if tick >= low]


def powers_of_ten(low: int, high: int) -> list[int]:
    """Return ticks of a logarithmic axis: powers of ten, with their halves and fifths where there are few of them."""
    powers = [10**power for power in range(len(str(high)))]
    if sum(low <= power <= high for power in powers) < 3:
        powers = [factor * power for power in powers for factor in (1, 2, 5)]
    return [tick for tick in powers if low <= tick <= high]


def curves(points: Sequence[PlottedPoint]) -> dict[TrialId, Curve]:
    """Return the reports of each trial, the trial that reported first coming first."""
    found: dict[TrialId, Curve] = {}
    for trial, resource, value in points:
        found.setdefault(trial, []).append((resource, value))
    return found


def thinned(curve: Curve, most: int) -> Curve:
    """Return at most ``most`` points of a curve, evenly taken, its first and its last one among them."""
    if len(curve) <= most:
        return curve
    step = (len(curve) - 1) / (most - 1)
    return [curve[round(place * step)] for place in range(most)]


def best_so_far(points: Sequence[PlottedPoint], mode: str) -> Curve:
    """Return (units of training of all trials, best value) wherever the best value changes, and at the end."""
    better = min if mode == "min" else max
    spent, done = 0, dict.fromkeys((trial for trial, _, _ in points), 0)
    steps: Curve = []
    for trial, resource, value in points:
        spent += resource - done[trial]
        done[trial] = resource
        if not steps or better(steps[-1][1], value) != steps[-1][1]:
            steps.append((spent, value))
    return [*steps, (spent, steps[-1][1])]


def levels(trials: Sequence[Trial], points: Sequence[PlottedPoint]) -> list[int]:
    """Return the resources at which most trials paused or ended; at most 12."""
    count: dict[int, int] = {}
    for trial in trials:
        if trial.resource:
            count[trial.resource] = count.get(trial.resource, 0) + 1
    if not count:
        count = {max(resource for _, resource, _ in points): 1}
    return sorted(sorted(count, key=lambda level: -count[level])[:MOST_LEVELS])


class Incumbent(msgspec.Struct, frozen=True):
    """A value that was the best one when it was reported, whatever its trial did afterwards."""

    trial: TrialId
    value: float
    """Of the metric, with the user's sign."""
    resource: int
    """Units of training after which the trial reported it."""
    t: float
    """When it was reported: driver's clock, seconds since 1970."""
    elapsed_s: float
    """Seconds from the study's first record to the report, pauses between runs included."""
    trained: int
    """Units of training of all trials up to then, repeated ones included."""

    @property
    def name(self) -> str:
        """The name of the trial that people see."""
        return trial_name(self.trial)


def incumbents(records: Iterable[Record], *, metric: str, mode: str) -> list[Incumbent]:
    """Return every value that was the best one when it was reported, in that order; the last one is the incumbent.

    Of equal values that of the older trial is the better one.
    """
    sign = 1.0 if mode == "min" else -1.0
    projection, found = Projection(), list[Incumbent]()
    best: tuple[float, TrialId] | None = None
    began_s: float | None = None
    for record in records:
        began_s = record.t if began_s is None else began_s
        for report in projection.add(record):
            value = finite(report.metrics.get(metric))
            if value is not None and (best is None or (sign * value, report.trial) < best):
                best = (sign * value, report.trial)
                elapsed_s = report.t - began_s
                found.append(Incumbent(report.trial, value, report.resource, report.t, elapsed_s, projection.trained))
    return found


def incumbents_dataframe(found: Sequence[Incumbent]) -> pandas.DataFrame:
    """Return one row for each incumbent; ``reported`` is in UTC.

    Raises:
        UsageError: pandas is not installed.
    """
    rows = [(one.name, one.value, one.resource, one.t, one.elapsed_s, one.trained) for one in found]
    names = ["trial", "value", "resource", "reported", "elapsed_s", "trained"]
    without = "incumbents() works without."
    return dataframe("incumbents_dataframe", rows, names, times=("reported",), without=without)

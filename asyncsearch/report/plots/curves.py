"""The numbers that plots of a study show, as plain values. Rule: nothing here draws."""

from __future__ import annotations

import math
from collections.abc import Sequence

from asyncsearch.ids import TrialId
from asyncsearch.trial import Trial

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


def whole_ticks(low: int, high: int, about: int = 6) -> list[int]:
    """Return whole numbers from ``low`` to ``high`` at a round distance; resources have no fractions."""
    raw = max(1.0, (high - low) / about)
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

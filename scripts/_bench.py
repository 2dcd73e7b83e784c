"""The output of every benchmark: a table for people, then one line of JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A measured value with a baseline from the same run, in the same unit."""

    name: str
    value: float
    unit: str
    baseline: float

    @property
    def ratio(self) -> float | None:
        """The value divided by its baseline; None if the baseline is zero."""
        return self.value / self.baseline if self.baseline else None


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the smallest of the sorted values that is at least as large as ``percent`` percent of them."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def show(title: str, figures: list[Figure]) -> None:
    """Print a table, and then the line of JSON that ``scripts/write_performance.py`` reads."""
    print(title)
    width = max([22, *(len(figure.name) + 1 for figure in figures)])
    print(f"{'figure':<{width}}{'value':>14}{'baseline':>14}{'ratio':>10}  unit")
    for figure in figures:
        ratio = "-" if figure.ratio is None else f"{figure.ratio:.3g}"
        print(f"{figure.name:<{width}}{figure.value:>14.4g}{figure.baseline:>14.4g}{ratio:>10}  {figure.unit}")
    rows = [
        {"name": f.name, "value": f.value, "unit": f.unit, "baseline": f.baseline, "ratio": f.ratio} for f in figures
    ]
    print(json.dumps(rows))

"""Pictures of a study: ``plot_history(study)``, ``plot_rungs(study)``. Drawn as SVG; nothing needs to be installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from asyncsearch.engine.config import EngineConfig
from asyncsearch.errors import NoTrialsError, UsageError
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.projection import reports
from asyncsearch.nonfinite import finite
from asyncsearch.report.formatting import many, number
from asyncsearch.report.plots.svg import Axis, Plot, dot, frame, line, text
from asyncsearch.store.base_store import Store
from asyncsearch.trial import Trial, TrialState

_BLUE, _ORANGE = "#2f7fd1", "#d9480f"
_MOST_CURVES = 400

PlottedPoint = tuple[TrialId, int, float]
"""Trial, resource, and finite value of the metric."""


class PlottedStudy(Protocol):
    """The part of a ``Study`` that a plot needs."""

    @property
    def name(self) -> str: ...
    @property
    def config(self) -> EngineConfig: ...
    @property
    def store(self) -> Store: ...
    @property
    def trials(self) -> list[Trial]: ...


def plot_history(study: PlottedStudy) -> Plot:
    """Return two panels: each trial's metric over its own training, and the best so far over all training.

    Raises:
        UsageError: it is not a study.
        NoTrialsError: no trial has reported a finite value yet.
    """
    points = _points(study)
    panels = [_curves(study, points), _best_so_far(study, points)]
    return Plot(f"{study.name}: {many(len(study.trials), 'trial')}", 900, 380, panels)


def plot_rungs(study: PlottedStudy) -> Plot:
    """Return the values of trials at each resource where trials paused or ended: filled if they continued from there.

    Raises:
        UsageError: it is not a study.
        NoTrialsError: no trial has reported a finite value yet.
    """
    points = _points(study)
    y = _value_axis([value for _, _, value in points])
    levels = _levels(study.trials, points)
    x = Axis(-0.5, len(levels) - 0.5, 80, 870)
    reached = {trial.id: trial.resource for trial in study.trials}
    shapes = []
    for index, level in enumerate(levels):
        there = {trial: value for trial, resource, value in points if resource == level}
        for place, (trial, value) in enumerate(sorted(there.items())):
            shift = (place + 0.5) / len(there) - 0.5
            continued = reached[trial] > level
            tip = f"{trial_name(trial)}: {number(value)} at {level:,}"
            shapes.append(dot(x(index + 0.7 * shift), _clamp(y, value), _BLUE, tip, is_hollow=not continued))
        shapes.append(text(x(index), 66, many(len(there), "trial"), at="middle", weight=600))
    ticks = [(float(index), f"{level:,}") for index, level in enumerate(levels)]
    axes = frame(x, y, "units of training; filled: trained further", study.config.metric, ticks)
    return Plot(f"{study.name}: rungs", 900, 380, [axes, *shapes])


def _points(study: PlottedStudy) -> list[PlottedPoint]:
    if isinstance(study, type) or not hasattr(study, "store"):
        raise UsageError(f"{study!r} is not a study: write e.g. plot_history(Study.open('studies/digits')).")
    points = []
    for report in reports(read_records(study.store)):
        value = finite(report.metrics.get(study.config.metric))
        if value is not None:
            points.append((report.trial, report.resource, value))
    if not points:
        raise NoTrialsError(f"No trial of {study.name!r} has reported a finite {study.config.metric!r} yet.")
    return points


def _value_axis(values: Sequence[float]) -> Axis:
    """Make room for all values except far outliers: one diverged trial must not compress the others into a line."""
    ranked = sorted(values)
    low, high = ranked[0], ranked[-1]
    quarter, three_quarters = ranked[len(ranked) // 4], ranked[-1 - len(ranked) // 4]
    reach = 4 * (three_quarters - quarter)
    if reach > 0:
        low, high = max(low, quarter - reach), min(high, three_quarters + reach)
    pad = 0.04 * (high - low)
    return Axis(low - pad, high + pad, 320, 80)


def _clamp(y: Axis, value: float) -> float:
    return y(min(max(value, y.low), y.high))


def _curves(study: PlottedStudy, points: Sequence[PlottedPoint]) -> str:
    y = _value_axis([value for _, _, value in points])
    curves: dict[TrialId, list[tuple[int, float]]] = {}
    for trial, resource, value in points:
        curves.setdefault(trial, []).append((resource, value))
    top = max(resource for _, resource, _ in points)
    x = Axis(1, top, 70, 430, is_log=top > 20)
    best = _best(study.trials, study.config.mode)
    shown = [trial for trial in curves if trial != best][-_MOST_CURVES:]
    shapes = [_curve(x, y, curves[trial], _BLUE, 1.0, 0.35) for trial in shown]
    if best in curves:
        shapes.append(_curve(x, y, curves[best], _ORANGE, 2.2, 1.0))
        shapes.append(text(x.end, 66, f"{trial_name(best)}, the best", fill=_ORANGE, at="end"))
    levels = _levels(study.trials, points)
    marks = levels if x.is_log and len(levels) < 8 else [value for value in x.ticks() if value == int(value)]
    ticks = [(float(value), f"{value:,.0f}") for value in marks]
    return frame(x, y, "units of training of the trial", study.config.metric, ticks) + "".join(shapes)


def _curve(x: Axis, y: Axis, reported: Sequence[tuple[int, float]], colour: str, width: float, opacity: float) -> str:
    pixels = [(x(resource), _clamp(y, value)) for resource, value in reported]
    if len(pixels) == 1:
        return dot(*pixels[0], colour, number(reported[0][1]), radius=1.5)
    return line(pixels, colour, width=width, opacity=opacity)


def _best_so_far(study: PlottedStudy, points: Sequence[PlottedPoint]) -> str:
    """The best value over the units of training of all trials together."""
    better = min if study.config.mode == "min" else max
    spent, best, done = 0, points[0][2], dict.fromkeys((trial for trial, _, _ in points), 0)
    steps: list[tuple[int, float]] = []
    for trial, resource, value in points:
        spent += resource - done[trial]
        done[trial] = resource
        new = better(best, value)
        if steps:
            steps.append((spent, best))
        steps.append((spent, new))
        best = new
    x, y = Axis(0, spent, 510, 870), _value_axis([value for _, value in steps])
    curve = line([(x(when), _clamp(y, value)) for when, value in steps], _ORANGE, width=2.2)
    label = text(x.end, 66, f"best so far: {number(best)}", fill=_ORANGE, at="end")
    ticks = [(value, f"{value:,.0f}") for value in x.ticks()]
    return frame(x, y, "units of training of all trials", study.config.metric, ticks) + curve + label


def _best(trials: Sequence[Trial], mode: str) -> TrialId:
    sign = 1 if mode == "min" else -1
    ranked = [(sign * t.value, t.id) for t in trials if t.value is not None and t.state is not TrialState.FAILED]
    return min(ranked)[1] if ranked else TrialId(-1)


def _levels(trials: Sequence[Trial], points: Sequence[PlottedPoint]) -> list[int]:
    """Return the resources at which most trials paused or ended; at most 12."""
    count: dict[int, int] = {}
    for trial in trials:
        if trial.resource:
            count[trial.resource] = count.get(trial.resource, 0) + 1
    if not count:
        count = {max(resource for _, resource, _ in points): 1}
    return sorted(sorted(count, key=lambda level: -count[level])[:12])

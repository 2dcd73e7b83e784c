"""Pictures of a study: ``plot_history(study)``, ``plot_rungs(study)``. They need the extra ``plots``."""

from __future__ import annotations

import math
import reprlib
from typing import Any, Protocol

from asyncsearch.ablation.left_out import PARAMETER
from asyncsearch.engine.config import EngineConfig
from asyncsearch.errors import NoTrialsError, UsageError
from asyncsearch.ids import TrialId, trial_name
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.projection import reports
from asyncsearch.report.formatting import many, number
from asyncsearch.report.plots.charts import BLUE, ORANGE, Plot, load_altair, titled
from asyncsearch.report.plots.curves import (
    Curve,
    PlottedPoint,
    best_so_far,
    curves,
    levels,
    powers_of_ten,
    thinned,
    value_range,
    whole_ticks,
)
from asyncsearch.sentences import in_sentences
from asyncsearch.sequences.svg import INK, PAPER, plain
from asyncsearch.store.base_store import Store
from asyncsearch.trial import Trial
from asyncsearch.values import finite

_MOST_CURVES, _MOST_POINTS = 400, 20_000
_WIDTH, _HEIGHT = 360, 260
_WIDE = 100
"""Ratio of the ends of an axis from which on it is logarithmic."""
_RUNGS_TITLE = "units of training; filled: trained further"


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
    @property
    def best_trial(self) -> Trial: ...


@in_sentences()
def plot_history(study: PlottedStudy) -> Plot:
    """Return two panels: each trial's metric over its own training, and the best so far over all training.

    Raises:
        UsageError: it is not a study, or the extra ``plots`` is not installed.
        NoTrialsError: no trial has reported a finite value yet.
    """
    points = _points(study)
    altair = load_altair("plot_history()")
    panels = altair.hconcat(_curves(altair, study, points), _best_so_far(altair, study, points), spacing=40)
    return titled(panels, f"{study.name}: {many(len(study.trials), 'trial')}")


@in_sentences()
def plot_rungs(study: PlottedStudy) -> Plot:
    """Return the values of trials at each resource where trials paused or ended: filled if they continued from there.

    The best trial is marked at each of them.

    Raises:
        UsageError: it is not a study, or the extra ``plots`` is not installed.
        NoTrialsError: no trial has reported a finite value yet.
    """
    points = _points(study)
    alt = load_altair("plot_rungs()")
    shown = levels(study.trials, points)
    dots = _dots(study, points, shown)
    names = [f"{level:,}" for level in shown]
    encoded = {
        "x": alt.X("level:N", sort=names, title=_RUNGS_TITLE, axis=alt.Axis(labelAngle=0)),
        "y": _y(alt, [dot["value"] for dot in dots], study.config.metric),
        "xOffset": alt.XOffset("place:Q", scale=alt.Scale(domain=[-0.75, 0.75])),
        "fill": alt.condition("datum.continued", alt.value(BLUE), alt.value(PAPER)),
        "tooltip": ["trial:N", "value:Q", "level:N"],
    }
    best = _best(study, points)
    marked = [dot for dot in dots if best is not None and dot["trial"] == trial_name(best)]
    others = [dot for dot in dots if dot not in marked]
    fill = alt.condition("datum.continued", alt.value(ORANGE), alt.value(PAPER))
    circles = alt.Chart(alt.Data(values=others)).mark_circle(size=36, stroke=BLUE, strokeWidth=1, opacity=0.8)
    rings = alt.Chart(alt.Data(values=marked)).mark_circle(size=70, stroke=ORANGE, strokeWidth=2, opacity=1)
    ends = [
        {"level": dot["level"], "value": dot["value"], "place": dot["place"], "text": f"{dot['trial']}, the best"}
        for dot in marked[-1:]
    ]
    low, high = encoded["y"].to_dict()["scale"]["domain"]
    is_high = bool(marked) and marked[-1]["value"] > low + 0.85 * (high - low)  # above it would be in the headings
    named = {name: channel for name, channel in encoded.items() if name in ("x", "y", "xOffset")}
    counts = [{"level": name, "text": many(sum(dot["level"] == name for dot in dots), "trial")} for name in names]
    words = alt.Chart(alt.Data(values=counts)).mark_text(fontWeight=600, color=INK)
    labels = words.encode(x=encoded["x"], y=alt.value(-10), text="text:N")
    return titled(
        alt.layer(
            circles.encode(**encoded),
            rings.encode(**{**encoded, "fill": fill}),
            *(layer for end in ends for layer in _label(alt, end, named, is_below=is_high)),
            labels,
        ).properties(width=2 * _WIDTH + 60, height=_HEIGHT),
        f"{study.name}: rungs",
    )


def _dots(study: PlottedStudy, points: list[PlottedPoint], shown: list[int]) -> list[dict[str, Any]]:
    """Return a dot for each trial that reported at a level; ``place`` spreads those of one level from -0.5 to 0.5."""
    reached = {trial.id: trial.resource for trial in study.trials}
    dots = []
    for level in shown:
        there = sorted({trial: value for trial, resource, value in points if resource == level}.items())
        for place, (trial, value) in enumerate(there):
            shift = (place + 0.5) / len(there) - 0.5
            continued = reached[trial] > level
            names = {"trial": trial_name(trial), "level": f"{level:,}"}
            dots.append({**names, "value": value, "place": shift, "continued": continued})
    return dots


def require_study(study: object, function: str) -> None:
    """Check that something is a study, which a function is to draw.

    Raises:
        UsageError: it is not.
    """
    if isinstance(study, type) or not hasattr(study, "store"):
        place = repr(study) if isinstance(study, str) else "'studies/digits'"
        raise UsageError(f"{reprlib.repr(study)} is not a study: write e.g. {function}(Study.open({place})).")


def _points(study: PlottedStudy) -> list[PlottedPoint]:
    require_study(study, "plot_history")
    points = []
    for report in reports(read_records(study.store)):
        value = finite(report.metrics.get(study.config.metric))
        if value is not None:
            points.append((report.trial, report.resource, value))
    if not points:
        raise NoTrialsError(f"No trial of {study.name!r} has reported a finite {study.config.metric!r} yet.")
    return points


def _y(alt: Any, values: list[float], metric: str) -> Any:
    """Return the axis of the metric; values beyond it are drawn at its end."""
    scale = alt.Scale(domain=value_range(values), clamp=True, zero=False, nice=False)
    return alt.Y("value:Q", title=plain(metric), scale=scale, axis=alt.Axis(tickCount=6))


def _y_of_all(alt: Any, values: list[float], metric: str) -> Any:
    """Return the axis of the best values so far: the first ones are no outliers, so it is logarithmic if need be."""
    low, high = min(values), max(values)
    if low > 0 and high >= _WIDE * low:
        scale = alt.Scale(type="log", domain=[low, high], nice=False, padding=6)
        powers = [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
        ticks = {"values": powers[:: 1 + len(powers) // 8]} if len(powers) > 1 else {"tickCount": 6}
        return alt.Y("value:Q", title=plain(metric), scale=scale, axis=alt.Axis(format="~g", **ticks))
    pad = 0.04 * (high - low) if high > low else abs(low) * 0.05 or 0.5
    scale = alt.Scale(domain=(low - pad, high + pad), zero=False, nice=False)
    return alt.Y("value:Q", title=plain(metric), scale=scale, axis=alt.Axis(tickCount=6))


def _curves(alt: Any, study: PlottedStudy, points: list[PlottedPoint]) -> Any:
    found = curves(points)
    best = _best(study, points)
    shown = [trial for trial in found if trial != best][-_MOST_CURVES:]
    most = max(20, _MOST_POINTS // (len(shown) + 1))
    top = max(resource for _, resource, _ in points)
    is_log = top > 20
    rungs = levels(study.trials, points)
    marks = rungs if len(rungs) < 8 else powers_of_ten(1, top)
    axis = alt.Axis(values=marks if is_log else whole_ticks(1, top))
    scale = alt.Scale(type="log" if is_log else "linear", domain=[1, max(top, 2)], nice=False, padding=6)
    x = alt.X("units:Q", title="units of training of the trial", scale=scale, axis=axis)
    encoded = {"x": x, "y": _y(alt, [value for _, _, value in points], study.config.metric)}
    single = [trial for trial in shown if len(found[trial]) == 1]

    def chart(trials: list[TrialId]) -> Any:
        return _flattened(alt, {trial: thinned(found[trial], most) for trial in trials}).encode(**encoded)

    tips = ["trial:N", "units:Q", "value:Q"]
    layers = [
        chart(shown).mark_line(color=BLUE, strokeWidth=1, opacity=0.35).encode(detail="trial:N", tooltip=tips),
        chart(single).mark_circle(color=BLUE, size=8, opacity=0.75).encode(tooltip=tips),
    ]
    if best is None:
        return _panel(alt, layers)
    point = {"color": ORANGE} if len(found[best]) == 1 else False  # a line through one point is not seen
    layers.append(chart([best]).mark_line(color=ORANGE, strokeWidth=2.2, point=point))
    units, value = found[best][-1]
    is_right = (math.log(units) / math.log(max(top, 2)) if is_log else (units - 1) / max(1, top - 1)) > 0.5
    end = {"units": units, "value": value, "text": f"{trial_name(best)}, the best"}
    return _panel(alt, [*layers, *_label(alt, end, encoded, "right" if is_right else "left")])


def _best(study: PlottedStudy, points: list[PlottedPoint]) -> TrialId | None:
    """Return the best trial that reported; None if none did, or the trials are variants of an ablation study."""
    if any(PARAMETER in trial.params for trial in study.trials[:1]):
        return None
    try:
        best = study.best_trial.id
    except NoTrialsError:
        return None
    return best if any(trial == best for trial, _, _ in points) else None


def _label(
    alt: Any, end: dict[str, Any], encoded: dict[str, Any], align: str = "center", *, is_below: bool = False
) -> list[Any]:
    """Return layers with a text above a point, or below it; ``align``: what of the text is there."""
    place = {"align": align, "baseline": "bottom", "dy": -7, "dx": {"right": 3, "left": -3, "center": 0}[align]}
    place |= {"baseline": "top", "dy": 8} if is_below else {}
    words = alt.Chart(alt.Data(values=[end])).encode(**encoded, text="text:N")
    # First as paper that is wider than the letters, so that lines do not cross them.
    halo = words.mark_text(**place, fontWeight=600, color=PAPER, stroke=PAPER, strokeWidth=4, strokeJoin="round")
    return [halo, words.mark_text(**place, fontWeight=600, color=ORANGE)]


def _flattened(alt: Any, drawn: dict[TrialId, Curve]) -> Any:
    """Return a chart with one row a trial, which Vega unfolds: Altair checks each row, at 10,000 for seconds."""
    rows = [
        {"trial": trial_name(trial), "units": [at for at, _ in curve], "value": [value for _, value in curve]}
        for trial, curve in drawn.items()
    ]
    return alt.Chart(alt.Data(values=rows)).transform_flatten(["units", "value"])


def _best_so_far(alt: Any, study: PlottedStudy, points: list[PlottedPoint]) -> Any:
    steps = best_so_far(points, study.config.mode)
    made = [{"units": spent, "value": value} for spent, value in steps]
    trained = steps[-1][0]
    first = max(1, steps[0][0])
    is_log = trained >= _WIDE  # most of the gain comes first: a linear axis would show a step, and then a flat line
    scale = (
        alt.Scale(type="log", domain=[first, trained], nice=False)
        if is_log
        else alt.Scale(domain=[0, trained], nice=False)
    )
    axis = alt.Axis(values=powers_of_ten(first, trained) if is_log else whole_ticks(0, trained), format=",~d")
    encoded = {
        "x": alt.X("units:Q", title="units of training of all trials", scale=scale, axis=axis),
        "y": _y_of_all(alt, [value for _, value in steps], study.config.metric),
    }
    line = alt.Chart(alt.Data(values=made)).mark_line(color=ORANGE, strokeWidth=2.2, interpolate="step-after")
    end = {"units": trained, "value": steps[-1][1], "text": f"best so far: {number(steps[-1][1])}"}
    return _panel(alt, [line.encode(**encoded), *_label(alt, end, encoded, "right")])


def _panel(alt: Any, layers: list[Any]) -> Any:
    return alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT)

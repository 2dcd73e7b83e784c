"""Pictures of the workers, by the extra ``plots``: who trained what when, and where their time went."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from asyncsearch.errors import NoTrialsError
from asyncsearch.ids import WorkerId, trial_name, worker_name
from asyncsearch.journal.opening import read_records
from asyncsearch.report.formatting import cut, duration, in_place_text, many, share
from asyncsearch.report.plots.charts import ORANGE, Plot, load_altair, titled
from asyncsearch.report.plots.plots import PlottedStudy, require_study
from asyncsearch.report.time_words import WORDS
from asyncsearch.report.timeline import (
    SpanEnd,
    WorkerSpan,
    WorkerTimeline,
    joint_timeline,
    worker_timeline,
)
from asyncsearch.sentences import in_sentences
from asyncsearch.sequences.svg import BESIDE, FAINT, GRID, INK, PAPER, plain
from asyncsearch.time_spent.account import TimeSpent
from asyncsearch.time_spent.reading import time_spent

_WIDTH, _HEIGHT = 760, 720
_ROW, _LANE, _LABEL = 24, 7, 13
"""Pixels: the most for a worker's row, and the least for a lane in it and between two labels."""
_NAME = 20
"""Characters of the name of a study among several."""
_CHARACTER = 6.5
"""Width of a digit, at most, in a bar's label; pixels."""
_FURTHER = "trained further"
"""Of a training that went on from a checkpoint: in a search with rungs, that of a promoted trial."""
_COLOURS = {
    SpanEnd.TRAINED.value: "#5298e0",
    _FURTHER: "#2a6cb5",
    SpanEnd.STOPPED.value: "#8c959f",
    SpanEnd.INTERRUPTED.value: "#b8860b",
    SpanEnd.FAILED.value: "#cf3a2b",
    SpanEnd.LOST.value: ORANGE,
    SpanEnd.RUNNING.value: "#2da44e",
}
_UNITS = ((86_400.0, "days", 3), (3_600.0, "hours", 3), (60.0, "minutes", 3), (1.0, "seconds", 0))
"""Seconds, name, and how many of them there must be to count in them."""
_TIPS = ("trial", "worker", "end", "units", "took", "reason")


@in_sentences()
def plot_timeline(study: PlottedStudy, *others: PlottedStudy) -> Plot:
    """Return a row for each worker with a bar for each training, over the time of the search by the driver's clock.

    The time in which a worker had no work is grey, and where no driver ran is a dashed line. Lanes of a pack lie above
    each other. With ``others``, which ran on the same ``Cluster``, the rows of their workers follow below, over the
    same time.

    Raises:
        UsageError: it is not a study, or the extra ``plots`` is not installed.
        NoTrialsError: no worker has had work yet.
    """
    if others:
        return _joint((study, *others))
    found = _timeline_of(study)
    names = {worker: worker_name(worker) for worker in found.workers}
    return titled(_Sheet(load_altair("plot_timeline()"), found, names).chart(), _title(study.name, found))


def _timeline_of(study: PlottedStudy) -> WorkerTimeline:
    require_study(study, "plot_timeline")
    found = worker_timeline(read_records(study.store), is_over=not study.store.is_locked())
    if not found.spans:
        raise NoTrialsError(f"No worker of {study.name!r} has had work yet.")
    return found


def _joint(studies: Sequence[PlottedStudy]) -> Plot:
    timelines = [_timeline_of(study) for study in studies]
    shown = [cut(study.name, _NAME) for study in studies]
    if len({*shown}) < len(shown):
        shown = [f"{place} {name}" for place, name in enumerate(shown, 1)]
    found, names = joint_timeline(dict(zip(shown, timelines, strict=True)))
    title = _joint_title(", ".join(shown), found)
    return titled(_Sheet(load_altair("plot_timeline()"), found, names).chart(), title)


def _title(name: str, found: WorkerTimeline) -> str:
    took, busy = _took(found.elapsed(found.end_s)), share(found.busy_share)
    return f"{cut(name, 40)}: {many(len(found.workers), 'worker')}, busy for {busy} of {took}"


def _joint_title(names: str, found: WorkerTimeline) -> str:
    # Rows are no workers of the cluster here: a slot that changes its study has a row in each.
    most, busy = many(found.most_at_once, "worker"), share(found.busy_share)
    return f"{cut(names, 40)}: at most {most} at once, busy for {busy} of their time"


def _took(seconds: float) -> str:
    return duration(seconds) if seconds >= 60 else f"{seconds:.3g} s"


def _end_of(span: WorkerSpan) -> str:
    return _FURTHER if span.end is SpanEnd.TRAINED and span.start else span.end.value


class _Sheet:
    """A timeline with its scales."""

    def __init__(self, alt: Any, found: WorkerTimeline, names: Mapping[WorkerId, str]) -> None:
        self._alt, self._found, self._names = alt, found, names
        total_s = found.elapsed(found.end_s)
        self._unit_s, self._unit = next((s, name) for s, name, least in _UNITS if total_s >= least * s)
        self._total = total_s / self._unit_s or 1.0
        self._rows = {worker: row for row, worker in enumerate(found.workers)}
        lanes = max(span.positions for span in found.spans)
        self._row_px = max(min(_ROW, _HEIGHT / len(self._rows)), min(lanes, _ROW) * _LANE / 2, 4.0)

    def chart(self) -> Any:
        """Return the whole picture."""
        layers = [self._presences(), self._spans(), *self._labels(), *self._losses(), *self._pauses()]
        return self._alt.layer(*layers).properties(width=_WIDTH, height=round(self._row_px * len(self._rows)))

    def _at(self, t: float) -> float:
        return self._found.elapsed(t) / self._unit_s

    def _x(self) -> Any:
        scale = self._alt.Scale(domain=[0, self._total], nice=False)
        return self._alt.X("x:Q", title=f"{self._unit} of the search", scale=scale, axis=self._alt.Axis(grid=False))

    def _y(self) -> Any:
        """Return the axis of workers, of which as many are named as there is room for."""
        every = -(-_LABEL // round(self._row_px)) if self._row_px < _LABEL else 1
        names = [self._names[worker] for worker in self._rows]
        axis = self._alt.Axis(
            values=[row + 0.5 for row in range(0, len(names), every)],
            labelExpr=f"{json.dumps(names)}[floor(datum.value)]",
            grid=False,
            ticks=False,
            domain=False,
        )
        scale = self._alt.Scale(domain=[len(names), 0], nice=False)
        return self._alt.Y("y:Q", title=None, axis=axis, scale=scale)

    def _bars(self, rows: Sequence[dict[str, Any]]) -> Any:
        """Return a chart of bars from one row, which Vega unfolds: Altair checks each row, at 10,000 for seconds."""
        names = list(rows[0])
        folded = {name: [row[name] for row in rows] for name in names}
        chart = self._alt.Chart(self._alt.Data(values=[folded])).transform_flatten(names)
        return chart.encode(x=self._x(), x2="x2:Q", y=self._y(), y2="y2:Q")

    def _presences(self) -> Any:
        rows = [
            {"x": self._at(one.start_s), "x2": self._at(one.end_s), **self._inside(one.worker, 0, 1)}
            for one in self._found.presences
        ]
        absent = {"x": 0.0, "x2": 0.0, "y": 0.0, "y2": 0.0}
        return self._bars(rows or [absent]).mark_rect(color=GRID)

    def _spans(self) -> Any:
        alt, spans = self._alt, self._found.spans
        ends = set(map(_end_of, spans))
        shown = {end: colour for end, colour in _COLOURS.items() if end in ends}
        colours = alt.Scale(domain=list(shown), range=list(shown.values()))
        legend = alt.Legend(title=None, orient="top", direction="horizontal")
        bars = self._bars([self._row(span, worker) for span in spans for worker in span.workers])
        # White edges would hide bars that are as narrow as they.
        edge = {"stroke": PAPER, "strokeWidth": 0.5} if len(spans) <= 20 * len(self._rows) else {}
        marked = bars.mark_rect(**edge)
        return marked.encode(
            color=alt.Color("end:N", scale=colours, legend=legend), tooltip=[f"{tip}:N" for tip in _TIPS]
        )

    def _row(self, span: WorkerSpan, worker: WorkerId) -> dict[str, Any]:
        return {
            "x": self._at(span.start_s),
            "x2": self._at(span.end_s),
            **self._inside(worker, span.position, span.positions),
            "end": _end_of(span),
            "trial": ", ".join(map(trial_name, span.trials[:3])),
            "worker": self._names[worker],
            "units": f"{span.start:,} to {span.resource:,}{in_place_text(span.in_place)}",
            "took": _took(span.end_s - span.start_s),
            "reason": plain(cut(span.reason, 80)),
        }

    def _inside(self, worker: WorkerId, position: int, positions: int) -> dict[str, float]:
        """Return where a lane lies in the row of its worker, of which a tenth above and below is empty."""
        top, height = self._rows[worker] + 0.1, 0.8 / positions
        return {"y": top + position * height, "y2": top + (position + 1) * height}

    def _labels(self) -> list[Any]:
        """Return the numbers of trials, in bars that are large enough."""
        rows = [
            {"x": (self._at(span.start_s) + self._at(span.end_s)) / 2, "y": (box["y"] + box["y2"]) / 2, "text": text}
            for span in self._found.spans
            for worker in span.workers
            for text, box in [(str(span.trials[0]), self._inside(worker, span.position, span.positions))]
            if self._fits(span, text)
        ]
        words = self._alt.Chart(self._alt.Data(values=rows)).mark_text(color=BESIDE, fontSize=10)
        return [words.encode(x=self._x(), y=self._y(), text="text:N")] if rows else []

    def _fits(self, span: WorkerSpan, text: str) -> bool:
        width = (self._at(span.end_s) - self._at(span.start_s)) / self._total * _WIDTH
        high_enough = 0.8 * self._row_px / span.positions >= 11
        return high_enough and width >= _CHARACTER * (len(text) + 1)

    def _losses(self) -> list[Any]:
        """Return a cross where a worker was lost."""
        rows = [
            {"x": self._at(one.end_s), "y": self._rows[one.worker] + 0.5, "reason": plain(cut(one.loss, 80))}
            for one in self._found.presences
            if one.loss
        ]
        mark = {"shape": "cross", "angle": 45, "color": ORANGE, "size": 40, "opacity": 1}
        crosses = self._alt.Chart(self._alt.Data(values=rows)).mark_point(filled=True, **mark)
        return [crosses.encode(x=self._x(), y=self._y(), tooltip="reason:N")] if rows else []

    def _pauses(self) -> list[Any]:
        """Return a dashed line where time is left out, in which no driver ran."""
        rows = [{"x": self._at(one.start_s), "took": duration(one.end_s - one.start_s)} for one in self._found.pauses]
        lines = self._alt.Chart(self._alt.Data(values=rows)).mark_rule(color=FAINT, strokeDash=[4, 3])
        return [lines.encode(x=self._x(), tooltip="took:N")] if rows else []


_WIDTH, _ROW, _MOST_ROWS = 620, 22, 40
_ALL = "all workers"
_KIND_COLOURS = {
    "training": "#2a6cb5",
    "evaluating": "#5298e0",
    "saving": "#2da44e",
    "loading": "#86c79a",
    "entering": "#b8860b",
    "starting": "#d9a93b",
    "verdict": "#a371c9",
    "waiting": "#8c959f",
    "in_vain": ORANGE,
    "unmeasured": "#c2c8cf",
}
"""Of the kinds of time, in the order of the bars: useful, moving a trial, waiting, lost."""


@in_sentences()
def plot_time_spent(study: PlottedStudy) -> Plot:
    """Return a bar for each worker, and one for all of them: which part of its time was for what.

    Raises:
        UsageError: it is not a study, or the extra ``plots`` is not installed.
        NoTrialsError: no worker has had any time yet.
    """
    require_study(study, "plot_time_spent")
    records = ((record.t, record.event, record.actions) for record in read_records(study.store))
    found = time_spent(records, is_over=not study.store.is_locked())
    if not found.total.total:
        raise NoTrialsError(f"No worker of {study.name!r} has had any time yet.")
    alt = load_altair("plot_time_spent()")
    took, training = duration(found.total.total / 1000), share(found.total.share("training"))
    return titled(_chart(alt, found), f"{cut(study.name, 40)}: worker time {took}, training for {training} of it")


def _chart(alt: Any, found: TimeSpent) -> Any:
    accounts = {_ALL: found.total}
    accounts |= {worker_name(worker): one for worker, one in list(found.by_worker.items())[:_MOST_ROWS]}
    kinds = [kind for kind in _KIND_COLOURS if getattr(found.total, kind)]
    names = [f"{WORDS[kind]} {share(found.total.share(kind))}" for kind in kinds]
    rows = [
        {"worker": worker, "kind": name, "share": one.share(kind), "place": place, "seconds": f"{amount / 1000:,.3f}"}
        for worker, one in accounts.items()
        for place, (kind, name) in enumerate(zip(kinds, names, strict=True))
        if (amount := getattr(one, kind))
    ]
    legend = alt.Legend(title=None, labelColor=INK, orient="right", symbolType="square", labelLimit=400)
    colour = alt.Scale(domain=names, range=[_KIND_COLOURS[kind] for kind in kinds])
    bars = alt.Chart(alt.Data(values=rows)).mark_bar(height={"band": 0.8})
    return bars.encode(
        x=alt.X("share:Q", title="share of the time", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        y=alt.Y("worker:N", title=None, sort=list(accounts)),
        color=alt.Color("kind:N", scale=colour, legend=legend),
        order=alt.Order("place:Q"),
        tooltip=["worker:N", "kind:N", "seconds:N"],
    ).properties(width=_WIDTH, height=alt.Step(_ROW))

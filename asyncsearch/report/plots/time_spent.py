"""The picture of where the workers' time went: ``plot_time_spent(study)``. It needs the extra ``plots``."""

from __future__ import annotations

from typing import Any

from asyncsearch.errors import NoTrialsError
from asyncsearch.ids import worker_name
from asyncsearch.journal.opening import read_records
from asyncsearch.report.formatting import cut, duration, share
from asyncsearch.report.plots.charts import ORANGE, Plot, load_altair, titled
from asyncsearch.report.plots.plots import PlottedStudy, require_study
from asyncsearch.report.time_words import WORDS
from asyncsearch.sentences import in_sentences
from asyncsearch.sequences.svg import INK
from asyncsearch.time_spent.account import TimeSpent
from asyncsearch.time_spent.reading import time_spent

_WIDTH, _ROW, _MOST_ROWS = 620, 22, 40
_ALL = "all workers"
_COLOURS = {
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
    kinds = [kind for kind in _COLOURS if getattr(found.total, kind)]
    names = [f"{WORDS[kind]} {share(found.total.share(kind))}" for kind in kinds]
    rows = [
        {"worker": worker, "kind": name, "share": one.share(kind), "place": place, "seconds": f"{amount / 1000:,.3f}"}
        for worker, one in accounts.items()
        for place, (kind, name) in enumerate(zip(kinds, names, strict=True))
        if (amount := getattr(one, kind))
    ]
    legend = alt.Legend(title=None, labelColor=INK, orient="right", symbolType="square", labelLimit=400)
    colour = alt.Scale(domain=names, range=[_COLOURS[kind] for kind in kinds])
    bars = alt.Chart(alt.Data(values=rows)).mark_bar(height={"band": 0.8})
    return bars.encode(
        x=alt.X("share:Q", title="share of the time", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        y=alt.Y("worker:N", title=None, sort=list(accounts)),
        color=alt.Color("kind:N", scale=colour, legend=legend),
        order=alt.Order("place:Q"),
        tooltip=["worker:N", "kind:N", "seconds:N"],
    ).properties(width=_WIDTH, height=alt.Step(_ROW))

"""Table, tree, timeline and frame say the same of a trial, while its search is interrupted and once it is over."""

from __future__ import annotations

import contextlib
import io
import re
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch import cli
from asyncsearch.journal.opening import read_records
from asyncsearch.report.live.table import table
from asyncsearch.report.plots.plots import plot_history, plot_rungs
from asyncsearch.report.timeline import SpanEnd, worker_timeline
from asyncsearch.report.tree.view import Kind
from asyncsearch.schedulers import ASHA, FIFO, PBT, Hyperband, MedianStopping
from asyncsearch.searchers import Ablation
from asyncsearch.space import loguniform
from asyncsearch.study.study import Study
from asyncsearch.trial import TO_BE_CONTINUED
from tests.shares import names

OVER = {"stopped early", "trained to the end", "failed"}
SCHEDULERS: dict[str, Callable[[], Any]] = {
    "asha": lambda: ASHA(max_resource=9),
    "asha that stops": lambda: ASHA(max_resource=9, variant="stopping"),
    "median": lambda: MedianStopping(max_resource=6),
    "hyperband": lambda: Hyperband(max_resource=9),
    "pbt": lambda: PBT(population=4, perturbation_interval=2, max_resource=6),
    "fifo": lambda: FIFO(max_resource=3),
}


class Interrupted:
    """Trains, and interrupts the search once, at its n-th report; some trials fail."""

    def __init__(self, at: int, once: Path) -> None:
        self.left, self.once = at, once

    def __call__(self, trial: Any) -> None:
        state = {"counters": {"w": 1.0}}
        for _ in trial.epochs(state=state):
            state["counters"]["w"] *= 1 - trial.params["lr"]
            self.left -= 1
            if self.left == 0 and not self.once.exists():
                self.once.touch()
                signal.raise_signal(signal.SIGINT)
            if trial.params["lr"] > 0.6:
                raise ValueError("exploded")
            trial.report(loss=state["counters"]["w"])


def require_same_words(study: Study) -> None:
    trials, tree, status = study.trials, study.tree(), study._status()
    words = {trial.id: trial.words for trial in trials}
    assert {path.trial: path.words for path in tree.stages.paths} == words
    assert {row.name: status.words(row.state) for row in status.rows}.items() <= {
        t.name: t.words for t in trials
    }.items()
    for path in tree.stages.paths:
        assert path.may_go_on == (path.words not in OVER)
    kinds = {interval.kind for node in tree.stages.nodes.values() for interval in node.intervals}
    assert not kinds & {Kind.RUNNING, Kind.WAITING}, "no run is in progress"
    assert (Kind.CONTINUED in kinds) <= (TO_BE_CONTINUED in words.values())
    assert ("may go on" in tree.svg) == any(word not in OVER for word in words.values())
    for picture in (tree.svg, str(tree)):
        assert "waiting" not in picture
        assert "running" not in picture
    spans = worker_timeline(read_records(study.store), is_over=True).spans
    assert SpanEnd.RUNNING not in {span.end for span in spans}
    for span in spans:
        if span.end is SpanEnd.STOPPED:
            assert {words[trial] for trial in span.trials} == {"stopped early"}
    best = [status.marked] if status.marked else []
    assert re.findall(r"(trial-\d+)[^<]*, the best", tree.svg) == best
    assert not best or best == [study.best_trial.name]
    frame = study.trials_dataframe()
    assert list(frame["state"]) == list(words.values())


@pytest.mark.parametrize("name", names(tuple(SCHEDULERS), ["asha", "pbt"]))
@given(at=st.integers(1, 20))
@settings(max_examples=3, deadline=None)
def test_no_picture_contradicts_the_table_when_interrupted_or_over(name: str, at: int) -> None:
    pytest.importorskip("pandas")
    with tempfile.TemporaryDirectory() as folder:
        space = {"lr": loguniform(1e-2, 0.9)}
        options: dict[str, Any] = {"space": space, "metric": "loss", "mode": "min", "scheduler": SCHEDULERS[name]()}
        train = Interrupted(at, Path(folder) / "interrupted")
        study = Study(train, store=Path(folder) / "s", backend="inline", max_failures=0, **options)
        with contextlib.suppress(KeyboardInterrupt):
            study.run(8, display="none")
        opened = Study.open(study.store.shown)
        require_same_words(opened)
        if TO_BE_CONTINUED in {trial.words for trial in opened.trials}:
            assert SpanEnd.INTERRUPTED in {span.end for span in worker_timeline(read_records(study.store)).spans}
            assert TO_BE_CONTINUED in table(opened._status())
        study.run(8, display="none")
        require_same_words(Study.open(study.store.shown))
        assert {trial.words for trial in study.trials} <= OVER


def judged(trial: Any) -> None:
    trial.report(score=float(trial.ablation.keeps("age")) + trial.seed)


def test_no_variant_of_an_ablation_study_is_called_the_best(tmp_path: Path) -> None:
    options: dict[str, Any] = {"space": {"depth": 4}, "metric": "score", "mode": "max", "backend": "inline"}
    searcher = Ablation(features=["age", "sex"], seeds=2)
    study = Study(judged, searcher=searcher, store=tmp_path / "s", **options).run(display="none")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert cli.main(["trials", study.store.shown]) == 0
    pages = [study.summary(), study._repr_html_(), out.getvalue(), study.tree().svg, plot_rungs(study).svg]
    for page in [*pages, plot_history(study).svg]:
        assert not re.search(r"(^|\n)\*|&#9733;|, the best|best score", page)
    for page in pages[:3]:
        assert "without feature age, seed 1" in page
        assert "everything, seed 0" in page
        assert "depth=4" not in page
    assert "study.ablation()" in study.summary()

"""Every metric that a trial reports is where people look for it: objects, frame, tables, lists, its story."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from asyncsearch import cli
from asyncsearch.engine.latest_metrics import LatestMetrics
from asyncsearch.journal.opening import read_records
from asyncsearch.journal.projection import last_metrics
from asyncsearch.report.live.status_of import MOST_COLUMNS, status_of
from asyncsearch.report.live.table import html, table
from asyncsearch.schedulers import ASHA, FIFO, PBT
from asyncsearch.searchers import GridSearch
from asyncsearch.sequences import multistep
from asyncsearch.space import choice, loguniform, uniform
from asyncsearch.study.study import Study

NAMES = st.text("abcxyz_@0123456789 é", min_size=1, max_size=30).filter(lambda name: name.strip() not in ("", "loss"))
VALUES = st.floats(width=32) | st.just(math.nan) | st.just(math.inf)
REPORTS = st.lists(st.dictionaries(NAMES, VALUES, max_size=6), min_size=1, max_size=4)


class Reporter:
    """Reports the given metrics in turn, unit by unit."""

    def __init__(self, reports: list[dict[str, float]]) -> None:
        self.reports = reports

    def __call__(self, trial: Any) -> None:
        state = {"counters": {"w": 1.0}}
        for epoch in trial.epochs(state=state):
            trial.report({"loss": trial.params["x"] / (epoch + 1), **self.reports[epoch % len(self.reports)]})


def searched(reporter: Any, folder: Path, **options: Any) -> Study:
    usual: dict[str, Any] = {"scheduler": ASHA(max_resource=4, reduction_factor=2), "space": {"x": uniform(1.0, 2.0)}}
    settings = usual | options
    total, display = settings.pop("num_trials", 4), settings.pop("display", "none")
    study = Study(reporter, metric="loss", mode="min", store=folder, backend="inline", **settings)
    study.run(total, display=display)
    return study


def expected(study: Study, number: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for _, metrics in study.history(number):
        found |= {name: float(value) for name, value in metrics.items()}
    return found


def printed(*words: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert cli.main(list(words)) == 0
    return out.getvalue()


@given(REPORTS)
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_metric_is_in_objects_frame_and_lists_with_its_last_value(
    reports: list[dict[str, float]],
) -> None:
    pytest.importorskip("pandas")
    with tempfile.TemporaryDirectory() as name:
        study = Study.open(searched(Reporter(reports), Path(name) / "s").store.shown)
        store = study.store.shown
        frame = study.trials_dataframe()
        rows = json.loads(printed("trials", store, "--format", "json"))
        lines = list(csv.DictReader(io.StringIO(printed("trials", store, "--format", "csv"))))
        for trial, row, line in zip(study.trials, rows, lines, strict=True):
            wanted = expected(study, trial.id)
            assert trial.metrics == pytest.approx(wanted, nan_ok=True)
            for metric, value in wanted.items():
                column = "value" if metric == "loss" else f"metrics.{metric}"
                given_back = (frame[column][trial.id], float(row[column]), float(line[column]))
                assert given_back == pytest.approx((value,) * 3, nan_ok=True), metric
        assert study.best_trial.metrics == study.trials[study.best_trial.id].metrics


@given(st.lists(NAMES, min_size=0, max_size=9, unique=True))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_each_metric_has_a_column_or_is_counted_as_left_out(names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        study = searched(Reporter([dict.fromkeys(names, 0.5)]), Path(name) / "s")
        status = study._status()
        assert list(status.others) == names[:MOST_COLUMNS]
        assert status.unshown == len(names) - len(status.others)
        for page in (table(status), html(status), printed("trials", study.store.shown)):
            assert (f"{status.unshown} more" in page) == bool(status.unshown)
        for metric in names[:6]:
            assert f"{' '.join(metric.split())} 0.5" in " ".join(study.explain(0).split())


def rates(trial: Any) -> None:
    state = {"counters": {"w": 0.0}}
    for _ in trial.epochs(state=state):
        state["counters"]["w"] += trial.params["lr"]
        trial.report(loss=state["counters"]["w"], twice=2 * state["counters"]["w"])


STUDIES: dict[str, dict[str, Any]] = {
    "shared beginnings": {
        "space": {"lr": choice(*(multistep(0.1, milestones=[at]) for at in (1, 2, 3)))},
        "searcher": GridSearch(),
        "scheduler": FIFO(max_resource=4),
        "num_trials": 3,
    },
    "equal trials": {"space": {"lr": choice(0.1, 0.2)}, "num_trials": 8},
    "halving": {"space": {"lr": loguniform(1e-3, 1.0)}, "num_trials": 8},
    "branching": {
        "space": {"lr": loguniform(1e-3, 1.0)},
        "scheduler": PBT(population=4, perturbation_interval=1, max_resource=4),
        "num_trials": 4,
    },
}


@pytest.mark.parametrize("options", STUDIES.values(), ids=list(STUDIES))
def test_a_drivers_display_agrees_with_the_journal_also_when_sharing(options: dict[str, Any], tmp_path: Path) -> None:
    study = searched(rates, tmp_path / "s", display="plain", **options)
    driven = study._read_state()
    found = last_metrics(read_records(study.store))
    for trial in driven.trials:
        assert found[trial.id]["loss"] == trial.value
        assert driven.latest.of(trial.id) == {"twice": found[trial.id]["twice"]}
    shown = Study.open(study.store.shown)._status()
    assert [row.metrics for row in status_of(driven).rows if row.metrics] == [row.metrics for row in shown.rows]


def test_a_resumed_search_shows_the_metrics_of_its_earlier_trials(tmp_path: Path) -> None:
    searched(rates, tmp_path / "s", space={"lr": choice(0.1, 0.2, 0.3)}, num_trials=3)
    study = Study.resume(tmp_path / "s")
    study.run(4, display="none")
    assert all(row.metrics for row in study._status().rows)


def test_what_the_driver_keeps_of_metrics_does_not_grow_with_their_number() -> None:
    latest = LatestMetrics("loss", most=2)
    latest.report(None, 1, {"loss": 1.0, **{f"m{number}": 1.0 for number in range(1000)}}, [0])  # type: ignore[list-item]
    assert latest.of(0) == {"m0": 1.0, "m1": 1.0}  # type: ignore[arg-type]

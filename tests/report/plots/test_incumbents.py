"""The incumbent: the best value that any trial had at any resource."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asyncsearch.errors import NoTrialsError
from asyncsearch.ids import TrialId, WorkerId
from asyncsearch.journal.projection import reports
from asyncsearch.report.live.status_of import status_of
from asyncsearch.report.live.table import table
from asyncsearch.report.plots.curves import Incumbent, incumbents
from asyncsearch.schedulers import FIFO
from asyncsearch.simulate import Faults, Loss, TrainingModel
from asyncsearch.study.study import Study
from asyncsearch.trial import Params
from tests.engine.tools import Recorded, make_state, record
from tests.report.tools import records_of, simulated, store_of


class Curves:
    """Trial -> its losses, by resource from 1."""

    def __init__(self, *curves: list[float]) -> None:
        self.curves = curves

    def value(self, trial: TrialId, params: Params, resource: int) -> float:
        return self.curves[trial][resource - 1]

    def seconds(self, trial: TrialId, params: Params) -> float:
        return 1.0


def found(*curves: list[float], mode: str = "min", workers: int = 1, **options: Any) -> list[Incumbent]:
    return incumbents(records_of(searched(*curves, mode=mode, workers=workers, **options)), metric="loss", mode=mode)


def searched(*curves: list[float], mode: str = "min", workers: int = 1, **options: Any) -> Recorded:
    state = make_state(FIFO(max_resource=len(curves[0])), mode=mode)
    return record(state, len(curves), workers, workload=Curves(*curves), **options)


def seen(incumbents: list[Incumbent]) -> list[tuple[int, int, float]]:
    return [(one.trial, one.resource, one.value) for one in incumbents]


def test_values_before_a_trials_end_count_at_the_resource_of_their_report() -> None:
    assert seen(found([3.0, 1.0, 2.0], [2.0, 0.5, 4.0])) == [(0, 1, 3.0), (0, 2, 1.0), (1, 2, 0.5)]


def test_in_a_study_that_maximises_larger_is_better() -> None:
    assert seen(found([3.0, 1.0], [4.0, 3.5], mode="max")) == [(0, 1, 3.0), (1, 1, 4.0)]


def test_equal_values_leave_the_older_trial_in_place() -> None:
    assert seen(found([1.0, 1.0], [1.0, 1.0])) == [(0, 1, 1.0)]


def test_what_is_not_finite_is_never_the_incumbent() -> None:
    assert seen(found([float("nan"), float("-inf")], [2.0, float("nan")])) == [(1, 1, 2.0)]


def test_units_and_seconds_count_what_all_trials_had_trained_by_then() -> None:
    one = found([3.0, 2.0, 9.0], [9.0, 1.0, 9.0])[-1]
    assert (one.trained, one.elapsed_s) == (5, 5.0)


def test_what_a_lost_worker_trained_again_counts_again() -> None:
    one = found([9.0, 9.0, 9.0, 1.0], faults=Faults(losses=[Loss(WorkerId(0), 2.5)]))[-1]
    assert (one.trained, one.elapsed_s) == (6, 6.5)


def test_the_last_incumbent_is_the_best_of_all_reports() -> None:
    recorded = simulated(60)
    every = [(report.metrics["loss"], report.trial) for report in reports(records_of(recorded))]
    last = incumbents(records_of(recorded), metric="loss", mode="min")[-1]
    assert (last.value, last.trial) == min(every)


def test_the_table_shows_an_incumbent_better_than_every_last_value() -> None:
    status = status_of(searched([3.0, 1.0, 2.0], [2.0, 5.0, 4.0]).state)
    assert "best loss 2 after 3 units: trial-0" in table(status)
    assert "best loss ever reported: 1 after 2 units by trial-0" in table(status)


def test_the_table_tells_of_no_incumbent_that_is_the_best_trial_itself() -> None:
    assert "ever reported" not in table(status_of(searched([3.0, 2.0, 1.0], [5.0, 4.0, 3.0]).state))


def test_a_study_tells_its_incumbents_wherever_it_is_opened(tmp_path: Path) -> None:
    recorded = simulated(60)
    study = Study.open(store_of(recorded, tmp_path / "study"))
    assert study.incumbent == study.incumbents()[-1]
    assert study.incumbent.name == status_of(recorded.state).incumbent.name  # type: ignore[union-attr]
    pytest.importorskip("pandas")
    frame = study.incumbents_dataframe()
    assert list(frame["value"]) == [one.value for one in study.incumbents()]
    assert list(frame.columns) == ["trial", "value", "resource", "reported", "elapsed_s", "trained"]


def test_a_study_without_a_report_has_no_incumbent(tmp_path: Path) -> None:
    study = Study.open(store_of(simulated(), tmp_path / "study", lines=3))
    assert study.incumbents() == []
    with pytest.raises(NoTrialsError, match="has no trial yet"):
        _ = study.incumbent


def test_units_between_two_reports_are_counted_too() -> None:
    one = found([9.0, 4.0, 9.0, 3.0], [9.0, 2.0, 9.0, 9.0], training=TrainingModel(report_every=2))[-1]
    assert (one.trial, one.resource, one.trained) == (1, 2, 6)


def test_a_tables_incumbent_is_the_largest_value_where_largest_is_best() -> None:
    status = status_of(searched([3.0, 1.0], [5.0, 2.0], [4.0, 0.0], mode="max").state)
    assert "best loss ever reported: 5 after 1 unit by trial-1" in table(status)

"""All trials as rows."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import pytest

from asyncsearch.errors import UsageError
from asyncsearch.report.dataframe import trial_rows, trials_dataframe
from tests.report.tools import FAILING, simulated

TRIALS = simulated().state.trials


def test_rows_are_plain_values_with_dotted_names_of_parameters() -> None:
    rows = trial_rows(TRIALS)
    assert [row["trial"] for row in rows] == [trial.name for trial in TRIALS]
    assert rows[0]["params.model.width"] == TRIALS[0].params["model"]["width"]
    assert rows[FAILING]["state"] == "FAILED"


def test_dataframe_has_one_row_a_trial_and_its_columns_have_types() -> None:
    pytest.importorskip("pandas")
    frame = trials_dataframe(TRIALS)
    assert len(frame) == len(TRIALS)
    assert frame["value"].dtype == "float64"
    assert str(frame["started"].dtype).startswith("datetime64")
    assert str(frame["started"].dt.tz) == "UTC"
    assert (
        frame.sort_values("value").iloc[0]["trial"]
        == min((trial for trial in TRIALS if trial.value is not None), key=lambda trial: trial.value or 0.0).name
    )


def test_dataframe_begins_with_what_people_look_for() -> None:
    pytest.importorskip("pandas")
    names = list(trials_dataframe(TRIALS).columns)
    params = [name for name in names if name.startswith("params.")]
    assert names[: 3 + len(params)] == ["trial", "value", *params, "state"]


def test_dataframe_of_no_trials_has_its_columns() -> None:
    pytest.importorskip("pandas")
    frame = trials_dataframe([])
    assert len(frame) == 0
    assert "value" in frame.columns


def test_missing_pandas_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "pandas":
            raise ImportError("No module named 'pandas'")
        return real(name, *arguments, **options)

    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UsageError, match=r"pip install 'asyncsearch\[report\]'"):
        trials_dataframe(TRIALS)

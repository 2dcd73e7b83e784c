"""All trials as rows."""

from __future__ import annotations

import builtins
import re
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asyncsearch.errors import UsageError
from asyncsearch.ids import NodeKey, TrialId
from asyncsearch.report.dataframe import trial_rows, trials_dataframe
from asyncsearch.report.live.status import STATE_WORDS
from asyncsearch.trial import Trial
from tests.report.tools import FAILING, simulated

TRIALS = simulated().state.trials


def test_rows_are_plain_values_with_dotted_names_of_parameters() -> None:
    rows = trial_rows(TRIALS, "loss")
    assert [row["trial"] for row in rows] == [trial.name for trial in TRIALS]
    assert rows[0]["params.model.width"] == TRIALS[0].params["model"]["width"]
    assert rows[FAILING]["state"] == "FAILED"


def test_dataframe_has_one_row_a_trial_and_its_columns_have_types() -> None:
    pytest.importorskip("pandas")
    frame = trials_dataframe(TRIALS, "loss")
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
    names = list(trials_dataframe(TRIALS, "loss").columns)
    params = [name for name in names if name.startswith("params.")]
    assert names[: 3 + len(params)] == ["trial", "value", *params, "state"]


def test_dataframe_of_no_trials_has_its_columns() -> None:
    pytest.importorskip("pandas")
    frame = trials_dataframe([], "loss")
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
        trials_dataframe(TRIALS, "loss")


PARAMETERS = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text("ab", max_size=3)
)


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b"]), PARAMETERS), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_each_parameter_is_in_the_frame_as_it_was_chosen(chosen: list[dict[str, Any]]) -> None:
    pytest.importorskip("pandas")
    trials = [Trial(TrialId(number), params, NodeKey("n")) for number, params in enumerate(chosen)]
    frame = trials_dataframe(trials, "loss")
    for trial in trials:
        for name, value in trial.params.items():
            found = frame[f"params.{name}"][trial.id]
            assert found == value if value is not None else found is None, (name, value)
            assert not isinstance(value, int) or float(value) != value or isinstance(found, int | np.integer | np.bool_)


def test_a_notebook_shows_a_trial_in_a_line_with_short_times_and_words() -> None:
    pandas = pytest.importorskip("pandas")
    frame = trials_dataframe([trial.seen_in(trial.words) for trial in TRIALS], "loss")
    for shown in (frame, frame.sort_values("value"), frame[frame["value"] > 0]):
        page = shown._repr_html_()  # type: ignore[operator]
        assert page.count('<td style="white-space: nowrap">trial-') == len(shown)
        assert "<td>" not in page
        assert re.search(r">\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ<", page)
        assert "+00:00" not in page + repr(shown) + shown.to_string() + shown.to_html(index=False)
        own = shown.to_string(formatters={"started": lambda time: time.isoformat()}, columns=["started"])
        assert "T" in own
    assert type(frame["started"]) is pandas.Series
    assert frame["state"][FAILING] == "failed"
    assert set(frame["state"]) <= set(STATE_WORDS)

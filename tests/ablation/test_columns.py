"""Data of any kind without features: dropped, or with one value in their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from asyncsearch.ablation.left_out import TrialAblation
from asyncsearch.errors import UsageError

ROWS = np.array([[1.0, 2.0, 30.0], [3.0, 4.0, 50.0]])


def without(value: str, data: Any) -> Any:
    return TrialAblation(value).data(data)


def test_the_base_is_given_what_it_had() -> None:
    data = {"x": ROWS}
    assert TrialAblation("nothing").data(data) is data
    assert TrialAblation("layer:fc").data(data) is data


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_columns_of_an_array_are_dropped_by_number(kind: str) -> None:
    rows: Any = ROWS if kind == "numpy" else pytest.importorskip("torch").tensor(ROWS)
    x, y = without("feature:1", (rows, "labels"))
    assert np.asarray(x).tolist() == [[1.0, 30.0], [3.0, 50.0]]
    assert y == "labels"
    assert type(x) is type(rows)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_filled_column_has_the_mean_of_the_first_data_in_all_data(kind: str) -> None:
    make: Any = (lambda rows: rows) if kind == "numpy" else pytest.importorskip("torch").tensor
    ablation, rows = TrialAblation("filled:2"), make(ROWS)
    assert np.asarray(ablation.data(rows)).tolist() == [[1.0, 2.0, 40.0], [3.0, 4.0, 40.0]]
    assert np.asarray(ablation.data(make(ROWS[:1] * 2))).tolist() == [[2.0, 4.0, 40.0]]
    assert np.asarray(rows).tolist() == ROWS.tolist(), "the user's data stays"


def test_arrays_by_name() -> None:
    data = {"age": np.array([20, 40]), "kind": np.array(["a", "b"]), "pixels": ROWS}
    assert list(without("feature:age", data)) == ["kind", "pixels"]
    filled = without("all=filled:age+filled:kind+filled:pixels", data)
    assert filled["age"].tolist() == [30.0, 30.0]
    assert filled["kind"].tolist() == ["a", "a"]
    assert filled["pixels"].tolist() == [[2.0, 3.0, 40.0]] * 2


def test_a_pandas_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [20, 40, 60], "kind": ["a", "b", "b"], "y": [0, 1, 1]})
    assert list(without("feature:age", frame).columns) == ["kind", "y"]
    filled = without("both=filled:age+filled:kind", frame)
    assert filled["age"].tolist() == [40.0] * 3
    assert filled["kind"].tolist() == ["b"] * 3
    assert list(filled.columns) == ["age", "kind", "y"]
    assert frame["age"].tolist() == [20, 40, 60]


@pytest.mark.parametrize(
    ("value", "data", "words"),
    [
        ("feature:ages", {"age": ROWS}, "no column 'ages': it has 'age'"),
        ("feature:3", ROWS, "no column '3': it has '0', '1', '2'"),
        ("filled:x", ROWS, "no column 'x'"),
        ("feature:0", ROWS[:, :1], "Every column"),
        ("feature:age", [1, 2], "list has no columns"),
        ("feature:age", np.zeros(3), "ndarray has no columns"),
    ],
)
def test_data_without_such_a_feature_is_refused(value: str, data: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        without(value, data)

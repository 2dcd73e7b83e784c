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
    data = {"age": np.array([20, 41]), "kind": np.array(["a", "b"]), "pixels": ROWS}
    assert list(without("feature:age", data)) == ["kind", "pixels"]
    filled = without("all=filled:age+filled:kind+filled:pixels", data)
    assert filled["age"].tolist() == [30.5, 30.5]
    assert filled["kind"].tolist() == ["a", "a"]
    assert filled["pixels"].tolist() == [[2.0, 3.0, 40.0]] * 2


def test_a_filled_array_stays_a_tensor_with_the_mean_of_all_data() -> None:
    torch = pytest.importorskip("torch")
    ablation = TrialAblation("filled:age")
    train, _ = ablation.data(({"age": torch.tensor([1.0, 2.0])}, "labels"))
    valid, _ = ablation.data(({"age": torch.tensor([7.0])}, "labels"))
    assert torch.equal(train["age"], torch.tensor([1.5, 1.5]))
    assert torch.equal(valid["age"], torch.tensor([1.5]))


def test_a_pattern_means_all_columns_that_fit_unless_one_has_that_name() -> None:
    data = {"s1": ROWS[:, 0], "s2": ROWS[:, 1], "age": ROWS[:, 2]}
    assert list(without("feature:s*", data)) == ["age"]
    filled = without("filled:s?", data)
    assert [filled[name].tolist() for name in data] == [[2.0, 2.0], [3.0, 3.0], [30.0, 50.0]]
    assert without("feature:1*", np.zeros((1, 12))).shape == (1, 9)
    assert list(without("feature:s*", data | {"s*": ROWS})) == ["s1", "s2", "age"]


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
        ("feature:x*", {"age": ROWS}, "no column 'x\\*'"),
        ("feature:0", ROWS[:, :1], "Every column"),
        ("feature:age", [1, 2], "list has no columns"),
        ("feature:age", np.zeros(3), "ndarray has no columns"),
    ],
)
def test_data_without_such_a_feature_is_refused(value: str, data: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        without(value, data)


def frame() -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(
        {
            "age": [20.0, None, 40.0],
            "visits": [1, 2, 2],
            "kind": pandas.Categorical(["a", "b", "b"], categories=["c", "b", "a"], ordered=True),
            "day": pandas.to_datetime(["2026-01-01", None, "2026-01-01"]),
            "member": [True, False, True],
            "note": [None, None, None],
        }
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("age", 30.0), ("visits", 5 / 3), ("kind", "b"), ("day", "2026-01-01"), ("member", True), ("note", None)],
)
def test_a_filled_column_keeps_its_type_and_place_and_ignores_missing(name: str, value: Any) -> None:
    pandas, data = pytest.importorskip("pandas"), frame()
    filled = without(f"filled:{name}", data)
    assert list(filled.columns) == list(data.columns)
    assert data.equals(frame()), "the user's data stays"
    assert filled.drop(columns=name).equals(data.drop(columns=name))
    if value is None:
        assert filled[name].isna().all()
    else:
        expected = pandas.Series([value] * 3).astype("float64" if name == "visits" else data[name].dtype)
        assert filled[name].tolist() == expected.tolist()
        assert filled[name].dtype == expected.dtype


def test_columns_that_are_no_texts_are_named_by_their_texts() -> None:
    pandas = pytest.importorskip("pandas")
    assert list(without("feature:1", pandas.DataFrame(ROWS)).columns) == [0, 2]
    several = pandas.DataFrame(ROWS, columns=pandas.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")]))
    name = TrialAblation("feature:x").ablated.components[0]._replace(name=str(("a", "y")))
    found = TrialAblation(type(TrialAblation("nothing").ablated)((name,)).value).data(several)
    assert list(found.columns) == [("a", "x"), ("b", "x")]
    assert without("filled:1", {0: ROWS, 1: ROWS})[1].tolist() == [[2.0, 3.0, 40.0]] * 2
    assert list(without("feature:1", {0: ROWS, 1: ROWS})) == [0]


def test_labels_that_occur_twice_are_filled_and_dropped_as_often() -> None:
    pandas = pytest.importorskip("pandas")
    data = pandas.DataFrame(ROWS, columns=["a", "b", "a"])
    assert without("filled:a", data).to_numpy().tolist() == [[2.0, 2.0, 2.0], [2.0, 4.0, 2.0]]
    assert list(without("feature:a", data).columns) == ["b"]


@pytest.mark.parametrize("kind", ["frame", "mapping", "array"])
def test_the_only_column_cannot_be_dropped(kind: str) -> None:
    data: Any = {"0": np.ones(3)} if kind == "mapping" else np.ones((3, 1))
    if kind == "frame":
        data = pytest.importorskip("pandas").DataFrame(data)
    with pytest.raises(UsageError, match=r"Every column .* fill=True"):
        without("feature:0", data)


@pytest.mark.parametrize("kind", ["numpy", "torch", "mapping"])
def test_missing_values_of_arrays_do_not_count_in_the_mean(kind: str) -> None:
    rows = np.array([[1.0, np.nan], [2.0, 4.0], [3.0, 6.0]])
    make: Any = {"numpy": np.array, "torch": None, "mapping": lambda values: {"1": values[:, 1]}}[kind]
    data = pytest.importorskip("torch").tensor(rows) if make is None else make(rows)
    found = without("filled:1", data)
    assert np.asarray(found["1"] if kind == "mapping" else found[:, 1]).tolist() == [5.0] * 3


def test_an_array_of_texts_gets_its_most_frequent_one() -> None:
    rows = np.array([["a", 1], ["b", 2], ["b", None]], dtype=object)
    assert without("filled:0", rows)[:, 0].tolist() == ["b"] * 3
    assert without("filled:0", rows.astype(str))[:, 0].tolist() == ["b"] * 3
    assert without("filled:kind", {"kind": rows[:, 0]})["kind"].tolist() == ["b"] * 3


class Polars:
    """A frame of another library: it has a shape, and no columns by number."""

    columns = ("age",)
    shape = (3, 1)


@pytest.mark.parametrize("data", [Polars(), [1, 2], "text", np.ones(3)])
def test_data_of_another_kind_is_refused_by_its_kind(data: Any) -> None:
    with pytest.raises(UsageError, match="has no columns that could be left out"):
        without("filled:age", data)

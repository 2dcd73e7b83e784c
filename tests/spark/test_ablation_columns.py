"""A Spark DataFrame without features, as an ablation study of data that lives on the cluster needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from asyncsearch.ablation.left_out import TrialAblation
from asyncsearch.errors import UsageError
from tests.spark.cluster import spark_session

pytestmark = pytest.mark.spark
ROWS = [(20, "a", True, 1.5, 1.0), (40, "it's", False, 2.5, float("nan")), (60, "it's", False, 3.5, 4.0)]


@pytest.fixture(scope="module")
def frame() -> Iterator[Any]:
    with spark_session("local[1]") as session:
        yield session.createDataFrame(ROWS, "age int, `my ``kind``` string, old boolean, y double, mass double")


def rows(found: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in found.collect()]


def test_a_dropped_feature_is_no_column(frame: Any) -> None:
    found = TrialAblation("feature:my `kind`").data(frame)
    assert found.columns == ["age", "old", "y", "mass"]
    assert TrialAblation("nothing").data(frame) is frame


def test_a_filled_feature_is_its_mean_or_mode_in_all_data(frame: Any) -> None:
    ablation = TrialAblation("all=filled:age+filled:my `kind`+filled:old+filled:mass")
    assert rows(ablation.data(frame)) == [(40, "it's", False, y, 2.5) for y in (1.5, 2.5, 3.5)]
    assert ablation.data(frame).columns == frame.columns
    assert rows(ablation.data(frame.filter("age < 30"))) == [(40, "it's", False, 1.5, 2.5)]


def test_a_column_that_is_not_there_is_refused(frame: Any) -> None:
    with pytest.raises(UsageError, match="no column 'ages': it has 'age', 'my `kind`'"):
        TrialAblation("feature:ages").data(frame)

"""A DataFrame of the driver is read by workers, written once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asyncsearch.errors import StoreError, UsageError
from asyncsearch.launch.value_pickler import dumps
from asyncsearch.old_pickles import loads
from asyncsearch.parquet import write_parquet
from tests.spark.cluster import spark_session

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    with spark_session("local[2]") as made:
        yield made


def test_shards_of_a_dataframe_are_disjoint_and_whole_and_written_once(session: Any, tmp_path: Path) -> None:
    frame = session.range(0, 101, 1, 4).selectExpr("id", "id * 2 AS twice", "CAST(NULL AS STRING) AS nothing")
    folder = tmp_path / "with a space"
    files = write_parquet(frame, folder)
    written = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    again = write_parquet(frame.repartition(3), folder)
    assert again == files
    assert sorted(path.relative_to(folder) for path in folder.rglob("*")) == written
    sent = loads(dumps(files))  # as a worker has it
    assert sorted(sent.read().column("id").to_pylist()) == list(range(101))
    for size in (2, 3):
        shards = [sent.read(rank, size, columns=["id"]).column("id").to_pylist() for rank in range(size)]
        assert sorted(one for shard in shards for one in shard) == list(range(101))
        assert max(map(len, shards)) - min(map(len, shards)) <= 1
    other = write_parquet(frame.where("id > 0"), folder)
    assert other.read(columns=["twice"]).num_rows == 100
    with pytest.raises(UsageError, match="write 0 <= rank < size <= 100"):
        other.read(2, 2)
    (folder / other.files[0][0]).unlink()
    with pytest.raises(StoreError, match="is gone: call write_parquet"):
        other.read()
    with pytest.raises(UsageError, match="without rows"):
        write_parquet(frame.where("id < 0"), folder)

"""A DataFrame of Spark as Parquet files that every worker reads, with pyarrow and without Spark: docs/spark_data.md."""

from __future__ import annotations

import hashlib
import io
import json
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from asyncsearch.errors import StoreError, UsageError
from asyncsearch.store import open_store
from asyncsearch.store.base_store import Store


class ParquetFiles(NamedTuple):
    """The files of a DataFrame. A function of a trial may use it on any worker that sees their folder."""

    store: Store
    files: tuple[tuple[str, int], ...]
    """Name and number of rows of each, in the order of the rows."""

    def read(self, rank: int = 0, size: int = 1, columns: list[str] | None = None) -> Any:
        """Return the rows of one of ``size`` ranks as a ``pyarrow.Table``: disjoint, complete, equal to a row."""
        import pyarrow
        from pyarrow.parquet import read_table

        total, tables, at = sum(rows for _, rows in self.files), [], 0
        if not 0 <= rank < size <= total:
            raise UsageError(f"read(rank={rank}, size={size}) of {total} rows: write 0 <= rank < size <= {total}.")
        begin, end = total * rank // size, total * (rank + 1) // size
        for name, rows in self.files:
            first, stop = max(0, begin - at), min(rows, end - at)
            if first < stop:
                if (data := self.store.read(name)) is None:
                    raise StoreError(f"{self.store.shown}/{name} is gone: call write_parquet() again.")
                tables.append(read_table(io.BytesIO(data), columns=columns).slice(first, stop - first))
            at += rows
        return pyarrow.concat_tables(tables)


def write_parquet(frame: Any, folder: str | Path) -> ParquetFiles:
    """Write a DataFrame of Spark, unless the folder has its rows already, in whatever order; executors must see it."""
    store = open_store(folder)
    place = store.url if "://" in store.url else f"file://{store.url}"
    hashed = frame.selectExpr("CAST(xxhash64(struct(*)) AS DECIMAL(38, 0)) AS h")
    content = hashed.selectExpr("count(1)", "sum(h)", "bit_xor(CAST(h AS BIGINT))").first()
    if not content[0]:
        raise UsageError("write_parquet() is given a DataFrame without rows: is it filtered by too much?")
    digest = hashlib.sha256(f"{frame.schema.json()} {tuple(content)}".encode()).hexdigest()[:32]
    if (known := store.read(f"{digest}.json")) is None:
        name = f"{digest}-{uuid.uuid4().hex[:8]}"
        frame.write.parquet(f"{place}/{name}")
        written = frame.sparkSession.read.parquet(f"{place}/{name}").selectExpr("input_file_name() AS file")
        counts = sorted(
            (str(row[0]).rpartition("/")[2], int(row[1])) for row in written.groupBy("file").count().collect()
        )
        listed = json.dumps([(f"{name}/{file}", rows) for file, rows in counts]).encode()
        if not store.create(f"{digest}.json", listed):  # another driver was faster
            store.remove_tree(name)
        known = store.read(f"{digest}.json") or listed
    return ParquetFiles(store, tuple((str(file), int(rows)) for file, rows in json.loads(known)))

"""A search whose trials read a DataFrame of the driver, each rank its part; alone in its file, as search.py.

    frame_search.py FOLDER STORE

Each rank leaves the ids that it has read in FOLDER/ids, one line a rank and trial.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from asyncsearch import FIFO, GridSearch, Study, choice
from asyncsearch.parquet import ParquetFiles, write_parquet
from asyncsearch.trainers.keras.gangs.connection import open_ring

ROWS = 1001


class Train:
    """Adds up a column, of which each rank has a part."""

    def __init__(self, folder: Path, data: ParquetFiles) -> None:
        self.folder, self.data = folder, data

    def __call__(self, trial: Any) -> None:
        table = trial.once(self.data.read, trial.rank, trial.world_size)
        with (self.folder / "ids").open("a") as file:
            file.write(f"{trial.name} {' '.join(map(str, table['id'].to_pylist()))}\n")
        ring = open_ring(trial.gang)
        for _ in trial.epochs(state={}):
            total = ring.sum(np.array([float(sum(table["id"].to_pylist()))]))
            trial.report(loss=float(total[0]))


def main() -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("frame").getOrCreate()
    folder, store = Path(sys.argv[1]), sys.argv[2]
    frame = spark.range(0, ROWS, 1, 4)
    data = write_parquet(frame, f"{store}-data")
    again = write_parquet(frame.repartition(3), f"{store}-data")
    study = Study(
        Train(folder, data),
        space={"number": choice(0, 1)},
        searcher=GridSearch(),
        scheduler=FIFO(max_resource=1),
        metric="loss",
        mode="min",
        store=store,
        backend="spark",
        workers_per_trial=2,
    ).run(parallelism=2)
    values = [trial.value for trial in study.trials]
    (folder / "results").write_text(f"{again.files == data.files} {len(data.files)} {values}")


if __name__ == "__main__":
    main()

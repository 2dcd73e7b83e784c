"""A search on a `Cluster` of which one trial ends long before the other; alone in its file, as search.py.

    two_trials.py FOLDER STORE

Trial 0 trains until there is a file FOLDER/free, trial 1 until there is a file FOLDER/open. Each leaves a line in
FOLDER/waiting, as search.py does.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from pathlib import Path
from typing import Any

from asyncsearch import FIFO, Cluster, GridSearch, Study, choice

GATES = ("free", "open")


class Train:
    """Trains until its gate opens."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, trial: Any) -> None:
        found = re.search(r"executorId=(\w+)", os.environ.get("SPARK_LOG_URL_STDOUT", ""))
        with (self.folder / "waiting").open("a") as file:
            file.write(f"{trial.name} {os.getpid()} {found[1] if found else 'none'}\n")
        while not (self.folder / GATES[trial.params["number"]]).exists():
            threading.Event().wait(0.1)
        trial.report(loss=float(trial.params["number"]))


def main() -> None:
    from pyspark.sql import SparkSession

    SparkSession.builder.appName("two trials").getOrCreate()
    study = Study(
        Train(Path(sys.argv[1])),
        space={"number": choice(0, 1)},
        searcher=GridSearch(),
        scheduler=FIFO(),
        metric="loss",
        mode="min",
        store=sys.argv[2],
        name="two-trials",
    )
    with Cluster(2) as cluster:
        cluster.submit(study)
    sys.stdout.write(f"losses: {[trial.losses for trial in study.trials]}\n")


if __name__ == "__main__":
    main()

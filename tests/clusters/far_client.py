"""The client of a search whose driver is a task of the cluster, in a process that tests stop and kill.

    far_client.py FOLDER STORE SERVER    run it, or go on with it

FOLDER has the gate at which one of its trials waits.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.system.tools import make_study
from tests.system.trained import Gate, make_trainable


def main() -> None:
    from pyspark.sql.connect.session import SparkSession

    folder, store, server = sys.argv[1:]
    SparkSession.builder.remote(server).create()
    study = make_study(make_trainable(Gate(Path(folder))), store, backend="spark-cluster", resume=True)
    study.run(parallelism=2, display="plain")


if __name__ == "__main__":
    main()

"""Archives the Java classes of a small job on Spark: a Java that begins with the archive starts in half the time.

The tests start some thirty of them. The archive is for this Java and this environment's pyspark; another Java ignores
it. See "Application Class Data Sharing" in the documentation of the command ``java``.

    python scripts/archive_java.py FILE     writes FILE unless it exists
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

_JOB = """
from pyspark import BarrierTaskContext, SparkContext
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
context = session.sparkContext
context.parallelize([1, 2], 2).barrier().mapPartitions(lambda part: [BarrierTaskContext.get().partitionId()]).collect()
java = SparkContext._gateway.proc
session.stop()
java.stdin.close()
java.wait()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Archive the Java classes of a small job on Spark.")
    parser.add_argument("file", type=Path)
    file: Path = parser.parse_args().file
    if file.exists():
        return
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
    environment = os.environ | {"SPARK_SUBMIT_OPTS": options, "SPARK_LOCAL_IP": "127.0.0.1"}
    try:
        subprocess.run([sys.executable, "-c", _JOB], env=environment, capture_output=True, check=True)
        unfinished.replace(file)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"Java's classes could not be archived, so each Java takes longer to start: {error}", file=sys.stderr)
    finally:
        unfinished.unlink(missing_ok=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env bash
# A standalone Spark cluster on this machine, for tests and for trying out: a Master and Workers on 127.0.0.1, out of the pip
# package of pyspark. See scripts/hdfs.sh for what it needs and where it keeps its files.
#
#   bash scripts/spark_cluster.sh start [N] [--cores C] [--memory M]   N Workers; the last line printed is spark://127.0.0.1:PORT
#   bash scripts/spark_cluster.sh url | status | stop [--remove]
#   bash scripts/spark_cluster.sh add-worker                           prints the number of the new Worker
#   bash scripts/spark_cluster.sh kill-worker I | start-worker I | decommission-worker I
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/_python.sh"
exec "$PYTHON" "$here/_spark_cluster.py" "$@"

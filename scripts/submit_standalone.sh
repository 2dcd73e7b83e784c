#!/usr/bin/env bash
# Runs a script on a standalone Spark cluster: on the one of scripts/spark_cluster.sh, or on MASTER. Options of spark-submit come
# before the script, its own arguments behind it. Driver and executors run the environment of scripts/pack_env.sh; where the
# machines do not share this folder, set SHIP=yes, and each executor gets the archive.
#
#   bash scripts/submit_standalone.sh scripts/digits_search.py --store /shared/studies/digits
#   MASTER=spark://host:7077 SHIP=yes bash scripts/submit_standalone.sh --conf spark.cores.max=16 search.py
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/_submit.sh"
master=${MASTER:-$("$PYTHON" "$here/_spark_cluster.py" url)}
case $master in
spark://127.0.0.1:*) export SPARK_LOCAL_IP=127.0.0.1 ;;
esac

options=(--master "$master" --conf spark.log.level=WARN --conf spark.ui.showConsoleProgress=false)
export PYSPARK_DRIVER_PYTHON=$environment/bin/python
export PYSPARK_PYTHON=$environment/bin/python
if [ "${SHIP:-no}" = yes ]; then
    options+=(--archives "$archive#environment")
    export PYSPARK_PYTHON=./environment/bin/python
fi
exec "$SPARK_HOME/bin/spark-submit" "${options[@]}" "$@"

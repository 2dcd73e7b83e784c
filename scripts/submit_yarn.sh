#!/usr/bin/env bash
# Runs a script on YARN: on the cluster that HADOOP_CONF_DIR describes, or on the one of scripts/yarn.sh. Options of spark-submit
# come before the script, its own arguments behind it. The executors, and in cluster mode the driver, get the environment of
# scripts/pack_env.sh. In cluster mode the driver runs in YARN's ApplicationMaster; if that dies, YARN starts it once more, and a
# study with resume=True goes on.
#
#   bash scripts/submit_yarn.sh scripts/digits_search.py --store hdfs:///studies/digits
#   bash scripts/submit_yarn.sh --deploy-mode cluster --num-executors 8 scripts/digits_search.py --store hdfs:///studies/digits
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/_submit.sh"

mode=client
previous=
for argument in "$@"; do
    case $previous,$argument in
    --deploy-mode,*) mode=$argument ;;
    *,--deploy-mode=*) mode=${argument#*=} ;;
    esac
    case $argument in *.py) break ;; esac # what follows is the script's
    previous=$argument
done

options=(--master yarn --archives "$archive#environment" --conf spark.log.level=WARN --conf spark.ui.showConsoleProgress=false)
if [ -z "${HADOOP_CONF_DIR:-}" ]; then
    HADOOP_CONF_DIR=$("$PYTHON" "$here/_yarn.py" conf)
    export HADOOP_CONF_DIR SPARK_LOCAL_IP=127.0.0.1
    # All machines are this one: they need not copy Spark's 400 MB, and know no other address.
    options+=(--conf "spark.yarn.jars=local:$SPARK_HOME/jars/*" --conf spark.executorEnv.SPARK_LOCAL_IP=127.0.0.1)
    options+=(--conf spark.yarn.appMasterEnv.SPARK_LOCAL_IP=127.0.0.1)
fi
export PYSPARK_PYTHON=./environment/bin/python
if [ "$mode" = cluster ]; then
    unset PYSPARK_DRIVER_PYTHON # the driver's Python is PYSPARK_PYTHON, on another machine
    options+=(--conf spark.yarn.maxAppAttempts=2)
else
    export PYSPARK_DRIVER_PYTHON=$environment/bin/python
fi
exec "$SPARK_HOME/bin/spark-submit" "${options[@]}" "$@"

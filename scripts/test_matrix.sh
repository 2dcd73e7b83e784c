#!/usr/bin/env bash
# Runs a small search with each supported version of Python and of pyspark, each in an environment of its own: pyspark 3.5 and 4,
# Python 3.11 to 3.13, on a classic session and by Spark Connect, where pyspark 3.5 is to be refused in words. Arguments name the
# pairs to try, Python first. uv fetches a Python that is neither on PATH nor in pyenv. pyspark 3.5 runs on Java 17: JAVA_17
# names its home if the Java of PATH is newer.
#
#   bash scripts/test_matrix.sh
#   bash scripts/test_matrix.sh 3.12:4.0 3.11:3.5
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/_python.sh"
uv=$(command -v "$(dirname "$PYTHON")/uv" || command -v uv) || {
    echo "test_matrix: there is no uv beside $PYTHON or on PATH: install it with $PYTHON -m pip install uv" >&2
    exit 1
}
export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-true}
[ $# -gt 0 ] || set -- 3.11:3.5 3.11:4.0 3.11:4.3 3.12:4.3 3.13:4.3

for bin in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[1-3].*/bin; do
    PATH=$PATH:$bin # those of pyenv, which uv does not look for
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$uv" build --quiet --wheel --python "$PYTHON" --out-dir "$folder" "$ROOT"
wheel=$(echo "$folder"/asyncsearch-*.whl)

# pyspark 3.5 brings no server of its own, so that its client meets the one of $PYTHON's pyspark.
cat >"$folder/serve.py" <<'SERVE'
import sys

from pyspark.sql import SparkSession

settings = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.ui.enabled": "false",
}
session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
service = getattr(session._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
print(getattr(service, "MODULE$").localPort(), flush=True)
sys.stdin.read()
session.stop()
SERVE

cat >"$folder/search.py" <<'SEARCH'
import subprocess
import sys

import pyspark
from pyspark.sql import SparkSession

from asyncsearch import ASHA, GridSearch, Study, choice
from asyncsearch.errors import UnsupportedSparkError

REFUSED = f"need Spark 4.0 or newer on both sides, and pyspark here is {pyspark.__version__}."


def train(trial):
    for epoch in trial.epochs(save=lambda path: path.write_text("saved"), load=lambda path: path.read_text()):
        trial.report(loss=trial.params["x"] / epoch)


def search(store):
    space = {"x": choice(*range(1, 10))}
    study = Study(
        train, space=space, searcher=GridSearch(), scheduler=ASHA(max_resource=9), metric="loss", mode="min",
        store=store, backend="spark",
    )
    study.run(display="none")
    assert study.best_trial.params == {"x": 1}, study.best_trial
    return f"{len(study.trials)} trials, the best is right"


def refused(store, python):
    with subprocess.Popen([python, "serve.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        session = SparkSession.builder.remote(f"sc://127.0.0.1:{server.stdout.readline().strip()}").getOrCreate()
        try:
            search(store)
        except UnsupportedSparkError as error:
            assert REFUSED in str(error), error
            return f"refused, with a server of Spark {session.version}: {error}"
        finally:
            server.stdin.close()
    raise AssertionError("pyspark 3.5 was not refused")


if __name__ == "__main__":
    store, kind, *python = sys.argv[1:]
    if kind == "classic":
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    elif kind == "connect":
        SparkSession.builder.remote("local[2]").getOrCreate()
    words = refused(store, *python) if kind == "refused" else search(store)
    print(f"Python {sys.version.split()[0]}, pyspark {pyspark.__version__}, {kind}: {words}", flush=True)
SEARCH

failed=
for pair in "$@"; do
    python=${pair%%:*} spark=${pair#*:}
    environment=$folder/environment
    "$uv" venv --quiet --clear --python "$python" "$environment"
    "$uv" pip install --quiet --python "$environment/bin/python" "$wheel" "pyspark==$spark.*"
    (
        unset PYTHONPATH SPARK_HOME PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON
        export SPARK_LOCAL_IP=127.0.0.1 SPARK_DRIVER_MEMORY=512m
        case $spark in 3.*) export JAVA_HOME=${JAVA_17:-${JAVA_HOME:-}} ;; esac
        [ -n "${JAVA_HOME:-}" ] || unset JAVA_HOME
        cd "$folder"
        "$environment/bin/python" search.py "$folder/study-$pair" classic 2>"$folder/errors" || exit 1
        case $spark in
        3.*)
            # What its client imports. Its own extra asks for an old NumPy, with which new pyarrow does not import.
            "$uv" pip install --quiet --python "$environment/bin/python" "pandas<3" pyarrow grpcio-status googleapis-common-protos
            "$environment/bin/python" search.py "$folder/study-$pair-connect" refused "$PYTHON" 2>"$folder/errors"
            exit
            ;;
        esac
        "$uv" pip install --quiet --python "$environment/bin/python" "$wheel[connect]" "pyspark==$spark.*"
        export PYSPARK_PYTHON=$environment/bin/python SPARK_TESTING=1 # any free port
        export PYSPARK_SUBMIT_ARGS="--conf spark.ui.enabled=false pyspark-shell"
        "$environment/bin/python" search.py "$folder/study-$pair-connect" connect 2>"$folder/errors"
    ) || {
        failed="$failed $pair"
        tail -n 20 "$folder/errors" >&2
    }
done
if [ -n "$failed" ]; then
    printf 'test_matrix: failed with:%s\n' "$failed" >&2
    exit 1
fi

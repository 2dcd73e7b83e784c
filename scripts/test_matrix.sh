#!/usr/bin/env bash
# Runs a small search with each supported version of Python and of pyspark, each in an environment of its own: pyspark 3.5 and 4,
# Python 3.11 to 3.13, on a classic session, and with pyspark 4 by Spark Connect. Arguments name the pairs to try, Python first. uv fetches a Python that is neither
# on PATH nor in pyenv. pyspark 3.5 runs on Java 17: JAVA_17 names its home if the Java of PATH is newer.
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

cat >"$folder/search.py" <<'SEARCH'
import sys

import pyspark
from pyspark.sql import SparkSession

from asyncsearch import ASHA, GridSearch, Study, choice


def train(trial):
    for epoch in trial.epochs(save=lambda path: path.write_text("saved"), load=lambda path: path.read_text()):
        trial.report(loss=trial.params["x"] / epoch)


if __name__ == "__main__":
    kind = sys.argv[2]
    if kind == "classic":
        SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    else:
        SparkSession.builder.remote("local[2]").getOrCreate()
    space = {"x": choice(*range(1, 10))}
    study = Study(
        train, space=space, searcher=GridSearch(), scheduler=ASHA(max_resource=9), metric="loss", mode="min",
        store=sys.argv[1], backend="spark",
    )
    study.run(display="none")
    assert study.best_trial.params == {"x": 1}, study.best_trial
    words = f"Python {sys.version.split()[0]}, pyspark {pyspark.__version__}, {kind}: {len(study.trials)} trials, the best is right"
    print(words)
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
        case $spark in 3.*) exit 0 ;; esac # its Connect sessions lose long queries, and are refused
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

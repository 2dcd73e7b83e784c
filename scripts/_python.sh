# Sourced by scripts of clusters: sets ROOT and PYTHON, the Python whose pyspark they use. One that the caller names in PYTHON
# is taken as it is; without it .venv is made, with what the digits search needs on Spark and HDFS.
ROOT=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
if [ -z "${PYTHON:-}" ]; then
    . "$ROOT/scripts/setup.sh" demo,hdfs,spark >&2
fi
export PYTHON

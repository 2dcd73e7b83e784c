#!/usr/bin/env bash
# Runs the tests on real clusters, which no other command runs: HDFS, YARN, standalone Spark and Spark Connect are started here,
# searches are submitted to them, and servers die. It takes some forty minutes on 2 cores. Without arguments it writes
# what it prints to docs/evidence_clusters.log; arguments are passed to pytest: -k yarn. At its end it prints what faults cost,
# beside searches without them.
#
#   bash scripts/test_clusters.sh
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
if [ -z "${PYTHON:-}" ]; then # _python.sh would leave out pytest
    . "$here/setup.sh" dev,demo,spark,hdfs,webhdfs,report
fi
. "$here/_python.sh"
cd "$ROOT"

log=/dev/null
[ $# -gt 0 ] || log=docs/evidence_clusters.log
export ASYNCSEARCH_CLUSTERS=all
ASYNCSEARCH_SAID=$(mktemp)
export ASYNCSEARCH_SAID
trap 'rm -f "$ASYNCSEARCH_SAID"' EXIT

run() {
    local code=0
    printf '%s, commit %s\n' "$(date -u '+%Y-%m-%d %H:%M UTC')" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
    printf '%s, %s cores, %s, user %s\n' "$(uname -sr)" "$(getconf _NPROCESSORS_ONLN)" "$("$PYTHON" --version)" "$(id -un)"
    "$PYTHON" -m pytest tests/clusters -v -n 0 --durations=0 "$@" || code=$?
    sort "$ASYNCSEARCH_SAID"
    return "$code"
}

run "$@" 2>&1 | tee "$log"

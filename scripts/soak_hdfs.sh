#!/usr/bin/env bash
# Searches for two hours with 20 workers on a real HDFS of this machine, kills one of their processes every half minute, and prints,
# minute by minute, what the NameNode is asked for each trial, and the memory of the driver and its agents. It exits with 1 if
# any of them grows, or if the run ends more than 10 s after its time.
#
#   bash scripts/hdfs.sh start 2 && bash scripts/soak_hdfs.sh [--minutes 120] [--workers 20] [--kill-every 30]
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/_python.sh"
cd "$ROOT"
bash "$here/hdfs.sh" url >/dev/null

log=/dev/null
[ $# -gt 0 ] || log=docs/evidence_soak_hdfs.log

run() {
    printf '%s, commit %s\n' "$(date -u '+%Y-%m-%d %H:%M UTC')" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
    printf '%s, %s cores, %s\n' "$(uname -sr)" "$(getconf _NPROCESSORS_ONLN)" "$("$PYTHON" --version)"
    "$PYTHON" scripts/_soak_hdfs.py "$@"
}

run "$@" 2>&1 | tee "$log"

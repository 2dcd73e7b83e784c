#!/usr/bin/env bash
# Runs 2,000 short trials and then half an hour of search, and looks many times a second at the memory, descriptors, threads,
# processes and temporary files of the driver and its agents. It prints them for each tenth, and exits with 1 if any of them
# grows. Without arguments it writes what it prints to docs/evidence_soak.log.
#
#   bash scripts/soak.sh [--minutes 30] [--trials 2000] [--workers 2]
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/setup.sh" as-is
cd "$ROOT"

log=/dev/null
[ $# -gt 0 ] || log=docs/evidence_soak.log

run() {
    printf '%s, commit %s\n' "$(date -u '+%Y-%m-%d %H:%M UTC')" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
    printf '%s, %s cores, %s\n' "$(uname -sr)" "$(getconf _NPROCESSORS_ONLN)" "$("$PYTHON" --version)"
    "$PYTHON" scripts/_soak.py "$@"
}

run "$@" 2>&1 | tee "$log"

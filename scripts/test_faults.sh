#!/usr/bin/env bash
# Runs all tests of faults, of which scripts/test.sh runs a part: damages, kills, interrupts, stores that go away, networks
# that break, clocks that jump, crashes at each record of a journal, and 200 random faults over one search. Without arguments it
# writes what it prints to docs/evidence_faults.log; arguments are passed to pytest: -n 0 -k 'kills and seed4]'. Cases that need
# chattr or mount skip and say so where this user may not use them. At its end it prints what faults cost, beside searches
# without them; the random faults have a new seed each time, and are repeated by that.
#
#   bash scripts/test_faults.sh
#   ASYNCSEARCH_SEED=17 bash scripts/test_faults.sh -n 0 -k storm
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/setup.sh" as-is
cd "$ROOT"

log=/dev/null
[ $# -gt 0 ] || log=docs/evidence_faults.log
export ASYNCSEARCH_TESTS=all
ASYNCSEARCH_SAID=$(mktemp)
export ASYNCSEARCH_SAID
trap 'rm -f "$ASYNCSEARCH_SAID"' EXIT

run() {
    local code=0
    printf '%s, commit %s\n' "$(date -u '+%Y-%m-%d %H:%M UTC')" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
    printf '%s, %s cores, %s, user %s\n' "$(uname -sr)" "$(getconf _NPROCESSORS_ONLN)" "$("$PYTHON" --version)" "$(id -un)"
    # A worker for each core: a search waits as much as it computes, and its moments are counted, not timed.
    "$PYTHON" -m pytest tests/faults tests/gangs tests/trainers/test_keras_joins.py tests/trainers/test_keras_structures.py tests/trainers/test_random_keras_trainers.py -q -n "$(getconf _NPROCESSORS_ONLN)" --dist loadgroup --durations=5 "$@" || code=$?
    sort "$ASYNCSEARCH_SAID"
    return "$code"
}

run "$@" 2>&1 | tee "$log"

#!/usr/bin/env bash
# Runs the tests of faults that scripts/test.sh runs, five times in a row, beside two busy processes for each core. No test runs
# again when it fails. Prints a row for each run, and exits with 1 if a test failed in any of them. Without arguments it writes
# what it prints to docs/evidence_steady.log.
#
#   bash scripts/test_steady.sh [RUNS [BUSY]]      5 runs, beside twice as many busy processes as there are cores
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/setup.sh" as-is
cd "$ROOT"

log=/dev/null
[ $# -gt 0 ] || log=docs/evidence_steady.log
runs=${1:-5}
busy=${2:-$((2 * $(getconf _NPROCESSORS_ONLN)))}
unset ASYNCSEARCH_TESTS
said=$(mktemp)
loops=()
end() {
    [ ${#loops[@]} -eq 0 ] || kill "${loops[@]}"
    rm -f "$said"
}
trap end EXIT

collected() { "$PYTHON" -m pytest tests/faults --collect-only -q -n 0 | sed -n 's/ tests collected.*//p'; }

run() {
    local failed=0 number began
    printf '%s, commit %s\n' "$(date -u '+%Y-%m-%d %H:%M UTC')" "$(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
    printf '%s, %s cores, %s, ' "$(uname -sr)" "$(getconf _NPROCESSORS_ONLN)" "$("$PYTHON" --version)"
    printf '%s of %s tests of faults\n' "$(collected)" "$(ASYNCSEARCH_TESTS=all collected)"
    printf '%s busy processes beside them\n' "$busy"
    for ((number = 1; number <= runs; number++)); do
        began=$(date +%s)
        "$PYTHON" -m pytest tests/faults -n 3 --dist loadgroup --no-loadscope-reorder -q -p no:cacheprovider >"$said" 2>&1 ||
            { failed=1 && cat "$said"; }
        printf 'run %s  %4s s  load %5s  %s\n' "$number" "$(($(date +%s) - began))" "$(cut -d' ' -f1 /proc/loadavg)" \
            "$(tail -n 1 "$said")"
    done
    return "$failed"
}

for ((number = 0; number < busy; number++)); do
    "$PYTHON" -c 'while True: pass' &
    loops+=($!)
done
run | tee "$log"

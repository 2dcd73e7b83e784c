#!/usr/bin/env bash
# Runs every check in the environment that scripts/test.sh made. Arguments are passed to pytest: -n 0 -k rung -x.
#
#   --fast      only the pure and the simulated floors are tested, in 3 minutes on 2 cores
#   --changed   only the tests that the difference from main touches (scripts/changed_tests.py), pages that differ among them
#   --all       also the cases beside which a cheaper one shows the same law (tests/shares.py), and takes much longer
#   --coverage  says at the end how much of asyncsearch/ the tests ran; they take twice as long on a Python before 3.12
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/setup.sh" as-is
cd "$ROOT"

coverage=
for argument; do
    shift
    case $argument in
    --changed)
        touched=$("$PYTHON" scripts/changed_tests.py)
        [ -n "$touched" ] || { echo "check: nothing differs from main" && exit 0; }
        while IFS= read -r path; do set -- "$@" "$path"; done <<<"$touched"
        export ASYNCSEARCH_TESTS=${ASYNCSEARCH_TESTS:-changed}
        ;;
    --all) export ASYNCSEARCH_TESTS=all ;;
    --coverage)
        coverage=$("$PYTHON" -c 'import sys; print("sysmon" if sys.version_info >= (3, 12) else "ctrace")')
        set -- "$@" --cov=asyncsearch --cov-report=
        ;;
    *) set -- "$@" "$argument" ;;
    esac
done

# Its making takes a core for half a minute, and the checks before the tests need only the other one.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
ln -s "$VENV" "$scratch/venv" # spark-class splits options at spaces and keeps their quotes
archive=$scratch/venv/spark-classes.jsa
case $archive in *[!A-Za-z0-9_./-]*) archive= ;; esac
case " $* " in *" --fast "*) ;; *) [ -z "$archive" ] || "$PYTHON" scripts/archive_java.py "$archive" & ;; esac

# A new environment has not compiled the tests and what they import yet, and each process of the tests would do it again.
compiled=$VENV/.asyncsearch-extras/compiled
compiling=
if [ $# -eq 0 ] && [ ! -e "$compiled" ]; then
    { "$PYTHON" -m pytest --collect-only --quiet -n 0 -p no:cacheprovider >/dev/null 2>&1 && touch "$compiled"; } &
    compiling=$!
fi

failed=
step() {
    local heading=$1
    shift
    printf '== %s\n' "$heading"
    "$@" || failed="$failed, $heading"
}

# They take one core for as long as the others and the first tests take.
types=$scratch/types
"$PYTHON" -m mypy >"$types" 2>&1 &
typing=$!

step "format" "$PYTHON" -m ruff format --check --quiet .
step "lint" "$PYTHON" -m ruff check --quiet .
step "floors" "$PYTHON" -c 'from importlinter.cli import lint_imports_command as main; main()' --no-logo --no-cache
step "stubs" "$PYTHON" scripts/gen_proto.py --check
if [ -n "$failed" ]; then
    kill "$typing" || true
    printf 'check: failed before the tests: %s\n' "${failed#, }" >&2
    exit 1
fi

# A test's Spark session lasts only seconds, in which Java's second compiler costs more than it gains.
export SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC${archive:+ -XX:SharedArchiveFile=$archive} -Xlog:disable"
export SPARK_LAUNCHER_OPTS=$SPARK_SUBMIT_OPTS

[ -z "$compiling" ] || wait "$compiling" || true # the tests say what is wrong

# Four workers for two cores: tests wait as much as they compute, for processes to start, for disks and for leases; those
# of Spark, with which one worker begins, wait the most.
printf '== tests, and types beside them\n'
[ -z "$coverage" ] || export COVERAGE_CORE="$coverage"
status=0
"$PYTHON" -m pytest -n 4 --dist loadgroup --no-loadscope-reorder --durations=20 "$@" || status=$?
[ -z "$coverage" ] || printf 'coverage: %s %% of asyncsearch/\n' "$("$PYTHON" -m coverage report --format=total)"
if ! wait "$typing"; then # last, so that what is wrong stands at the end
    printf '== types\n'
    cat "$types"
    printf 'check: failed: types\n' >&2
    status=1
fi
exit "$status"

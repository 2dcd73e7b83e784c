#!/usr/bin/env bash
# Runs the tests that touch the dependencies with the lowest versions that pyproject.toml allows, then with the newest ones, each
# in a temporary environment. Spark Connect has one of its own: it needs newer versions of what all need. `lowest-core` leaves
# out torch and TensorFlow, which take some gigabytes. Arguments after the bound are passed to pytest instead of the chosen
# tests. pyspark 3.5 runs on Java 17: JAVA_17 names its home if the Java of PATH is newer.
#
#   bash scripts/test_bounds.sh
#   bash scripts/test_bounds.sh lowest
#   bash scripts/test_bounds.sh lowest-core
#   bash scripts/test_bounds.sh lowest-connect
#   bash scripts/test_bounds.sh newest -x tests/packing
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/setup.sh" uv
cd "$ROOT"
export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-true}

core=spark,parquet,hdfs,webhdfs,s3,azure,sobol,optuna,hyperopt,report,plots,tensorboard,notebook,demo
tests=(
    tests/agent/test_agent.py tests/golden tests/journal
    tests/launch/test_bundle.py tests/launch/test_code_pickler.py tests/launch/test_processes.py
    tests/notebooks/test_first_search.py
    tests/report/test_ablation.py tests/report/plots tests/report/tensorboard tests/report/test_dataframe.py
    tests/rpc/test_auth.py tests/rpc/test_convert.py tests/rpc/test_golden.py tests/rpc/test_quiet_grpc.py tests/rpc/test_sessions.py
    tests/runner/test_protocol.py tests/hyperopt/test_programs.py tests/searchers/test_optuna.py tests/searchers/test_sobol.py
    tests/spark/test_spark_launcher.py
    tests/store/test_azure.py tests/store/test_checkpoint_damage.py tests/store/test_fsspec.py tests/store/test_hdfs_addresses.py
    tests/store/test_s3.py tests/store/test_webhdfs_refusals.py
    tests/trainers/test_state_sklearn.py
)
of_frameworks=(
    tests/packing/test_members.py tests/packing/test_parity.py tests/trainers/test_keras.py tests/trainers/test_keras_packs.py
    tests/trainers/test_state_torch.py tests/trainers/test_torch.py tests/trainers/test_torch_shards.py
)

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The generator of the stubs is not what users install.
echo "grpcio-tools; python_version < '3'" >"$folder/left-out"

make_environment() {
    local environment=$1 resolution=$2 extras=$3 options=() extra
    for extra in ${extras//,/ }; do options+=(--extra "$extra"); done
    "$UV" venv --quiet --python "$PYTHON" "$environment"
    # Only what pyproject.toml names is held at its bound: tools of the tests may exclude the newest of what that brings along.
    "$UV" pip compile --quiet --python "$PYTHON" --prerelease disallow --resolution "$resolution" "${options[@]}" \
        --annotation-style line pyproject.toml | grep 'via .*asyncsearch (' >"$environment/versions"
    "$UV" pip install --quiet --python "$environment/bin/python" --constraint "$environment/versions" \
        --override "$folder/left-out" --editable ".[dev,$extras]"
}

say_versions() { "$UV" pip list --quiet --python "$1/bin/python" --format freeze | tr '\n' ' ' | fold -s -w 130 && echo; }

run_tests() {
    local environment=$1 spark
    shift
    spark=$(echo "$environment"/lib/python3*/site-packages/pyspark)
    if [ -d "${JAVA_17:-}" ]; then export JAVA_HOME=$JAVA_17; fi
    # pyspark 3.5.1 leaves sockets to the garbage collector, and protobuf 6.31 warns of the stubs of pyspark 4.0.0: the tests
    # would count both as errors.
    SPARK_HOME=$spark SPARK_LOCAL_IP=127.0.0.1 SPARK_DRIVER_MEMORY=${SPARK_DRIVER_MEMORY:-768m} \
        PYSPARK_PYTHON=$environment/bin/python PYSPARK_DRIVER_PYTHON=$environment/bin/python \
        "$environment/bin/python" -m pytest -q -n 2 --dist loadgroup \
        -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning \
        -W "ignore:Protobuf gencode version:UserWarning" "$@"
}

try() {
    local bound=$1 resolution=$2
    shift 2
    [ $# -gt 0 ] || set -- -m "not slow" "${tests[@]}" "${of_frameworks[@]}"
    try_with "$bound" "$resolution" "$core,torch,tensorflow" "$@"
}

try_core() {
    local bound=$1 resolution=$2
    shift 2
    [ $# -gt 0 ] || set -- -m "not slow" "${tests[@]}"
    try_with "$bound" "$resolution" "$core" "$@"
}

try_connect() {
    local bound=$1 resolution=$2
    shift 2
    [ $# -gt 0 ] || set -- -m "not slow" tests/spark/test_connect.py tests/spark/test_join.py
    try_with "$bound" "$resolution" spark,connect "$@"
}

try_with() {
    local bound=$1 resolution=$2 extras=$3
    shift 3
    printf '== %s versions\n' "$bound"
    make_environment "$folder/$bound" "$resolution" "$extras"
    say_versions "$folder/$bound"
    run_tests "$folder/$bound" "$@" || failed="$failed $bound"
    rm -rf "${folder:?}/$bound"
}

bound=${1:-both}
[ $# -eq 0 ] || shift
failed=
case $bound in
lowest) try lowest lowest-direct "$@" ;;
lowest-core) try_core lowest-core lowest-direct "$@" ;;
newest-core) try_core newest-core highest "$@" ;;
lowest-connect) try_connect lowest-connect lowest-direct "$@" ;;
newest) try newest highest "$@" ;;
newest-connect) try_connect newest-connect highest "$@" ;;
both)
    for bound in lowest newest; do
        resolution=highest
        [ $bound = newest ] || resolution=lowest-direct
        try "$bound" "$resolution" "$@"
        [ $# -gt 0 ] || try_connect "$bound-connect" "$resolution"
    done
    ;;
*)
    echo "test_bounds: $bound is no bound: write lowest, newest, either with -core or -connect, or both" >&2
    exit 2
    ;;
esac
if [ -n "$failed" ]; then
    printf 'test_bounds: failed with the versions:%s\n' "$failed" >&2
    exit 1
fi

#!/usr/bin/env bash
# Makes dist/environment, a Python environment with asyncsearch as its users install it, and packs it into
# dist/environment.tar.gz for the machines of a cluster: spark-submit --archives dist/environment.tar.gz#environment, with
# PYSPARK_PYTHON=./environment/bin/python. Spark brings pyspark itself. Arguments are further packages, as pip names them.
# Nothing is made again while nothing has changed. The last line printed is the archive.
#
#   bash scripts/pack_env.sh
#   bash scripts/pack_env.sh torch pandas==2.3.3
#
# The base interpreter must lie at the same path on every machine. An archive with an interpreter of its own: conda pack.
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/_python.sh"
uv=$(command -v "$(dirname "$PYTHON")/uv" || command -v uv) || {
    echo "pack_env: there is no uv beside $PYTHON or on PATH: install it with $PYTHON -m pip install uv" >&2
    exit 1
}
export UV_PYTHON_DOWNLOADS=never UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-true}

environment=$ROOT/dist/environment
archive=$environment.tar.gz
mkdir -p "$ROOT/dist"
exec 9>"$ROOT/dist/.environment.lock"
if command -v flock >/dev/null; then
    flock 9 # two at once would build in one folder
fi

state=$(
    cd "$ROOT"
    "$PYTHON" -c 'import sys; print(sys.version, sys.base_prefix)'
    printf '%s\n' "$ROOT" "$@"
    find asyncsearch pyproject.toml README.md -type f ! -name '*.pyc' -print0 | LC_ALL=C sort -z | xargs -0 cksum
)
if [ ! -f "$archive" ] || [ "$state" != "$(cat "$environment/state" 2>/dev/null)" ]; then
    rm -rf "$environment" "$archive"
    wheels=$(mktemp -d)
    trap 'rm -rf "$wheels"' EXIT
    echo "pack_env: building the wheel" >&2
    # The tool that packs refuses an editable installation, which other machines could not follow to this checkout.
    "$uv" build --quiet --wheel --python "$PYTHON" --out-dir "$wheels" "$ROOT"
    echo "pack_env: installing it into $environment" >&2
    "$PYTHON" -m venv --without-pip "$environment"
    wheel=$(echo "$wheels"/asyncsearch-*.whl)
    # Copies, not links: an archive of hard links to a cache would not be portable.
    "$uv" pip install --quiet --link-mode copy --python "$environment/bin/python" "$wheel[demo,hdfs,webhdfs,parquet]" venv-pack "$@"
    echo "pack_env: packing it" >&2
    "$environment/bin/venv-pack" --quiet --prefix "$environment" --output "$archive.part" --format tar.gz --compress-level 1 >&2
    mv "$archive.part" "$archive"
    printf '%s\n' "$state" >"$environment/state"
fi
printf '%s\n' "$archive"

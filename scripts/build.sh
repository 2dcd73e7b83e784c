#!/usr/bin/env bash
# Builds the wheel, into dist/ or the folder that is given, and runs the README's example with it in an empty environment.
#
#   bash scripts/build.sh
#   bash scripts/build.sh /tmp/wheels
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/setup.sh" uv
folder=${1:-$ROOT/dist}
mkdir -p "$folder"
# A wheel of an earlier version would be tried beside the new one.
rm -f "$folder"/asyncsearch-*.whl
UV_PYTHON_DOWNLOADS=never UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-true} \
    "$UV" build --quiet --wheel --python "$PYTHON" --out-dir "$folder" "$ROOT"
"$PYTHON" "$here/_try_wheel.py" --uv "$UV" "$folder"/asyncsearch-*.whl ''
wheel=$(echo "$folder"/asyncsearch-*.whl)
printf 'build: install it with: pip install %q\n' "$wheel"

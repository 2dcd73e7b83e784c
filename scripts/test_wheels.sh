#!/usr/bin/env bash
# Installs the wheel in an empty environment with each extra alone, and runs the README's example there. Arguments name
# the extras to try; by default all of them are, without extras first. UV_TORCH_BACKEND=cpu takes the small build of torch.
#
#   bash scripts/test_wheels.sh
#   bash scripts/test_wheels.sh sobol optuna
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bash "$here/build.sh" "$folder"
. "$here/setup.sh" uv
"$PYTHON" "$here/_try_wheel.py" --uv "$UV" "$folder"/asyncsearch-*.whl "$@"

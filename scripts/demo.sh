#!/usr/bin/env bash
# Tunes a network that reads handwritten digits, on a local Spark session. Arguments are passed to scripts/digits_search.py.
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
echo "demo: tunes a network that reads handwritten digits, with Spark on this machine; takes up to 3 minutes the first time"
. "$here/setup.sh" demo,spark,plots
echo "demo: running scripts/digits_search.py"
exec "$PYTHON" "$here/digits_search.py" "$@"

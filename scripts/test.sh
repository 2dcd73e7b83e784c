#!/usr/bin/env bash
# Installs what the tests need and runs every check. Arguments go to scripts/check.sh, such as --fast.
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
echo "test: every check of this repository; the first time installs several GB, torch and tensorflow among them"
. "$here/setup.sh" dev,demo,spark,report,notebook,sobol,optuna,torch,tensorflow
exec bash "$here/check.sh" "$@"

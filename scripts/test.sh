#!/usr/bin/env bash
# Installs the packages for the tests and runs every check. Arguments, such as --fast, are passed to scripts/check.sh.
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
echo "test: runs every check of this repository; the first time installs several GB, including torch and tensorflow"
. "$here/setup.sh" dev,demo,spark,connect,parquet,hdfs,webhdfs,s3,azure,report,plots,tensorboard,notebook,sobol,optuna,hyperopt,torch,tensorflow
exec bash "$here/check.sh" "$@"

#!/usr/bin/env bash
# A real YARN on this machine, for tests and for trying out: a ResourceManager and NodeManagers on 127.0.0.1, with the HDFS of
# scripts/hdfs.sh, which must run. See there for what it needs and where it keeps its files.
#
#   bash scripts/yarn.sh start [N] [--memory-mb M] [--cores C] [--memory-checks]   N NodeManagers; prints HADOOP_CONF_DIR
#   bash scripts/yarn.sh conf | status | stop [--remove]
#   bash scripts/yarn.sh kill-nm I | start-nm I | kill-rm | start-rm
#   bash scripts/yarn.sh logs [APPLICATION]                      what a driver in cluster mode printed
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/_python.sh"
exec "$PYTHON" "$here/_yarn.py" "$@"

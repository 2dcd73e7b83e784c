#!/usr/bin/env bash
# A real HDFS on this machine, for tests and for trying out: a NameNode and DataNodes on 127.0.0.1. It needs Java 17; a jar of
# 56 MB is fetched from a Maven repository once. Its files are in $ASYNCSEARCH_CLUSTER_DIR, by default
# ~/.local/state/asyncsearch/clusters. PYTHON names a Python with pyspark; without it .venv is used.
#
#   bash scripts/hdfs.sh start [N] [--ha | --kerberos] [--tls] [--replication K]   N DataNodes; the last line printed is hdfs://127.0.0.1:PORT
#   bash scripts/hdfs.sh url | status | stop [--remove]
#   bash scripts/hdfs.sh kill-nn [I] | start-nn [I] | kill-dn I | start-dn I | pause-dn I | continue-dn I
#   bash scripts/hdfs.sh safemode enter | leave | get
#   bash scripts/hdfs.sh failover                             with --ha: make the other NameNode the active one
#   with --kerberos only users with a ticket get in; the keys of ann are in hdfs/kerberos/ann.keytab of the folder
#   with --tls it answers by HTTPS too; `status` says where, and which authority to trust
#   bash scripts/hdfs.sh fs -ls /                             any command of `hdfs dfs`
#   bash scripts/hdfs.sh dfsadmin -setSpaceQuota 1 /studies   any command of `hdfs dfsadmin`
set -euo pipefail

here=$(CDPATH='' cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
. "$here/_python.sh"
exec "$PYTHON" "$here/_hdfs_commands.py" "$@"

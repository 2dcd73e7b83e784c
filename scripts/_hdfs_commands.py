"""The commands of a real HDFS on this machine, without containers and without root. See scripts/hdfs.sh."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from collections.abc import Sequence

from _hadoop import state
from _hdfs import Hdfs
from _servers import ClusterError, cluster_folder, say


def _start(cluster: Hdfs, options: argparse.Namespace) -> None:
    cluster.start(options.datanodes, options.replication, options.ha, options.kerberos, options.tls)
    say(f"HDFS is ready: export HADOOP_CONF_DIR={cluster.conf}")
    print(cluster.url)


def _stop(cluster: Hdfs, options: argparse.Namespace) -> None:
    cluster.servers.end_all()
    if options.remove:
        shutil.rmtree(cluster.servers.folder)
    say("HDFS is stopped" + (", its files are removed" if options.remove else "; its files are kept"))


def _status(cluster: Hdfs, _options: argparse.Namespace) -> None:
    print("\n".join(cluster.servers.status()) or "HDFS is stopped")
    if cluster.servers.names():
        active = cluster.active()
        shown = state(cluster._ports[f"http-{active or 1}"], "NameNode,name=FSNamesystemState")
        live = shown.get("NumLiveDataNodes", "no")
        print(f"{cluster.url}: {shown.get('FSState', 'does not answer')}, {live} live DataNodes, ", end="")
        print(f"active NameNode: {active or 'none'}")
        if cluster.has_tls:
            print(
                f"WebHDFS with TLS: export REQUESTS_CA_BUNDLE={cluster.certificates.authority}\n{cluster.secure_web()}"
            )
        print(f"web pages and WebHDFS: {cluster._web(active)}")


def _url(cluster: Hdfs, _options: argparse.Namespace) -> None:
    print(cluster.url)


def _server(cluster: Hdfs, options: argparse.Namespace) -> None:
    verb, _, kind = options.command.partition("-")
    name = {"nn": "namenode", "dn": "datanode"}[kind] + f"-{options.number}"
    if verb == "kill":
        cluster.servers.end(name, signal.SIGKILL)
    elif verb in ("pause", "continue"):
        cluster.servers.send(name, signal.SIGSTOP if verb == "pause" else signal.SIGCONT)
    else:
        (cluster.start_namenode if kind == "nn" else cluster.start_datanode)(options.number)
        if cluster.is_ha and kind == "nn":
            cluster._activate_one()
        cluster.wait()


def _safemode(cluster: Hdfs, options: argparse.Namespace) -> None:
    print(cluster.admin("dfsadmin", "-safemode", options.verb), end="")


def _tool(cluster: Hdfs, options: argparse.Namespace) -> None:
    print(cluster.admin(options.command, *options.arguments), end="")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hdfs.sh", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    start = commands.add_parser(
        "start", help="start it, format it the first time, wait until it is ready; print its URL"
    )
    start.add_argument("datanodes", type=int, nargs="?", help="number of DataNodes (default: 1, or as before)")
    start.add_argument("--replication", type=int, help="copies of a block (default: one for each DataNode, at most 3)")
    start.add_argument("--ha", action="store_true", help="two NameNodes that share their edits in a folder")
    start.add_argument("--kerberos", action="store_true", help="let in only those who have a ticket of its own realm")
    start.add_argument("--tls", action="store_true", help="answer by HTTPS too, with certificates of its own authority")
    start.set_defaults(function=_start)
    stop = commands.add_parser("stop", help="end all its processes, and keep its files")
    stop.add_argument("--remove", action="store_true", help="remove its files, too")
    stop.set_defaults(function=_stop)
    commands.add_parser("status", help="list its processes").set_defaults(function=_status)
    commands.add_parser("url", help="print its URL").set_defaults(function=_url)
    words = {"kill": "kill -9", "start": "start", "pause": "SIGSTOP to", "continue": "SIGCONT to"}
    for verb, word in words.items():
        one = commands.add_parser(f"{verb}-nn", help=f"{word} a NameNode")
        one.add_argument("number", type=int, nargs="?", default=1, choices=(1, 2), help="default: 1")
        other = commands.add_parser(f"{verb}-dn", help=f"{word} a DataNode")
        other.add_argument("number", type=int, help="from 1")
        for command in (one, other):
            command.set_defaults(function=_server)
    safemode = commands.add_parser("safemode", help="enter or leave safe mode, in which nothing can be written")
    safemode.add_argument("verb", choices=("enter", "leave", "get"))
    safemode.set_defaults(function=_safemode)
    words_of_failover = "make the other NameNode the active one"
    commands.add_parser("failover", help=words_of_failover).set_defaults(function=lambda it, options: it.failover())
    tools = {
        "fs": "run a command on files, as `hdfs dfs` does: fs -ls /",
        "dfsadmin": "run a command for administrators: dfsadmin -setSpaceQuota 1 /studies",
    }
    for tool, words in tools.items():
        command = commands.add_parser(tool, help=words, prefix_chars="+")
        command.add_argument("arguments", nargs=argparse.REMAINDER)
        command.set_defaults(function=_tool)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    options = _parser().parse_args(arguments)
    cluster = Hdfs(cluster_folder("hdfs"))
    try:
        if options.command not in ("start", "stop") and not cluster._kind:
            raise ClusterError("There is no HDFS yet: bash scripts/hdfs.sh start")
        if options.command in ("fs", "dfsadmin", "status", "url"):
            options.function(cluster, options)
        else:
            with cluster.servers.exclusively():
                options.function(cluster, options)
    except ClusterError as error:
        say(f"hdfs.sh: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

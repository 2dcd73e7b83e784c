"""A real YARN on this machine, on top of the HDFS of scripts/hdfs.sh. See scripts/yarn.sh."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from _hadoop import class_path, java, java_home, state, user, write_settings
from _servers import MARK, ClusterError, Servers, cluster_folder, say

_SERVER = "org.apache.hadoop.yarn.server"
_SCHEDULER = f"{_SERVER}.resourcemanager.scheduler.fifo.FifoScheduler"
_CRYPTOGRAPHY = tuple(f"org.bouncycastle:{name}-jdk18on:1.82" for name in ("bcprov", "bcpkix", "bcutil"))
"""Needed by the ResourceManager's proxy; the servers' jar leaves them out."""
_ADDRESSES = {
    "resourcemanager": "yarn.resourcemanager.address",
    "scheduler": "yarn.resourcemanager.scheduler.address",
    "tracker": "yarn.resourcemanager.resource-tracker.address",
    "admin": "yarn.resourcemanager.admin.address",
    "web": "yarn.resourcemanager.webapp.address",
}
_PASSED_ON = ("JAVA_HOME", "HADOOP_CONF_DIR", "PATH", "LANG", "TZ", "HOME", MARK)
"""Environment variables that containers inherit from their NodeManager."""


class Yarn:
    """One YARN, in one folder."""

    def __init__(self, folder: Path, hdfs: Path) -> None:
        self.servers = Servers(folder)
        self.conf = folder / "conf"
        self._hdfs = hdfs
        self._folder = folder

    @property
    def web(self) -> str:
        return f"http://127.0.0.1:{self._web_port}"

    @property
    def _web_port(self) -> int:
        return self.servers.ports(*_ADDRESSES)["web"]

    def start(self, nodes: int, memory_mb: int, cores: int, *, memory_checks: bool = False) -> None:
        """Start what does not run, and wait until applications can be submitted.

        Raises:
            ClusterError: there is no HDFS, or it does not start.
        """
        if not (self._hdfs / "conf" / "core-site.xml").exists():
            raise ClusterError("YARN keeps the files of applications on HDFS: bash scripts/hdfs.sh start")
        write_settings(self.conf, {"yarn-site.xml": self._settings(memory_mb, cores, memory_checks)})
        for name in ("core-site.xml", "hdfs-site.xml"):
            shutil.copy(self._hdfs / "conf" / name, self.conf)
        self.start_server("resourcemanager")
        for number in range(1, nodes + 1):
            self.start_server(f"nodemanager-{number}")
        self.wait()

    def start_server(self, name: str) -> None:
        kind, _, number = name.partition("-")
        main, options = f"{_SERVER}.resourcemanager.ResourceManager", []
        if kind == "nodemanager":
            main = f"{_SERVER}.nodemanager.NodeManager"
            dirs = {"local": f"local-{number}", "log": "logs"}
            options = [f"-Dyarn.nodemanager.{key}-dirs={self._folder / dirs[key]}" for key in dirs]
        command = java(self.servers, class_path(self.conf, *_CRYPTOGRAPHY), main, *options)
        environment = {"JAVA_HOME": str(java_home()), "HADOOP_CONF_DIR": str(self.conf)}
        if self.servers.start(name, command, environment):
            say(f"starting {name}")

    def wait(self) -> None:
        """Wait until the ResourceManager knows all NodeManagers that run."""
        count = sum(name.startswith("nodemanager") for name in self.servers.names())
        self.servers.wait("YARN", lambda: self.active_nodes() >= count)

    def active_nodes(self) -> int:
        """Return the number of NodeManagers that can run containers; -1: the ResourceManager does not answer."""
        return int(state(self._web_port, "ResourceManager,name=ClusterMetrics").get("NumActiveNMs", -1))

    def outputs(self, application: str) -> list[Path]:
        """Return the output of a driver in cluster mode, one file an attempt; by default of the last application."""
        logs = sorted((self._folder / "logs").glob(f"{application or 'application_*'}"))
        return sorted(logs[-1].glob("container_*_000001/stdout")) if logs else []

    def _settings(self, memory_mb: int, cores: int, memory_checks: bool) -> dict[str, object]:
        ports = self.servers.ports(*_ADDRESSES)
        return {
            **{
                f"yarn.{kind}manager.{key}": "127.0.0.1"
                for kind in ("resource", "node")
                for key in ("hostname", "bind-host")
            },
            **{key: f"127.0.0.1:{ports[name]}" for name, key in _ADDRESSES.items()},
            **{f"yarn.nodemanager.{kind}address": "127.0.0.1:0" for kind in ("", "localizer.", "webapp.")},
            "yarn.resourcemanager.scheduler.class": _SCHEDULER,
            "yarn.resourcemanager.am.max-attempts": 4,  # the limit for spark.yarn.maxAppAttempts
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": 200,
            "yarn.scheduler.minimum-allocation-mb": 256,
            "yarn.scheduler.maximum-allocation-mb": memory_mb,
            "yarn.nodemanager.resource.memory-mb": memory_mb,
            "yarn.nodemanager.resource.cpu-vcores": cores,
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": str(memory_checks).lower(),
            "yarn.nodemanager.resource.memory.enforced": "false",  # by cgroups, which are not used here
            "yarn.nodemanager.container-monitor.interval-ms": 300,
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 99.9,
            "yarn.nodemanager.disk-health-checker.min-free-space-per-disk-mb": 0,
            "yarn.nodemanager.env-whitelist": ",".join(_PASSED_ON),
            "yarn.nm.liveness-monitor.expiry-interval-ms": 60_000,
            # On a busy machine an ApplicationMaster needs minutes to get its environment and to register.
            "yarn.am.liveness-monitor.expiry-interval-ms": 600_000,
            "yarn.log-aggregation-enable": "false",
            "yarn.application.classpath": "",  # Spark brings its own jars
            "hadoop.http.staticuser.user": user(),
        }


def _start(cluster: Yarn, options: argparse.Namespace) -> None:
    cluster.start(options.nodes, options.memory_mb, options.cores, memory_checks=options.memory_checks)
    say(f"YARN is ready, {cluster.web}: export HADOOP_CONF_DIR={cluster.conf}")
    print(cluster.conf)


def _stop(cluster: Yarn, options: argparse.Namespace) -> None:
    cluster.servers.end_all()
    if options.remove:
        shutil.rmtree(cluster.servers.folder)
    say("YARN is stopped" + (", its files are removed" if options.remove else ""))


def _status(cluster: Yarn, _options: argparse.Namespace) -> None:
    print("\n".join(cluster.servers.status()) or "YARN is stopped")
    if cluster.servers.names():
        print(f"{cluster.web}: {max(0, cluster.active_nodes())} NodeManagers; HADOOP_CONF_DIR={cluster.conf}")


def _server(cluster: Yarn, options: argparse.Namespace) -> None:
    verb, _, kind = options.command.partition("-")
    name = "resourcemanager" if kind == "rm" else f"nodemanager-{options.number}"
    if verb == "kill":
        cluster.servers.end(name, signal.SIGKILL)
    else:
        cluster.start_server(name)
        cluster.wait()


def _conf(cluster: Yarn, _options: argparse.Namespace) -> None:
    if not cluster.servers.names():
        raise ClusterError(
            "YARN does not run: bash scripts/yarn.sh start, or set HADOOP_CONF_DIR to that of a cluster."
        )
    print(cluster.conf)


def _logs(cluster: Yarn, options: argparse.Namespace) -> None:
    found = cluster.outputs(options.application)
    if not found:
        raise ClusterError("No driver has run here yet: bash scripts/submit_yarn.sh --deploy-mode cluster SCRIPT")
    for path in found:
        say(f"{path}:")
        print(path.read_text(errors="replace"), end="")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="yarn.sh", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    start = commands.add_parser("start", help="start it and wait until it is ready; print its HADOOP_CONF_DIR")
    start.add_argument("nodes", type=int, nargs="?", default=1, help="number of NodeManagers (default: 1)")
    start.add_argument("--memory-mb", type=int, default=6144, help="memory of each for containers (default: 6144)")
    start.add_argument("--cores", type=int, default=4, help="cores of each for containers (default: 4)")
    start.add_argument(
        "--memory-checks", action="store_true", help="kill containers that take more than they asked for"
    )
    start.set_defaults(function=_start)
    stop = commands.add_parser("stop", help="end all its processes, those of applications included")
    stop.add_argument("--remove", action="store_true", help="remove its files, too: logs of applications")
    stop.set_defaults(function=_stop)
    commands.add_parser("status", help="list its processes").set_defaults(function=_status)
    commands.add_parser("conf", help="print its HADOOP_CONF_DIR").set_defaults(function=_conf)
    for verb, word in {"kill": "kill -9", "start": "start"}.items():
        commands.add_parser(f"{verb}-rm", help=f"{word} the ResourceManager").set_defaults(function=_server)
        node = commands.add_parser(f"{verb}-nm", help=f"{word} a NodeManager")
        node.add_argument("number", type=int, help="from 1")
        node.set_defaults(function=_server)
    logs = commands.add_parser("logs", help="print what a driver in cluster mode printed")
    logs.add_argument("application", nargs="?", default="", help="application_..._0001 (default: the last one)")
    logs.set_defaults(function=_logs)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    options = _parser().parse_args(arguments)
    cluster = Yarn(cluster_folder("yarn"), cluster_folder("hdfs"))
    try:
        if options.command in ("conf", "logs", "status"):
            options.function(cluster, options)
        else:
            with cluster.servers.exclusively():
                options.function(cluster, options)
    except ClusterError as error:
        say(f"yarn.sh: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

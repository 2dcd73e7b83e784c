"""A standalone Spark cluster on this machine, out of the pip package. See scripts/spark_cluster.sh."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import urllib.request
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from _hadoop import java_home
from _jars import pyspark_home
from _servers import ClusterError, Servers, cluster_folder, say

_LEAVING = "leaving-"
_DEPLOY = "org.apache.spark.deploy"
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a company's proxy does not know this machine


class SparkCluster:
    """One Master and its Workers, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.servers = Servers(folder)
        self._folder = folder
        self._size_path = folder / "size.json"

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.servers.ports('master')['master']}"

    @property
    def web(self) -> str:
        return f"http://127.0.0.1:{self.servers.ports('web')['web']}"

    def start(self, workers: int, cores: int, memory: str) -> None:
        """Start what does not run, and wait until the Master knows all Workers.

        Raises:
            ClusterError: it does not start.
        """
        self._size_path.write_text(json.dumps({"cores": cores, "memory": memory}))
        ports = self.servers.ports("master", "web")
        self._start_server("master", "master.Master", "--port", ports["master"], "--webui-port", ports["web"])
        self.start_workers(range(1, workers + 1))

    def start_workers(self, numbers: Iterable[int]) -> None:
        """Start those of these Workers that do not run, and wait until the Master knows them."""
        before = self.alive_workers()
        started = [number for number in numbers if self._start_worker(number)]
        self.servers.wait(
            "Spark",
            lambda: len(self.alive_workers() - before) >= len(started) and self._answers(),
            may_end=_LEAVING,
        )

    def _start_worker(self, number: int) -> bool:
        size = json.loads(self._size_path.read_text())
        where = ("--port", 0, "--webui-port", 0, "--work-dir", self._folder / f"work-{number}")
        what = ("--cores", size["cores"], "--memory", size["memory"])
        return self._start_server(f"worker-{number}", "worker.Worker", *where, *what, self.url)

    def add_worker(self) -> int:
        """Start a further Worker, and return its number."""
        numbers = [int(name.rpartition("-")[2]) for name in self.servers.names() if name != "master"]
        number = max(numbers, default=0) + 1
        self.start_workers([number])
        return number

    def decommission_worker(self, number: int) -> None:
        """Announce that a Worker leaves; it ends when its executors have ended."""
        self.servers.send(f"worker-{number}", signal.SIGPWR)
        self.servers.rename(f"worker-{number}", f"{_LEAVING}{number}")

    def alive_workers(self) -> set[str]:
        """Return the names under which the Master knows the Workers that may get executors."""
        return {worker["id"] for worker in self._state().get("workers", ()) if worker["state"] == "ALIVE"}

    def _answers(self) -> bool:
        return bool(self._state())

    def _state(self) -> dict[str, Any]:
        try:
            with _opener.open(f"{self.web}/json/", timeout=5) as answer:
                return dict(json.load(answer))
        except (OSError, ValueError):
            return {}

    def _start_server(self, name: str, main: str, *arguments: object) -> bool:
        options = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        environment = {
            "JAVA_HOME": str(java_home()),
            "SPARK_HOME": str(pyspark_home()),
            "SPARK_CONF_DIR": str(self._folder),  # nobody's settings
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_PUBLIC_DNS": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "160m",
            "SPARK_DAEMON_JAVA_OPTS": f"{options} -Djava.io.tmpdir={self._folder / 'tmp'}",
            "SPARK_WORKER_OPTS": "-Dspark.decommission.enabled=true",  # SIGPWR decommissions a Worker
        }
        spark_class = pyspark_home() / "bin" / "spark-class"
        command = [spark_class, f"{_DEPLOY}.{main}", "--host", "127.0.0.1", *map(str, arguments)]
        is_started = self.servers.start(name, command, environment)
        if is_started:
            say(f"starting {name}")
        return is_started


def _start(cluster: SparkCluster, options: argparse.Namespace) -> None:
    cluster.start(options.workers, options.cores, options.memory)
    say(f"Spark is ready, {cluster.web}")
    print(cluster.url)


def _stop(cluster: SparkCluster, options: argparse.Namespace) -> None:
    cluster.servers.end_all()
    if options.remove:
        shutil.rmtree(cluster.servers.folder)
    say("Spark is stopped" + (", its files are removed" if options.remove else ""))


def _status(cluster: SparkCluster, _options: argparse.Namespace) -> None:
    print("\n".join(cluster.servers.status()) or "Spark is stopped")
    if cluster.servers.names():
        print(f"{cluster.url}: {len(cluster.alive_workers())} Workers; web page: {cluster.web}")


def _url(cluster: SparkCluster, _options: argparse.Namespace) -> None:
    print(cluster.url)


def _add(cluster: SparkCluster, _options: argparse.Namespace) -> None:
    print(cluster.add_worker())


def _worker(cluster: SparkCluster, options: argparse.Namespace) -> None:
    name = f"worker-{options.number}"
    if options.command == "kill-worker":
        cluster.servers.end(name, signal.SIGKILL)
    elif options.command == "decommission-worker":
        cluster.decommission_worker(options.number)
    else:
        cluster.start_workers([options.number])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="spark_cluster.sh", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    start = commands.add_parser("start", help="start it and wait until it is ready; print its URL")
    start.add_argument("workers", type=int, nargs="?", default=2, help="number of Workers (default: 2)")
    cores = min(2, os.cpu_count() or 1)
    start.add_argument("--cores", type=int, default=cores, help=f"cores of each for executors (default: {cores})")
    start.add_argument("--memory", default="1g", help="memory of each for executors (default: 1g)")
    start.set_defaults(function=_start)
    stop = commands.add_parser("stop", help="end all its processes, executors included")
    stop.add_argument("--remove", action="store_true", help="remove its files, too: logs of executors")
    stop.set_defaults(function=_stop)
    commands.add_parser("status", help="list its processes").set_defaults(function=_status)
    commands.add_parser("url", help="print spark://127.0.0.1:PORT").set_defaults(function=_url)
    commands.add_parser("add-worker", help="start one more Worker and print its number").set_defaults(function=_add)
    words = {"kill": "kill -9 a Worker", "start": "start a Worker", "decommission": "ask a Worker to leave, by SIGPWR"}
    for verb, help_text in words.items():
        worker = commands.add_parser(f"{verb}-worker", help=help_text)
        worker.add_argument("number", type=int, help="from 1")
        worker.set_defaults(function=_worker)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command."""
    options = _parser().parse_args(arguments)
    cluster = SparkCluster(cluster_folder("spark"))
    try:
        if options.command not in ("start", "stop", "status") and not cluster.servers.names():
            raise ClusterError("There is no Spark cluster yet: bash scripts/spark_cluster.sh start 2")
        with cluster.servers.exclusively():
            options.function(cluster, options)
    except ClusterError as error:
        say(f"spark_cluster.sh: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

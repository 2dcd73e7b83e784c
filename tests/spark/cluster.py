"""Spark for tests: sessions in this process, and a standalone cluster of real JVMs from the pip package."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
_PATIENCE_S = 300.0
FAST_START = os.environ.get("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
"""Options of each Java; scripts/check.sh adds an archive of Spark's classes."""
_SETTINGS = {
    "spark.executor.extraJavaOptions": FAST_START,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.log.level": "ERROR",
}


def spark_home() -> Path:
    """Return the folder of the pip package, which holds all of Spark."""
    import pyspark

    return Path(pyspark.__file__).parent


@contextlib.contextmanager
def spark_session(master: str, **settings: str) -> Iterator[Any]:
    """Make a session and stop it again. Dots of the settings' names are written as two underscores."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.master(master).appName("asyncsearch-tests")
        for key, value in _SETTINGS.items():
            builder = builder.config(key, value)
        for key, value in settings.items():
            builder = builder.config(key.replace("__", "."), value)
        session = builder.getOrCreate()
        try:
            yield session
        finally:
            session.stop()


def require_jobs(session: Any, count: int, *descriptions: str) -> None:
    """Require that so many jobs run: Spark learns of an end by a bus of events, a moment after who waited for it.

    Args:
        session: their session.
        count: how many.
        descriptions: what Spark's pages say of them, if that is to be looked at.
    """
    deadline, context = time.monotonic() + _PATIENCE_S, session.sparkContext
    found = context._jsc.sc().statusStore()
    while True:
        jobs = [found.job(job).description() for job in context.statusTracker().getActiveJobsIds()]
        said = [job.get() if job.isDefined() else "" for job in jobs]
        if len(said) == count and (not descriptions or said == list(descriptions)):
            return
        assert time.monotonic() < deadline, f"active: {said}"
        time.sleep(0.02)


def require_no_job(session: Any) -> None:
    """Require that no job is left."""
    require_jobs(session, 0)


class Daemon:
    """A Master or a Worker of a standalone cluster."""

    def __init__(self, log: Path, *arguments: str, heap: str = "128m") -> None:
        """Start ``spark-class`` with these arguments; what it writes goes to ``log``."""
        self.log = log
        environment = {
            **os.environ,
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": heap,
            "SPARK_DAEMON_JAVA_OPTS": FAST_START,
            "SPARK_PUBLIC_DNS": "127.0.0.1",
        }
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [str(spark_home() / "bin" / "spark-class"), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            process_group=0,
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def await_line(self, pattern: str) -> re.Match[str]:
        """Wait for a line that matches, after those that were awaited before."""
        while (line := self._lines.get(timeout=_PATIENCE_S)) is not None:
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError(f"{self.log} ended without {pattern!r}:\n{self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        """End it with kill -9, and wait for that."""
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        """Write the log; a pipe that nobody reads would stop the daemon when it is full."""
        assert self._process.stderr is not None
        with self._process.stderr as lines, self.log.open("a") as log:
            for line in lines:
                log.write(line)
                self._lines.put(line)
        self._lines.put(None)


class StandaloneCluster:
    """A Master and Workers on 127.0.0.1, with ports that the system chooses.

    ``with StandaloneCluster(tmp_path, workers=2) as cluster, spark_session(cluster.url) as session: ...``
    """

    def __init__(self, folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "700m") -> None:
        """Describe a cluster; each worker machine gets these cores and this memory for executors."""
        self._folder = folder
        self._count, self._cores, self._memory = workers, cores, memory
        self.url = ""
        self.master: Daemon | None = None
        self.workers: list[Daemon] = []

    def __enter__(self) -> StandaloneCluster:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        executors = self.executors()
        for daemon in [*self.workers, *([self.master] if self.master else [])]:
            daemon.kill()
        for pid in executors:
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(pid).kill()

    def _start(self) -> None:
        where = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.master = Daemon(self._folder / "master.log", "org.apache.spark.deploy.master.Master", *where)
        self.url = self.master.await_line(r"Starting Spark master at (spark://\S+)")[1]
        for number in range(self._count):
            self.add_worker(number, where)

    def add_worker(self, number: int, where: tuple[str, ...]) -> Daemon:
        """Start one more worker machine, and wait until the Master knows it."""
        size = ("--cores", str(self._cores), "--memory", self._memory)
        work = self._folder / f"work-{number}"
        name = "org.apache.spark.deploy.worker.Worker"
        log = self._folder / f"worker-{number}.log"
        worker = Daemon(log, name, *where, *size, "--work-dir", str(work), self.url)
        self.workers.append(worker)
        worker.await_line("Successfully registered with master")
        return worker

    def executors(self) -> list[int]:
        """Return the process ids of the executors' JVMs."""
        found = []
        for worker in self.workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                for process in psutil.Process(worker.pid).children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        if _EXECUTOR in process.cmdline():
                            found.append(process.pid)
        return found

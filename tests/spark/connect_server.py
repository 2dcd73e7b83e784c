"""A Spark Connect server for tests, pyspark's own: it runs in this process's Java, its clients speak gRPC to it."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.cluster import FAST_START, Daemon

_SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@contextlib.contextmanager
def connect_session(master: str = "local[3]", **settings: str) -> Iterator[Any]:
    """Start a server and yield a session of it. Dots of the settings' names are written as two underscores."""
    from pyspark.sql import SparkSession

    every = _SETTINGS | {key.replace("__", "."): value for key, value in settings.items()}
    # Those of the server: the builder's would be the session's too, which may not change them and warns.
    options = [part for key, value in every.items() for part in ("--conf", f"{key}={value}")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYSPARK_SUBMIT_ARGS", shlex.join([*options, "pyspark-shell"]))
        patch.setenv("SPARK_TESTING", "1")  # any free port
        session = SparkSession.builder.remote(master).getOrCreate()
        try:
            yield session
        finally:
            session.stop()
            os.environ.pop("SPARK_CONNECT_AUTHENTICATE_TOKEN", None)


def server_context() -> Any:
    """Return the classic context of the server that runs in this process."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context


class ConnectServer:
    """A Connect server in a process of its own, which is the driver of a cluster's application."""

    def __init__(self, log: Path, master: str, **settings: str) -> None:
        """Start it, with a port that the system chooses. Dots of the settings' names are written as two underscores."""
        every = _SETTINGS | {
            "spark.connect.grpc.binding.port": "0",
            "spark.connect.authenticate.token": "",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": FAST_START,
            "spark.log.level": "INFO",
        }
        every |= {key.replace("__", "."): value for key, value in settings.items()}
        options = [part for key, value in every.items() if value for part in ("--conf", f"{key}={value}")]
        submit = ("org.apache.spark.deploy.SparkSubmit", "--master", master, *options)
        name = "org.apache.spark.sql.connect.service.SparkConnectServer"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYSPARK_PYTHON", sys.executable)
            self.daemon = Daemon(log, *submit, "--class", name, "spark-internal", heap="512m")
        found = self.daemon.await_line(r"Spark Connect server started at: \S*?:(\d+)")
        self.port = found[1]
        self.url = f"sc://127.0.0.1:{self.port}"

    def session(self) -> Any:
        """Return a new session of it."""
        from pyspark.sql.connect.session import SparkSession

        return SparkSession.builder.remote(self.url).create()

"""HDFS's own client in Java, driven from Python: what a store is compared with in ``bench_store.py``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _hadoop import class_path
from _jars import pyspark_jar
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway


class JvmClient:
    """A ``FileSystem`` of Java; each call of it costs some 0.3 ms more, for the way to the other process."""

    def __init__(self, gateway: JavaGateway, conf: Path, url: str) -> None:
        self._jvm = jvm = gateway.jvm
        settings = jvm.org.apache.hadoop.conf.Configuration()
        for name in ("core-site.xml", "hdfs-site.xml"):
            settings.addResource(self.path((conf / name).as_uri()))
        self._files = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI(url), settings)

    def path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(name)

    def upload(self, local: Path, name: str) -> None:
        self._files.copyFromLocalFile(False, True, self.path(str(local)), self.path(name))

    def download(self, name: str, local: Path) -> None:
        """Copy a file here, without the file of checksums that Java would write beside it."""
        self._files.copyToLocalFile(False, self.path(name), self.path(str(local)), True)

    def write(self, name: str, data: bytes) -> None:
        """Write a file under another name and rename it."""
        out = self._files.create(self.path(f"{name}.new"))
        out.write(data)
        out.close()
        self._files.rename(self.path(f"{name}.new"), self.path(name))

    def open_new(self, name: str) -> Any:
        """Return an output stream."""
        return self._files.create(self.path(name))


@contextlib.contextmanager
def jvm_client(conf: Path, url: str) -> Iterator[JvmClient]:
    """Start a JVM with the settings of a cluster, and yield its client."""
    path = class_path(conf)
    port = launch_gateway(classpath=path, jarpath=str(pyspark_jar("py4j")), javaopts=["-Xmx256m"], die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        yield JvmClient(gateway, conf, url)
    finally:
        gateway.shutdown()

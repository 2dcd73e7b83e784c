"""A real HDFS of one NameNode and one DataNode on this machine, for scripts; its jars are PySpark's and one from Maven.

Needs Java 17, ``mvn`` for the one jar (56 MB, fetched once into the local Maven repository) and pyspark.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

_VERSION = "3.5.0"
_POM = f"""<project><modelVersion>4.0.0</modelVersion><groupId>hdfs</groupId><artifactId>hdfs</artifactId>
<version>1</version><dependencies><dependency><groupId>org.apache.hadoop</groupId>
<artifactId>hadoop-client-minicluster</artifactId><version>{_VERSION}</version><exclusions><exclusion>
<groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency></dependencies></project>"""
_PYSPARK_JARS = (
    "hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "log4j-api", "log4j-core", "log4j-slf4j2-impl",
    "log4j-1.2-api", "jcl-over-slf4j", "jsr305", "snappy-java",
)  # fmt: skip
_SERVER = "org.apache.hadoop.hdfs.server"
_PATIENCE_S = 120.0


@contextlib.contextmanager
def hdfs(folder: Path) -> Iterator[str]:
    """Run an HDFS whose data and logs are in a folder, and yield its URL; all users may write to it.

    Raises:
        RuntimeError: it did not start; the message names the log.
    """
    rpc, http = _free_port(), _free_port()
    java = _java(folder, _configured(folder, rpc, http))
    subprocess.run(
        [*java, f"{_SERVER}.namenode.NameNode", "-format", "-nonInteractive"], capture_output=True, check=True
    )
    if not (folder / "name" / "current" / "VERSION").exists():  # without a jar it fails silently, with exit code 0
        raise RuntimeError(f"The NameNode was not formatted. A jar is missing: {java[-1]}")
    servers = [_start(java, folder, name) for name in ("namenode.NameNode", "datanode.DataNode")]
    try:
        _await_ready(http, folder)
        yield f"hdfs://127.0.0.1:{rpc}"
    finally:
        for server in servers:
            server.kill()
            server.wait()


def _configured(folder: Path, rpc: int, http: int) -> Path:
    """Write the settings, and return the folder that comes first on the class path."""
    home = folder / "conf"
    for page in ("hdfs", "datanode", "static"):
        (home / "webapps" / page).mkdir(parents=True)
    (folder / "tmp").mkdir()
    settings = {
        "fs.defaultFS": f"hdfs://127.0.0.1:{rpc}",
        "dfs.namenode.rpc-address": f"127.0.0.1:{rpc}",
        "dfs.namenode.http-address": f"127.0.0.1:{http}",
        "dfs.namenode.name.dir": f"file://{folder}/name",
        "dfs.datanode.data.dir": f"file://{folder}/data",
        "dfs.datanode.hostname": "127.0.0.1",
        **{f"dfs.datanode.{kind}address": "127.0.0.1:0" for kind in ("", "http.", "ipc.")},
        "dfs.replication": "1",
        "dfs.permissions.enabled": "false",
        "dfs.namenode.safemode.extension": "0",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.heartbeat.interval": "1",
        "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10",
    }
    properties = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    for name in ("core-site.xml", "hdfs-site.xml"):
        (home / name).write_text(f"<configuration>{properties}</configuration>")
    return home


def _java(folder: Path, conf: Path) -> list[str]:
    """Return the command up to the name of a class."""
    import pyspark

    (folder / "pom.xml").write_text(_POM)
    command = ["mvn", "-q", "-B", "-f", str(folder / "pom.xml"), "dependency:copy-dependencies"]
    subprocess.run([*command, f"-DoutputDirectory={folder / 'jars'}"], check=True)
    spark = Path(pyspark.__file__).parent / "jars"
    jars = [next(spark.glob(f"{name}-[0-9]*.jar")) for name in _PYSPARK_JARS]
    jars += (folder / "jars").glob("*.jar")
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={folder / 'tmp'}"]
    return ["java", *options, "-cp", os.pathsep.join(map(str, [conf, *jars]))]


def _start(java: list[str], folder: Path, name: str) -> subprocess.Popen[bytes]:
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen([*java, f"{_SERVER}.{name}"], stdout=log, stderr=log)


def _await_ready(http: int, folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not (
        _says(http, "NameNodeInfo", '"Safemode" : ""') and _says(http, "FSNamesystemState", '"NumLiveDataNodes" : 1')
    ):
        if time.monotonic() > deadline:
            raise RuntimeError(f"HDFS did not start within {_PATIENCE_S:g} s: see {folder}/*.log")
        time.sleep(0.5)


def _says(http: int, bean: str, words: str) -> bool:
    url = f"http://127.0.0.1:{http}/jmx?qry=Hadoop:service=NameNode,name={bean}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return words in answer.read().decode()
    except OSError:
        return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])

"""What all servers of Hadoop need: Java, its options, a class path, settings; and the state that they show."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from _jars import jar, pyspark_jar
from _servers import ClusterError, Servers

VERSION = "3.5.0"
_OF_PYSPARK = (
    "slf4j-api", "jcl-over-slf4j", "log4j-api", "log4j-core", "log4j-slf4j2-impl", "log4j-1.2-api", "snappy-java",
    "jsr305",
)  # fmt: skip
_PAGES = ("hdfs", "datanode", "static", "cluster", "node", "yarn")
_LOG4J = """\
rootLogger.level = warn
rootLogger.appenderRef.c.ref = console
appender.c.type = Console
appender.c.name = console
appender.c.target = SYSTEM_ERR
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex
"""


def java_home() -> Path:
    """Return the home of Java 17 or newer: ``JAVA_HOME``, or that of PATH.

    Raises:
        ClusterError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "")
    if not found.is_file():
        raise ClusterError(f"There is no Java at {found}: install Java 17 or newer, or set JAVA_HOME.")
    return Path(home) if home else found.resolve().parent.parent


def class_path(conf: Path, *more: str) -> str:
    """Return the class path of a server: its settings, then the servers before the clients, and what they need.

    Its pages and its way of logging are beside the settings, which programs of users read too.
    """
    ours = ("minicluster", "api", "runtime")
    jars = [jar(f"org.apache.hadoop:hadoop-client-{name}:{VERSION}") for name in ours]
    jars += [pyspark_jar(name) for name in _OF_PYSPARK]
    jars += [jar(name) for name in more]
    return os.pathsep.join(map(str, [conf, _own(conf), *jars]))


def _own(conf: Path) -> Path:
    return conf.with_name("server")


def java(servers: Servers, path: str, *arguments: str, heap_mb: int = 256) -> list[str]:
    """Return the command that runs a class of Hadoop."""
    options = [f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
    # Jetty unpacks its pages there, and leaves them when it is killed.
    options += [f"-Djava.io.tmpdir={servers.folder / 'tmp'}"]
    return [str(java_home() / "bin" / "java"), *options, "-cp", path, *arguments]


def run_java(command: Sequence[str]) -> str:
    """Run a command of ``java`` to its end and return what it prints.

    Raises:
        ClusterError: it failed; with the last lines of what it said.
    """
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join((done.stdout + done.stderr).splitlines()[-8:])
        raise ClusterError(f"{command[-1]} failed with exit code {done.returncode}:\n{said}")
    return done.stdout


def write_settings(conf: Path, files: Mapping[str, Mapping[str, object]]) -> None:
    """Write the settings of a cluster, and what else its class path must begin with."""
    for page in _PAGES:
        (_own(conf) / "webapps" / page).mkdir(parents=True, exist_ok=True)
    (_own(conf) / "log4j2.properties").write_text(_LOG4J)
    conf.mkdir(exist_ok=True)
    for name, settings in files.items():
        rows = [
            f"  <property><name>{key}</name><value>{escape(str(settings[key]))}</value></property>" for key in settings
        ]
        (conf / name).write_text("\n".join(["<configuration>", *rows, "</configuration>", ""]))


def user() -> str:
    """Return the user's name."""
    return getpass.getuser()


def state(port: int, bean: str) -> dict[str, Any]:
    """Return the attributes that a server shows of itself. Empty if it does not answer yet."""
    url = f"http://127.0.0.1:{port}/jmx?qry=Hadoop:service={bean}"
    try:
        with _opener.open(url, timeout=5) as answer:
            beans = json.load(answer)["beans"]
    except (OSError, ValueError):
        return {}
    return dict(beans[0]) if beans else {}


_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a company's proxy does not know this machine


def send(method: str, url: str) -> None:
    """Send a request without a body to a server of this machine."""
    with _opener.open(urllib.request.Request(url, method=method), timeout=30):
        pass

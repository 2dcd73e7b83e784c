"""A real HDFS of two DataNodes for the tests of a process, started when the first of them asks for it.

With ASYNCSEARCH_CLUSTER_DIR it is the one that `scripts/hdfs.sh start 2 --tls` has started there, and goes on
afterwards.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import getpass
import os
import re
import shutil
import subprocess
import tempfile
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
_SCRIPT = REPOSITORY / "scripts" / "hdfs.sh"
_PATIENCE_S = 300.0


class Hdfs:
    """A running HDFS."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder) / "hdfs"
        self._environment = os.environ | {"ASYNCSEARCH_CLUSTER_DIR": folder}
        self.url = ""

    def call(self, *command: str) -> str:
        """Run ``scripts/hdfs.sh`` and return what it prints."""
        done = subprocess.run(
            ["bash", str(_SCRIPT), *command],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"hdfs.sh {' '.join(command)} failed: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    @functools.cached_property
    def gateway(self) -> str:
        """Where it answers over HTTP, ``host:port``."""
        return self.call("status").splitlines()[-1].rpartition("//")[2]

    @property
    def certificates(self) -> Path:
        """The authority that a client by HTTPS must trust; skips the test where the cluster has none."""
        path = self._folder / "tls" / "authority.pem"
        if not path.exists():
            pytest.skip("this HDFS has no certificates: bash scripts/hdfs.sh start 2 --tls")
        return path

    @functools.cached_property
    def secure_gateway(self) -> str:
        """Where it answers by HTTPS, ``host:port``."""
        return self.call("status").splitlines()[-2].rpartition("//")[2]

    def set_space_quota(self, path: str, size_bytes: int) -> None:
        """Limit what a folder may hold; -1: it has no limit. By HTTP: a tool of Hadoop takes seconds to start."""
        asked = f"op=SETQUOTA&namespacequota=-1&storagespacequota={size_bytes}&user.name={getpass.getuser()}"
        self._ask("PUT", f"webhdfs/v1{path}?{asked}")

    def lose_content(self, path: str) -> None:
        """Remove what all DataNodes have of the files below a path; the NameNode goes on listing them."""
        asked = urllib.parse.urlencode({"ugi": getpass.getuser(), "path": path, "files": 1, "blocks": 1})
        blocks = {name.decode() for name in re.findall(rb"blk_\d+", self._ask("GET", f"fsck?{asked}"))}
        assert blocks, f"there are no blocks below {path}"
        for kept in self._folder.glob("data-*/current/*/current/*/**/blk_*"):
            if re.match(r"blk_\d+", kept.name)[0] in blocks:  # type: ignore[index]
                kept.unlink()

    def _ask(self, method: str, what: str) -> bytes:
        request = urllib.request.Request(f"http://{self.gateway}/{what}", method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=_PATIENCE_S) as answer:
            return bytes(answer.read())

    def new(self) -> str:
        """Return the URL of a place where nothing is."""
        return f"{self.url}/tests/{uuid.uuid4().hex}"

    def path(self, url: str) -> str:
        """Return the path of a URL of this cluster."""
        return url.removeprefix(self.url)


_OWN: list[Hdfs] = []
"""The cluster that this process has started, at most one."""


def stop() -> None:
    """End what this process has started."""
    while _OWN:
        cluster = _OWN.pop()
        # One that does not start cannot be stopped either, which says nothing of the tests.
        with contextlib.suppress(RuntimeError, subprocess.TimeoutExpired):
            cluster.call("stop", "--remove")
        shutil.rmtree(cluster._folder.parent, ignore_errors=True)


def hdfs() -> Hdfs:
    """Return the cluster; skip the test, with the reason, where it cannot run."""
    found = _started()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@functools.cache
def _started() -> Hdfs | str:
    pytest.importorskip("hdfs_native")
    pytest.importorskip("pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        return "there is no Java"
    given = os.environ.get("ASYNCSEARCH_CLUSTER_DIR", "")
    folder = given or tempfile.mkdtemp(prefix="asyncsearch-hdfs-")
    cluster = Hdfs(folder)
    try:
        if not given:
            _OWN.append(cluster)
            atexit.register(stop)
        last = cluster.call(*(("url",) if given else ("start", "2", "--tls"))).splitlines()[-1]
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return f"HDFS does not start here: {str(error)[-300:]}"
    cluster.url = last
    return cluster

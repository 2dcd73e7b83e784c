"""Jars for test clusters: PySpark's own, else those of a Maven repository, kept in a cache and checked."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import urllib.request
from pathlib import Path

from _servers import ClusterError, say

_CENTRAL = "https://repo1.maven.org/maven2"
_HADOOP, _BOUNCY = "org.apache.hadoop:hadoop-client", "org.bouncycastle:bc"
_SHA256 = {
    f"{_HADOOP}-minicluster:3.5.0": "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
    f"{_HADOOP}-api:3.5.0": "cc59446ec9ebaceae56fdb8d8c21477766dc5d426325642151c796bec5c4e6b7",
    f"{_HADOOP}-runtime:3.5.0": "b7db3e60c5df1cd37c2995b3e0142e57487260706834e5325bbe0a5e683eedf1",
    f"{_BOUNCY}prov-jdk18on:1.82": "14cde2fdfaa8890480a8e5b67aceef0c90f96682c1e23c133bafdc9e0b3255ce",
    f"{_BOUNCY}pkix-jdk18on:1.82": "bdc723e20834832ac6af136cb5b5ff05e43b71d4fa151cc6510d9212ee086e63",
    f"{_BOUNCY}util-jdk18on:1.82": "4420691958ad1c0ba275a6d6d8a6317adbdbdc9277055b6a72aa89c88cda8c7d",
}
"""What is fetched, by its Maven coordinates."""


def pyspark_home() -> Path:
    """Return the folder of the pip package, which holds all of Spark."""
    import pyspark

    return Path(pyspark.__file__).resolve().parent


def pyspark_jar(name: str) -> Path:
    """Return a jar of PySpark, whatever its version.

    Raises:
        ClusterError: this PySpark has no such jar.
    """
    found = sorted((pyspark_home() / "jars").glob(f"{name}-[0-9]*.jar"))
    if not found:
        raise ClusterError(f"{pyspark_home()}/jars has no {name}: install pyspark 3.5.1 or newer with pip.")
    return found[-1]


def jar(coordinates: str) -> Path:
    """Return the path of a jar, fetched if neither PySpark nor the cache has it.

    Raises:
        ClusterError: it cannot be fetched, or what was fetched is not what was expected.
    """
    _, artifact, version = coordinates.split(":")
    name = f"{artifact}-{version}.jar"
    spark = pyspark_home() / "jars" / name
    if spark.exists():
        return spark
    path = _cache() / name
    if not path.exists():
        say(f"fetching {coordinates} into {path.parent}")
        partial = path.with_name(f".{name}.{os.getpid()}")
        try:
            _fetch(coordinates, partial)
            _check(partial, coordinates)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    else:
        _check(path, coordinates)
    return path


def _cache() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "asyncsearch" / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _check(path: Path, coordinates: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != _SHA256[coordinates]:
        raise ClusterError(
            f"{path} has the SHA-256 {found} instead of {_SHA256[coordinates]}: what was fetched is not {coordinates}. "
            "Remove the file, look at what your Maven repository delivers, and start again."
        )


def _fetch(coordinates: str, path: Path) -> None:
    """Copy a jar with ``mvn``, which knows this machine's mirrors and passwords; without it over HTTPS."""
    group, artifact, version = coordinates.split(":")
    url = f"{_repository()}/{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}.jar"
    try:
        if shutil.which("mvn"):
            _fetch_with_mvn(coordinates, path)
        else:
            with urllib.request.urlopen(url, timeout=60) as answer, path.open("wb") as file:
                shutil.copyfileobj(answer, file)
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stdout", None) or error
        raise ClusterError(
            f"{coordinates} could not be fetched: {detail}\nFetch {url} on a machine that can, and put it, under the "
            f"name {artifact}-{version}.jar, into {path.parent}."
        ) from error


def _fetch_with_mvn(coordinates: str, path: Path) -> None:
    folder = path.with_name(f"{path.name}.d")
    command = ["mvn", "-B", "-ntp", "-q", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"]
    try:
        subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        [found] = folder.glob("*.jar")
        found.replace(path)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _repository() -> str:
    """Return the mirror of Maven Central in this user's settings, or Maven Central."""
    settings = Path.home() / ".m2" / "settings.xml"
    text = settings.read_text(encoding="utf-8") if settings.exists() else ""
    for mirror in re.findall(r"<mirror>.*?</mirror>", re.sub("<!--.*?-->", "", text, flags=re.DOTALL), flags=re.DOTALL):
        of, url = (re.search(f"<{tag}>\\s*(.*?)\\s*</{tag}>", mirror) for tag in ("mirrorOf", "url"))
        if of and url and {"*", "central", "external:*"} & set(of[1].split(",")):
            return url[1].rstrip("/")
    return _CENTRAL

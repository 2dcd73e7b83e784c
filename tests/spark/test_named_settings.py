"""Every setting of Spark that a page or a script names is one that Spark reads: its name is in Spark's own classes."""

from __future__ import annotations

import functools
import re
import zipfile
from pathlib import Path

import pytest

from asyncsearch.launch.spark.preflight import BIND_KEY, HOST_KEY, PORT_KEY
from tests.spark.cluster import spark_home

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "scripts").glob("*.sh"), ROOT / "README.md"])
SETTING = re.compile(r"(?<![\w./-])spark\.[A-Za-z][\w.]*\w")
OURS = {BIND_KEY, HOST_KEY, PORT_KEY}
OF_USERS = ("spark.executorEnv.", "spark.yarn.appMasterEnv.", "spark.hadoop.")
"""Settings whose ends are names of environment variables, or of Hadoop."""
COMPOSED = re.compile(
    r"spark\.(?:executor|task|worker)\.(resource)\.\w+\.(amount|discoveryScript|vendor)"
    r"|(spark\.kubernetes\.(?:driver|executor)\.volumes)\.(\w+)\.\w+\.(mount\.path|options)\b.*"
    r"|(spark\.kubernetes\.authenticate\.\w+)\.(serviceAccountName)"
)
"""Settings that Spark puts together; the groups are parts that are in its classes."""
_JARS = ("core", "connect", "launcher", "kubernetes", "yarn", "network-common", "common-utils", "common-utils-java")


@functools.cache
def constants() -> frozenset[str]:
    """Return the dotted words in Spark's classes, which hold the names of all settings."""
    found: set[bytes] = set()
    for jar in (path for name in _JARS for path in (spark_home() / "jars").glob(f"spark-{name}_*.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith(".class"):
                    found |= {*re.findall(rb"[.A-Za-z][A-Za-z0-9.]*", archive.read(name))}
    return frozenset(word.decode() for word in found)


def is_setting(key: str) -> bool:
    """Whether Spark has a setting."""
    known = constants()
    if key in known or key in OURS or key.startswith(OF_USERS):
        return True
    composed = COMPOSED.fullmatch(key)
    return composed is not None and all(
        any(part in known for part in (word, f".{word}", f"{word}.", f".{word}.")) for word in composed.groups() if word
    )


def settings(page: Path) -> list[str]:
    return sorted({*SETTING.findall(page.read_text(encoding="utf-8"))})


@pytest.mark.parametrize("page", [page for page in PAGES if settings(page)], ids=lambda page: page.name)
def test_spark_has_each_setting_that_a_page_names(page: Path) -> None:
    pytest.importorskip("pyspark")
    assert [key for key in settings(page) if not is_setting(key)] == []


@pytest.mark.parametrize(
    "key",
    [
        "spark.kubernetes.containerimage",
        "spark.kubernetes.executor.volumes.persistentVolumeClaim.data.mount.pth",
        "spark.executor.memories",
        "spark.dynamicAllocation.maximumExecutors",
        "spark.kubernetes.authenticate.drivers.serviceAccountName",
    ],
)
def test_a_setting_with_a_slip_of_the_pen_is_found(key: str) -> None:
    pytest.importorskip("pyspark")
    assert not is_setting(key)

"""The clusters that these tests share. They take minutes, so they run only by ``bash scripts/test_clusters.sh``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters.tools import Machine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("ASYNCSEARCH_CLUSTERS") == "all":
        return
    skip = pytest.mark.skip(reason="starts clusters for minutes: bash scripts/test_clusters.sh")
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("cluster"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    made = Machine(tmp_path_factory.mktemp("clusters"))
    made.pack()
    yield made
    for name in ("spark_cluster.sh", "yarn.sh", "hdfs.sh"):
        made.script(name, "stop")


@pytest.fixture(scope="session")
def hdfs(machine: Machine) -> str:
    """Return the URL of an HDFS."""
    return machine.script("hdfs.sh", "start", 1)


@pytest.fixture(scope="module")
def yarn(machine: Machine, hdfs: str) -> Iterator[str]:
    """Return the settings of a YARN, which begins without applications."""
    yield machine.script("yarn.sh", "start")
    machine.script("yarn.sh", "stop")


@pytest.fixture
def workers(machine: Machine) -> Iterator[str]:
    """Return the URL of a standalone cluster with one Worker of one core."""
    yield machine.script("spark_cluster.sh", "start", 1, "--cores", 1)
    machine.script("spark_cluster.sh", "stop", "--remove")

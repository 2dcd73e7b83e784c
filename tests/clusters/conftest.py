"""The clusters that these tests share. They take minutes, so they run only by ``bash scripts/test_clusters.sh``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from asyncsearch import Study
from tests.clusters.tools import SEARCH, SMALL, TWO_EXECUTORS, Machine, Submitted, require_whole
from tests.spark.cluster import StandaloneCluster
from tests.spark.connect_server import ConnectServer
from tests.system.tools import make_study
from tests.system.trained import Gate, make_trainable


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("ASYNCSEARCH_CLUSTERS") == "all":
        return
    skip = pytest.mark.skip(reason="starts clusters for minutes: bash scripts/test_clusters.sh")
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("cluster"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """The scripts of the clusters; nothing can be submitted yet."""
    made = Machine(tmp_path_factory.mktemp("clusters"))
    yield made
    for name in ("spark_cluster.sh", "yarn.sh", "hdfs.sh"):
        made.script(name, "stop")


@pytest.fixture(scope="session")
def machine(scripts: Machine) -> Machine:
    """The same with a packed environment, which takes some half a minute."""
    scripts.pack()
    return scripts


@pytest.fixture(scope="session")
def hdfs(scripts: Machine) -> str:
    """Return the URL of an HDFS."""
    return scripts.script("hdfs.sh", "start", 1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    """A Connect server in front of a standalone cluster of three slots: two workers, and a driver beside them."""
    folder = tmp_path_factory.mktemp("connect")
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(StandaloneCluster(folder, workers=3))
        server = ConnectServer(folder / "connect.log", cluster.url)
        stack.callback(server.daemon.kill)
        yield server


@pytest.fixture(scope="module")
def yarn(machine: Machine, hdfs: str) -> Iterator[str]:
    """Return the settings of a YARN, which begins without applications.

    It has two NodeManagers, each with room for two containers.
    """
    yield machine.script("yarn.sh", "start", 2, "--memory-mb", 2048)
    machine.script("yarn.sh", "stop")


@pytest.fixture
def workers(machine: Machine) -> Iterator[str]:
    """Return the URL of a standalone cluster with one Worker of one core."""
    yield machine.script("spark_cluster.sh", "start", 1, "--cores", 1)
    machine.script("spark_cluster.sh", "stop", "--remove")


@pytest.fixture(scope="module")
def two_workers(machine: Machine) -> Iterator[str]:
    """Return the URL of a standalone cluster with two Workers of one core, that several searches may use."""
    yield machine.script("spark_cluster.sh", "start", 2, "--cores", 1)
    machine.script("spark_cluster.sh", "stop", "--remove")


@pytest.fixture(scope="session")
def undisturbed_search(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Submitted:
    """A search on a standalone cluster of two slots that nothing befalls."""
    folder = tmp_path_factory.mktemp("undisturbed")
    machine.script("spark_cluster.sh", "start", 2, "--cores", 1)
    options = (*SMALL, *TWO_EXECUTORS)
    with machine.submit("submit_standalone.sh", folder, *options, SEARCH, folder, folder / "study") as search:
        search.until("two trials at once", lambda: len(search.waiting()) == 2)
        search.open()
        assert "best: 1" in search.finish()
    machine.script("spark_cluster.sh", "stop", "--remove")
    return search


@pytest.fixture(scope="session")
def undisturbed(undisturbed_search: Submitted) -> Study:
    """The study of that search."""
    return require_whole(undisturbed_search, str(undisturbed_search.folder / "study"))


@pytest.fixture(scope="session")
def undisturbed_processes(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """The study of a search in processes of this machine, with a local store, that nothing befalls."""
    folder = tmp_path_factory.mktemp("undisturbed-processes")
    study = make_study(make_trainable(Gate(folder), trial_id=-1), folder / "study")
    return study.run(parallelism=2, display="none")

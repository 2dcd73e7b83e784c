"""One standalone cluster for all tests on Spark: starting its JVMs costs more than most of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from tests.spark.cluster import StandaloneCluster


@pytest.fixture(scope="session")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(standalone: StandaloneCluster) -> StandaloneCluster:
    """A Master and two Workers of one core each, without the executors of a test before. Kill none of the three."""
    executors = []
    for pid in standalone.executors():
        try:
            executors.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(executors)
    return standalone
